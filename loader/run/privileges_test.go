// SPDX-License-Identifier: Apache-2.0

package run

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"btc/internal/manifest"
	"btc/loader/output"
)

// asRoot are capabilities with which a process can become root.
var asRoot = map[int]string{
	unix.CAP_SYS_PTRACE: "CAP_SYS_PTRACE", unix.CAP_SETUID: "CAP_SETUID", unix.CAP_SETGID: "CAP_SETGID", unix.CAP_SETPCAP: "CAP_SETPCAP",
	unix.CAP_DAC_OVERRIDE: "CAP_DAC_OVERRIDE", unix.CAP_KILL: "CAP_KILL",
}

// What docs/security.md says of root is what is kept: an object without user stacks keeps nothing of the kind, and for one
// with them the page says so.
func TestKeptCapabilities(t *testing.T) {
	docs, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	kept := func(kind string) (names []string) {
		s := &session{opts: Options{Sink: &output.Text}, manifest: &manifest.Manifest{Maps: []manifest.Map{{Name: "@", Key: &manifest.Layout{Kind: kind}}}}}
		for _, k := range keptCapabilities {
			if name := asRoot[k.capability]; name != "" && k.needed(s) {
				names = append(names, name)
			}
		}
		return names
	}
	for _, kind := range []string{"uint", "kstack", "ksym", "string"} {
		if names := kept(kind); names != nil {
			t.Errorf("with %s, %v are kept", kind, names)
		}
	}
	for _, kind := range []string{"ustack", "usym"} {
		names := kept(kind)
		if len(names) > 0 != strings.Contains(string(docs), "**With `ustack`, `usym` and `dw_ustack`, `btrun` is root for as long as it runs.**") {
			t.Errorf("with %s, %v are kept; docs/security.md disagrees", kind, names)
		}
		for _, name := range names {
			if !strings.Contains(string(docs), "`"+name+"`") {
				t.Errorf("docs/security.md does not name %s", name)
			}
		}
	}
}
