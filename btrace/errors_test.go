// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"btc/btrace"
)

// TestTypedErrors checks that errors of Load and Attach can be told apart by type, with what a program acts on.
func TestTypedErrors(t *testing.T) {
	needRoot(t)
	fails := func(script string, opts btrace.Options) error {
		t.Helper()
		s, err := btrace.Load(parsed(t, script), opts)
		if err == nil {
			err = s.Attach(context.Background())
			s.Close()
		}
		if err == nil {
			t.Fatalf("%s: no error", script)
		}
		return err
	}
	var permission *btrace.PermissionError
	err := fails("begin {\n  system(\"true\");\n}", btrace.Options{})
	if !errors.As(err, &permission) || permission.Permission != btrace.AllowSystem || permission.Line != 2 || !strings.Contains(err.Error(), "--allow system") {
		t.Errorf("permission: %#v", err)
	}
	var probe *btrace.ProbeError
	err = fails("uprobe:/proc/self/exe:no_such_function { @ = count(); }", btrace.Options{})
	if !errors.As(err, &probe) || probe.Line != 1 {
		t.Errorf("probe: %#v", err)
	}
	var container *btrace.ContainerError
	err = fails("tracepoint:sched:sched_process_exit { @ = count(); }", btrace.Options{Containers: []string{"no-such-container"}})
	if !errors.As(err, &container) || container.Name != "no-such-container" || len(container.Candidates) > 0 {
		t.Errorf("container: %#v", err)
	}
}

// TestActions checks that an object lists what it does besides observing.
func TestActions(t *testing.T) {
	o := parsed(t, "begin {\n  system(\"true\");\n}")
	actions, err := o.Actions()
	if err != nil || len(actions) != 1 || actions[0].Permission != btrace.AllowSystem || actions[0].Line != 2 || actions[0].What == "" {
		t.Errorf("%+v, %v", actions, err)
	}
	if actions, err := parsed(t, "begin { @ = count(); }").Actions(); err != nil || len(actions) > 0 {
		t.Errorf("observes: %+v, %v", actions, err)
	}
	if p := btrace.AllowFiles.In("/tmp/x"); p != "files=/tmp/x" {
		t.Errorf("AllowFiles.In = %s", p)
	}
}

// TestNoSuchMap checks that a map with a wrong name is an error, not a crash.
func TestNoSuchMap(t *testing.T) {
	s := loaded(t, "begin { @right = count(); }", btrace.Options{})
	m := s.Map("wrong")
	if m != nil || m.Name() != "" || m.Shape() != "" || m.Scalar() || m.KeyNames() != nil {
		t.Errorf("map %v", m)
	}
	if _, err := m.Snapshot(); !errors.Is(err, btrace.ErrNoMap) {
		t.Errorf("Snapshot: %v", err)
	}
	if _, err := m.Take(); !errors.Is(err, btrace.ErrNoMap) {
		t.Errorf("Take: %v", err)
	}
}

// TestRunEndsWithError checks the loop that ends with the session's error, and what was attached.
func TestRunEndsWithError(t *testing.T) {
	s := loaded(t, `interval:ms:10 { printf("x"); exit(); }`, btrace.Options{})
	attach(t, s)
	if sites := s.Sites(); len(sites) != 1 || sites[0].Probe != "interval:ms:10" || sites[0].Attached == 0 || sites[0].Err != nil {
		t.Errorf("sites %+v", sites)
	}
	maps, programs := s.BPF()
	if len(programs) == 0 || len(maps) == 0 {
		t.Errorf("maps %v, programs %v", maps, programs)
	}
	for name, all := range programs {
		if len(all) == 0 || slices.Contains(all, nil) {
			t.Errorf("program %s: %v", name, all)
		}
	}
	text := ""
	for e, err := range s.Run() {
		if err != nil {
			t.Fatal(err)
		}
		text += e.Text
	}
	if text != "x" {
		t.Errorf("events %q", text)
	}
	closed := loaded(t, `begin { exit(); }`, btrace.Options{})
	closed.Close()
	var last error
	for _, err := range closed.Run() {
		last = err
	}
	if !errors.Is(last, btrace.ErrClosed) {
		t.Errorf("closed: %v", last)
	}
	if maps, programs := closed.BPF(); maps != nil || programs != nil {
		t.Error("maps after Close")
	}
}

// TestSignatureError checks that Options.Signers refuse objects that they do not trust, before anything is loaded.
func TestSignatureError(t *testing.T) {
	const key = "RWSM1hI4eCxdpGD6fOMy5QCEoZJZ378YKgwTZeaJjJIdXxCd9sxMapU7"
	var e *btrace.SignatureError
	_, err := btrace.Load(parsed(t, `begin { exit(); }`), btrace.Options{Signers: []string{key}})
	if !errors.As(err, &e) || e.Reason != "unsigned" && e.Reason != "uncovered" {
		t.Errorf("not signed: %#v", err)
	}
	if _, err = btrace.Load(parsed(t, `begin { exit(); }`), btrace.Options{Signers: []string{"none"}}); err == nil || errors.As(err, &e) {
		t.Errorf("no key: %v", err)
	}
}
