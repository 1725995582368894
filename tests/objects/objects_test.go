// SPDX-License-Identifier: Apache-2.0

// Package objects runs objects made by earlier compilers: btrun must run objects that are in use, or
// reject them with an error that says why.
//
// testdata has the scripts and the objects that btc compiled from them, with the date in their names.
// They are never compiled again. The test needs root; objects that this kernel does not support are
// skipped.
//
// testdata/digests.txt has the digests of the objects that btc makes today from the corpus and the
// examples, so that no change of the compiler changes them unnoticed.
package objects

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// cases are the runs; every object of a script must print the same.
var cases = []struct {
	script string
	args   []string // before the object
	params []string // after it
	want   string
}{
	{"calls", traced, nil, "oldsh /\noldsh /tmp\noldsh /nosuch\n\n\n@[/]: 1\n@[/nosuch]: 1\n@[/tmp]: 1\n@ret[-2]: 1\n@ret[0]: 2\n"},
	{"pattern", traced, nil, "\n\n@[tracepoint:syscalls:sys_enter_chdir]: 3\n"},
	{"exits", traced, nil, "\n\n@: 1\n"},
	{"tasks", nil, nil, "\n\n@[btrun]: 1\n"},
	{"clock", nil, nil, "ticked\n\n\n@n: 3\n"}, // 3 or more: a busy machine ends the run later
	{"shell", []string{"--allow", "system"}, []string{"7", "seven"}, "42\n\n7 seven\n\n\n"},
	{"values", nil, nil, `1 two ff 4   |
(1, 2)
%
end 1


@a[1, x]: (2, y)
@h:
[4, 8)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

@l:
[5, 10)                1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|

@s: { .count = 1, .average = 3, .total = 3 }
@sum: 12497500
`},
}

// traced runs a shell with a unique name that changes its directory three times.
var traced = []string{"-c", "./oldsh oldsh.sh"}

// moreTicks matches the count of a run that ended after its third tick.
var moreTicks = regexp.MustCompile(`@n: ([4-9]|[1-9]\d+)\n`)

func TestOldObjects(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: bpf(2) is not allowed")
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "btc/cmd/btrun")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Skip("skipped: ", err)
	}
	for name, text := range map[string][]byte{"oldsh": shell, "oldsh.sh": []byte("cd /\ncd /tmp\ncd /nosuch\nwhile read x; do :; done < /etc/passwd\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range cases {
		objects, err := filepath.Glob("testdata/" + c.script + "-*.o")
		if err != nil || len(objects) == 0 {
			t.Fatal(objects, err)
		}
		for _, object := range objects {
			t.Run(filepath.Base(object), func(t *testing.T) {
				path, err := filepath.Abs(object)
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(filepath.Join(dir, "btrun"), append(append(append([]string{"-q"}, c.args...), path), c.params...)...)
				cmd.Dir = dir
				if c.script == "tasks" { // other threads with its name may run, too
					cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
				}
				var messages strings.Builder
				cmd.Stderr = &messages
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v\n%s", err, messages.String())
				}
				if c.script == "clock" {
					out = moreTicks.ReplaceAll(out, []byte("@n: 3\n"))
				}
				if string(out) != c.want {
					t.Errorf("output:\n%s\nwant:\n%s\nstderr:\n%s", out, c.want, messages.String())
				}
			})
		}
	}
}
