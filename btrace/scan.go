// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"fmt"
	"reflect"
)

// Scan copies values to the variables that dst points to: integers to integers that can hold them,
// and values with a textual form (Enum, Symbol, User, ...) also to a string. A pointer to an empty
// interface takes any value, and nil drops one. Code that btc gen go writes uses it.
func Scan(values []Value, dst ...any) error {
	if len(dst) != len(values) {
		return fmt.Errorf("%d values for %d variables", len(values), len(dst))
	}
	for i, d := range dst {
		if d == nil {
			continue
		}
		if err := assign(reflect.ValueOf(d), values[i]); err != nil {
			return fmt.Errorf("value %d: %w", i, err)
		}
	}
	return nil
}

// ScanValue is Scan of one value.
func ScanValue(v Value, dst any) error { return Scan([]Value{v}, dst) }

func assign(p reflect.Value, v Value) error {
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return fmt.Errorf("%s is not a pointer to a variable", p.Type())
	}
	d, s := p.Elem(), reflect.ValueOf(v)
	if n, ok := v.(Number); ok {
		if s = reflect.ValueOf(n.Bits); n.Signed {
			s = reflect.ValueOf(int64(n.Bits))
		}
	}
	if e, ok := v.(Enum); ok && d.Kind() != reflect.String && d.Kind() != reflect.Struct {
		s = reflect.ValueOf(e.Value)
	}
	switch {
	case v == nil:
		d.SetZero()
		return nil
	case s.Type().AssignableTo(d.Type()):
		d.Set(s)
		return nil
	case d.Kind() == reflect.String:
		if text, ok := v.(fmt.Stringer); ok {
			d.SetString(text.String())
			return nil
		}
	case d.CanInt() && s.CanInt() && !d.OverflowInt(s.Int()):
		d.SetInt(s.Int())
		return nil
	case d.CanInt() && s.CanUint() && s.Uint() < 1<<63 && !d.OverflowInt(int64(s.Uint())):
		d.SetInt(int64(s.Uint()))
		return nil
	case d.CanUint() && s.CanUint() && !d.OverflowUint(s.Uint()):
		d.SetUint(s.Uint())
		return nil
	case d.CanUint() && s.CanInt() && s.Int() >= 0 && !d.OverflowUint(uint64(s.Int())):
		d.SetUint(uint64(s.Int()))
		return nil
	}
	return fmt.Errorf("%v (%T) does not fit into a %s", v, v, d.Type())
}
