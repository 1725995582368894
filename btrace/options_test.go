// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"btc/loader/object"
	"btc/loader/options"
	"btc/loader/run"
)

// filled returns a struct without zero fields, except those of kinds that cannot be compared.
func filled(t *testing.T, x any) {
	t.Helper()
	v := reflect.ValueOf(x).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		case reflect.Int, reflect.Int64:
			f.SetInt(int64(i + 1))
		case reflect.Uint64:
			f.SetUint(uint64(i + 1))
		case reflect.Float64:
			f.SetFloat(0.5)
		case reflect.Slice, reflect.Map, reflect.Func, reflect.Pointer, reflect.Interface:
		default:
			t.Fatalf("%s: the test does not know its kind", v.Type().Field(i).Name)
		}
	}
}

// same checks that two structs have the same fields, except those with these names.
func same(t *testing.T, got, want any, except ...string) {
	t.Helper()
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range w.NumField() {
		name := w.Type().Field(i).Name
		if w.Field(i).Kind() != reflect.Func && !slices.Contains(except, name) && !reflect.DeepEqual(g.FieldByName(name).Interface(), w.Field(i).Interface()) {
			t.Errorf("%s = %v, want %v", name, g.FieldByName(name), w.Field(i))
		}
	}
}

// TestOptionsReachRun checks that each option and each field of a report arrives in the run, which gets one process list,
// and defaults.
func TestOptionsReachRun(t *testing.T) {
	var o Options
	filled(t, &o)
	o.Args, o.Params, o.Cgroups, o.Containers = []string{"1"}, map[string]string{"a": "b"}, []string{"/"}, []string{"c"}
	o.Pods, o.Allow, o.Process = []string{"p"}, Permissions{"system"}, &Process{DropPrivileges: true}
	o.PIDs, o.Command, o.Mode, o.Timeout, o.Reload, o.Unwind, o.UnwindCache, o.Symbolize = []int{7}, "", "", time.Second, false, "dwarf", "/var/cache/btrun", "later"
	ro, err := o.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same(t, ro.Run, options.Run(o), "PIDs")
	if !slices.Equal(ro.PIDs, []int{o.PID, 7}) || ro.Context == nil || !ro.Grants.All || !ro.Grants.Has("system") {
		t.Errorf("processes %v, context %v, grants %v", ro.PIDs, ro.Context, ro.Grants)
	}

	if ro, err := (&Options{Reload: true}).run(t.Context()); err != nil || !ro.Run.Reload {
		t.Errorf("Reload does not arrive: %v", err)
	}

	var r Report
	filled(t, &r)
	r.Format, r.Buffer, r.Sort, r.Map, r.Buckets = "json", "none", "key", "", "/2"
	if err := r.sendTo(ro, &object.Object{}); err != nil {
		t.Fatal(err)
	}
	same(t, ro.Report, options.Report(r), "Live") // only on a terminal
	if ro.Sink == nil || ro.Sink.Name != "json" || ro.Live {
		t.Errorf("format %v, live %t", ro.Sink, ro.Live)
	}

	ro = &run.Options{}
	if err := (&Report{Top: 3}).sendTo(ro, &object.Object{Path: "/a/b.o"}); err != nil {
		t.Fatal(err)
	}
	if ro.Sink.Name != "text" || ro.Buffer != "line" || ro.Sort != "descending" || ro.Object != "b" {
		t.Errorf("defaults: format %s, buffer %s, order %s, object %s", ro.Sink.Name, ro.Buffer, ro.Sort, ro.Object)
	}
}
