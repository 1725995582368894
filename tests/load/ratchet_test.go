// SPDX-License-Identifier: Apache-2.0

package load

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// ratchetFile holds the size of each program.
const ratchetFile = "testdata/insns.json"

// growth is the percentage by which a program may grow before the test fails.
const growth = 2

// ratchet is the contents of ratchetFile.
type ratchet struct {
	Kernel string `json:"kernel"` // kernel whose verifier counted; other kernels count differently
	// Programs by "script/program".
	Programs map[string]cost `json:"programs"`
}

type cost struct {
	Insns    int `json:"insns"`              // in the object, in slots of 8 bytes, without subprograms
	Verified int `json:"verified,omitempty"` // processed by the verifier
}

// TestInsns fails if a program has become larger, or costlier to verify, than recorded in the file. If
// a program has improved, run the test with -update.
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
			t.Errorf("%s is in %s but no longer exists (-update removes it)", name, ratchetFile)
		}
	}
	t.Logf("instructions: %s", change(was.Insns, is.Insns))
	if is.Verified > 0 {
		t.Logf("verified instructions: %s", change(was.Verified, is.Verified))
	} else {
		t.Logf("verified instructions not compared: counted on %s, running kernel is %q", old.Kernel, now.Kernel)
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
		t.Fatal("-update needs all scripts, and root to count verified instructions")
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
