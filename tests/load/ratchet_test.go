// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// ratchetFile holds what each program costs.
const ratchetFile = "testdata/insns.json"

// growth is by how many per cent a program may grow before the test fails.
const growth = 2

// ratchet is the content of ratchetFile.
type ratchet struct {
	Kernel string `json:"kernel"` // whose verifier counted; its counts say nothing of another's
	// Programs by "script/program".
	Programs map[string]cost `json:"programs"`
}

type cost struct {
	Insns    int `json:"insns"`              // emitted, in slots of 8 bytes, without subprograms
	Verified int `json:"verified,omitempty"` // that the verifier went through
}

// TestInsns fails when a program has become larger, or costlier to verify, than
// the file says. A better program is a reason to run -update.
func TestInsns(t *testing.T) {
	now := measure(t)
	if *update {
		writeRatchet(t, now)
		return
	}
	b, err := os.ReadFile(ratchetFile)
	if err != nil {
		t.Fatal(err)
	}
	var old ratchet
	if err := json.Unmarshal(b, &old); err != nil {
		t.Fatal(err)
	}
	var was, is cost
	for name, n := range now.Programs {
		o, ok := old.Programs[name]
		if !ok {
			t.Errorf("%s is not in %s (-update writes it)", name, ratchetFile)
			continue
		}
		was.Insns, is.Insns = was.Insns+o.Insns, is.Insns+n.Insns
		compare(t, name, "instructions", o.Insns, n.Insns)
		if now.Kernel != old.Kernel || o.Verified == 0 || n.Verified == 0 {
			continue
		}
		was.Verified, is.Verified = was.Verified+o.Verified, is.Verified+n.Verified
		compare(t, name, "verified instructions", o.Verified, n.Verified)
	}
	for name := range old.Programs {
		if _, ok := now.Programs[name]; !ok && *only == "" {
			t.Errorf("%s is in %s and no longer made (-update removes it)", name, ratchetFile)
		}
	}
	t.Logf("instructions: %s", change(was.Insns, is.Insns))
	if is.Verified > 0 {
		t.Logf("verified instructions: %s", change(was.Verified, is.Verified))
	} else {
		t.Logf("verified instructions not compared: they were counted on %s, this is %q", old.Kernel, now.Kernel)
	}
}

func compare(t *testing.T, name, what string, was, is int) {
	if is*100 > was*(100+growth) {
		t.Errorf("%s: %s %s", name, what, change(was, is))
	}
}

func change(was, is int) string {
	if was == 0 {
		return fmt.Sprint(is)
	}
	return fmt.Sprintf("%d -> %d (%+.1f %%)", was, is, 100*float64(is-was)/float64(was))
}

func measure(t *testing.T) ratchet {
	r := ratchet{Programs: map[string]cost{}}
	for _, s := range compiled(t) {
		for _, f := range s.out.Funcs {
			if f.Prog != nil {
				r.Programs[s.name+"/"+f.Name] = cost{Insns: f.NumInsns()}
			}
		}
	}
	if os.Geteuid() != 0 {
		return r
	}
	r.Kernel = release()
	for _, l := range native(t) {
		if c, ok := r.Programs[l.Object+"/"+l.Program]; ok && !l.Old {
			c.Verified = l.Insns
			r.Programs[l.Object+"/"+l.Program] = c
		}
	}
	return r
}

func writeRatchet(t *testing.T, r ratchet) {
	if *only != "" || r.Kernel == "" {
		t.Fatal("-update needs all scripts, and root for the verifier's counts")
	}
	b, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ratchetFile, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	var total cost
	for _, c := range r.Programs {
		total.Insns += c.Insns
		total.Verified += c.Verified
	}
	t.Logf("%d programs, %d instructions, %d verified on %s", len(r.Programs), total.Insns, total.Verified, r.Kernel)
}
