// SPDX-License-Identifier: Apache-2.0

package output

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBytes checks that standard output is the same as bpftrace's, byte for byte, including the blank
// lines: one before the output of the end of a run, and one before its maps.
func TestBytes(t *testing.T) {
	dir := programs(t)
	for name, c := range map[string]struct {
		script  string
		options []string
		want    string
	}{
		"begin":            {script: `begin { printf("a\n"); }`, want: "a\n\n\n"},
		"end":              {script: `begin { printf("a\n"); } end { printf("b\n"); }`, want: "a\nb\n\n\n"},
		"map":              {script: `begin { printf("a\n"); @x = 1; exit(); }`, want: "a\n\n\n@x: 1\n"},
		"no line end":      {script: `begin { printf("a"); @x = 1; }`, want: "a\n\n@x: 1\n"},
		"interval":         {script: `interval:ms:10 { @x[1] = 1; exit(); } end { printf("e\n"); }`, want: "e\n\n\n@x[1]: 1\n"},
		"quiet":            {script: `begin { printf("a\n"); @x = 1; }`, options: []string{"-q"}, want: "a\n\n\n@x: 1\n"},
		"no maps":          {script: `config = { print_maps_on_exit = 0 } begin { printf("a\n"); @x = 1; }`, want: "a\n\n\n"},
		"emptied map":      {script: `begin { @a[1] = 1; @b[1] = 1; clear(@a); }`, want: "\n\n@b[1]: 1\n"},
		"command":          {script: `begin { @x = 1; } interval:s:100 { exit(); }`, options: []string{"-c", "/bin/true"}, want: "\n\n@x: 1\n"},
		"histogram":        {script: `begin { @h = lhist(3, 0, 4, 2); @k[1] = lhist(1, 0, 2, 1); @x = 1; }`, want: "\n\n@h:\n[2, 4)                 1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\n@k[1]:\n[1]                    1 |@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@|\n\n@x: 1\n"},
		"printed maps":     {script: `begin { @a = 1; @b[1] = 2; print(@a); print(@b); @c[2] = 1; clear(@c); print(@c); }`, want: "@a: 1\n@b[1]: 2\n\n\n@a: 1\n@b[1]: 2\n"},
		"system":           {script: `begin { system("echo a"); system("true"); system("printf b"); }`, options: []string{"--unsafe"}, want: "a\n\n\nb\n\n\n"},
		"lines of JSON":    {script: `begin { system("echo a"); @x = 1; }`, options: []string{"--unsafe", "-q", "-f", "json"}, want: `{"type": "syscall", "data": "a\n"}` + "\n" + `{"type": "map", "data": {"@x": 1}}` + "\n"},
		"attached, nought": {script: `begin { printf("a\n"); }`, options: []string{"--dry-run"}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			object := filepath.Join(t.TempDir(), "s.o")
			if text, err := exec.Command(filepath.Join(dir, "btc"), "compile", "-e", c.script, "-o", object).CombinedOutput(); err != nil {
				t.Fatalf("btc compile: %v\n%s", err, text)
			}
			stdout, _ := run(t, dir, nil, append(c.options, object)...)
			if string(stdout) != c.want {
				t.Errorf("stdout %q\nwant %q", stdout, c.want)
			}
		})
	}
}
