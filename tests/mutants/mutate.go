// SPDX-License-Identifier: Apache-2.0

// Package mutants changes the meaning of manifests. It takes a valid manifest and returns similar ones
// with numbers, strings and lists that are wrong in the ways an attacker would choose. Unlike random
// bytes, these often pass the first check.
package mutants

import (
	"math/rand/v2"
	"reflect"
	"strings"

	"btc/internal/manifest"
)

// field is a value of the manifest that can be set.
type field struct {
	value reflect.Value
	key   string // name of the struct field that contains it
}

// Mutate changes one to three values of m, which the caller owns.
func Mutate(m *manifest.Manifest, r *rand.Rand) {
	for range 1 + r.IntN(3) {
		var all []field
		collect(reflect.ValueOf(m).Elem(), "", &all)
		change(choose(all, r), all, r)
	}
}

// choose first picks the name of a field: most values belong to layouts, and rare fields would hardly
// ever be chosen otherwise.
func choose(all []field, r *rand.Rand) field {
	byKey := map[string][]field{}
	var keys []string
	for _, p := range all {
		if byKey[p.key] == nil {
			keys = append(keys, p.key)
		}
		byKey[p.key] = append(byKey[p.key], p)
	}
	some := byKey[keys[r.IntN(len(keys))]]
	return some[r.IntN(len(some))]
}

// collect appends the values in v to all, including lists and their elements.
func collect(v reflect.Value, key string, all *[]field) {
	switch v.Kind() {
	case reflect.Pointer:
		*all = append(*all, field{v, key})
		if !v.IsNil() {
			collect(v.Elem(), key, all)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			collect(v.Field(i), v.Type().Field(i).Name, all)
		}
	case reflect.Slice:
		*all = append(*all, field{v, key})
		for i := range v.Len() {
			collect(v.Index(i), key, all)
		}
	default:
		*all = append(*all, field{v, key})
	}
}

// numbers are numbers for which sizes, offsets and counts go wrong.
var numbers = []int64{0, 1, -1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 63, 64, 65, 255, 256, 4095, 4096, 65535, 65536, 1 << 20, 1<<20 + 1, 1 << 27,
	1<<31 - 1, 1 << 31, 1<<32 - 1, 1 << 32, 1 << 40, 1 << 62, 1<<63 - 1, -1 << 63, -8, -1 << 31, 1000000, 999999}

// words are values of the manifest's enumerations, and strings that confuse code for paths, formats and
// patterns.
var words = append(strings.Fields(`kprobe kretprobe uprobe uretprobe usdt tracepoint rawtracepoint fentry fexit profile interval software hardware watchpoint
	iter begin end self test bench plain count sum avg min max stats hist lhist tseries stack intern array percpu_array hash percpu_hash lru_hash
	lru_percpu_hash ringbuf perf_event_array array_of_maps int bool ptr enum string buffer tuple record kstack ustack ksym usym inet mac timestamp probe username
	cgroup_path none printf print print_map clear zero exit time join cat system error helper_error proc unwind unwatch skboutput errorf warnf events map
	scratch unused hz us ms s .bss .rodata .data @ @x events lost gen signed
	unsigned ignore warn task task_file /dev/* /*/*/*/* * ? [ {} ../.. / . %s %d %4096s %-65535d %*d %n %c%c%c%r %Y%Y%Y cpp rw x`), hostValues()...)

func change(p field, all []field, r *rand.Rand) {
	v := p.value
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		switch r.IntN(3) {
		case 0:
			v.SetInt(v.Int() + int64(r.IntN(17)-8))
		case 1:
			v.SetInt(numbers[r.IntN(len(numbers))])
		default:
			v.SetInt(other(p, all, r).Int())
		}
	case reflect.Uint64:
		v.SetUint(uint64(numbers[r.IntN(len(numbers))]))
	case reflect.String:
		switch r.IntN(4) {
		case 0:
			v.SetString(other(p, all, r).String())
		case 1:
			v.SetString(strings.Repeat(words[r.IntN(len(words))], 1+r.IntN(300)))
		case 2:
			v.SetString(v.String() + string([]byte{0, 0x1b, 0xff, '%', '\n', '$', '\\'}[r.IntN(7)]))
		default:
			v.SetString(words[r.IntN(len(words))])
		}
	case reflect.Slice:
		changeList(v, r)
	case reflect.Pointer:
		changePointer(p, all, r)
	case reflect.Map:
		v.SetZero()
	}
}

// other returns a value of the same type; half of the time, from a field of the same name.
func other(p field, all []field, r *rand.Rand) reflect.Value {
	same := r.IntN(2) == 0
	for range 32 {
		q := all[r.IntN(len(all))]
		if q.value.Type() == p.value.Type() && (!same || q.key == p.key) {
			return q.value
		}
	}
	return p.value
}

func changeList(v reflect.Value, r *rand.Rand) {
	n := v.Len()
	if n == 0 {
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
		return
	}
	at := r.IntN(n)
	copied := reflect.MakeSlice(v.Type(), 0, n+1)
	for i := range n {
		switch {
		case i != at:
			copied = reflect.Append(copied, v.Index(i))
		case r.IntN(2) == 0: // duplicate an element
			copied = reflect.Append(copied, v.Index(i), v.Index(i))
		case r.IntN(2) == 0: // replace an element by another
			copied = reflect.Append(copied, v.Index(r.IntN(n)))
		}
	}
	v.Set(copied)
}

// clone returns a deep copy of a pointer, struct or list.
func clone(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(clone(v.Elem()))
	case v.Kind() == reflect.Slice && !v.IsNil():
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(clone(v.Index(i)))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			c.Field(i).Set(clone(v.Field(i)))
		}
	}
	return c
}

func changePointer(p field, all []field, r *rand.Rand) {
	if o := other(p, all, r); r.IntN(3) > 0 && !o.IsNil() {
		p.value.Set(clone(o)) // o may contain p
		return
	}
	if p.value.IsNil() {
		p.value.Set(reflect.New(p.value.Type().Elem()))
		return
	}
	p.value.SetZero()
}

func hostValues() (all []string) {
	for _, h := range manifest.HostValues {
		all = append(all, string(h))
	}
	return all
}
