// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"errors"
	"slices"
	"testing"

	"github.com/cilium/ebpf"

	"btc/internal/manifest"
	"btc/loader/containers"
	"btc/loader/diag"
	"btc/loader/host"
	"btc/loader/permit"
	"btc/loader/resolve"
)

// TestTyped checks the public type for each error of the loader, and that its message and cause stay.
func TestTyped(t *testing.T) {
	script := &manifest.Script{File: "x.bt", Source: "begin { }"}
	in := func(cause error) error {
		return &diag.Error{Script: script, Pos: manifest.Pos{Line: 1, Col: 3}, Text: "text", Cause: cause}
	}
	at := Position{"x.bt", 1, 3}
	is := func(ok bool, err error) {
		t.Helper()
		if !ok {
			t.Errorf("%#v", err)
		}
	}
	plain := errors.New("plain")
	for _, err := range []error{
		in(&ebpf.VerifierError{Cause: plain, Log: []string{"a"}}), in(permit.Refused{Action: &permit.Action{Permission: permit.Files, Path: "/f"}}), in(&permit.Limited{At: "p:1"}),
		in(&resolve.Missing{}), in(&resolve.Failure{Cause: plain}), &containers.NotFoundError{Name: "n"}, &containers.AmbiguousError{Candidates: []string{"a", "b"}}, &host.ErrNoBPF{Text: "x"},
	} {
		got := typed(err)
		if got == err || got.Error() != err.Error() || !errors.Is(got, err) {
			t.Errorf("typed(%#v) = %#v", err, got)
		}
		switch e := got.(type) {
		case *VerifierError:
			is(e.Position == at && len(e.Log) == 1, got)
		case *PermissionError:
			is(e.Position == at && e.Permission == AllowFiles && e.Path == "/f", got)
		case *PolicyError:
			is(e.Position == at && e.Setting == "p:1", got)
		case *ProbeError:
			is(e.Position == at && e.Missing == resolve.IsMissing(err), got)
		case *ContainerError:
			is(e.Name == "n" || len(e.Candidates) == 2, got)
		case *HostError:
		default:
			t.Errorf("%T", got)
		}
	}
	if typed(nil) != nil || typed(plain) != plain {
		t.Error("an error without a type changes")
	}
	names := Permissions{AllowSystem, AllowSignal, AllowOverride, AllowWriteUser, AllowProbeAddress, AllowLongLoops, AllowTracePrintk, AllowFiles, AllowPins}
	for _, p := range permit.All {
		if !slices.Contains(names, p.Name) {
			t.Errorf("permission %s has no constant", p.Name)
		}
	}
}
