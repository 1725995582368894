// SPDX-License-Identifier: Apache-2.0

// Package permit compares the actions that btrun derives from an object with what the compiler knows
// about its script, and tests objects with false manifests.
package permit

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"btc/compile"
	"btc/internal/manifest"
	"btc/internal/objfile"
	"btc/loader/object"
	"btc/loader/permit"
	"btc/targets/kernel"
)

// TestHelpersAreClassified checks that each helper that the compiler calls is either known as safe or requires a
// permission, and that no other helper is. The passes call helpers by name; the files left out only compare names.
func TestHelpersAreClassified(t *testing.T) {
	files, err := filepath.Glob("../../passes/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no passes: ", err)
	}
	code := ""
	for _, f := range files {
		switch filepath.Base(f) {
		case "cse.go", "dce.go", "scratch.go":
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") {
			code += string(text)
		}
	}
	for _, h := range kernel.Helpers() {
		_, known := permit.Classified(asm.BuiltinFunc(h.ID))
		if called := strings.Contains(code, `"`+h.Name+`"`); called != known {
			t.Errorf("bpf_%s (%d): the compiler calls it: %v, but it is classified: %v", h.Name, h.ID, called, known)
		}
		if name := object.HelperName(asm.BuiltinFunc(h.ID)); name != h.Name {
			t.Errorf("helper %d: name %s, but %s in the compiler", h.ID, name, h.Name)
		}
	}
	for id := range asm.BuiltinFunc(1000) {
		if _, known := permit.Classified(id); known && kernel.HelperByID(int32(id)) == nil {
			t.Errorf("helper %d is classified, and the compiler does not know it", id)
		}
	}
}

// compileObject compiles a script and reads the result in the same way as btrun.
func compileObject(t *testing.T, name, text string) *object.Object {
	t.Helper()
	x86, err := kernel.Default("x86_64")
	if err != nil {
		t.Fatal(err)
	}
	out, diags := compile.Compile(compile.Input{Name: name, Text: text, Target: x86, Compiler: "test"})
	if out == nil {
		t.Fatalf("%s: %v", name, diags)
	}
	m, err := manifest.Parse(out.Manifest)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	o, err := object.Parse(out.Object, m)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return o
}

// words are the permissions of the functions that are documented as unsafe.
var words = map[string]permit.Permission{
	"system": permit.System, "signal": permit.Signal, "signal_thread": permit.Signal, "override": permit.Override,
	"write_user": permit.WriteUser, "kprobe-address": permit.ProbeAddress,
}

// TestCorpus checks that each object shows exactly the actions that its script asks for.
func TestCorpus(t *testing.T) {
	files, err := filepath.Glob("../corpus/*.bt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts in the corpus: ", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		o := compileObject(t, filepath.Base(f), string(text))
		want := map[permit.Permission]bool{}
		for _, u := range o.Manifest.Unsafe {
			want[words[u.Name]] = true
		}
		for _, e := range o.Manifest.Events {
			if e.Kind == "skboutput" {
				want[permit.Files] = true
			}
		}
		have := map[permit.Permission]bool{}
		for _, a := range permit.Actions(o) {
			have[a.Permission] = true
			if !want[a.Permission] {
				t.Errorf("%s: object %s (%s), but its script does not ask for it", f, a.What, a.Permission)
			}
		}
		for p := range want {
			if !have[p] {
				t.Errorf("%s: action %s not found in the object", f, p)
			}
		}
	}
}

// TestPermissions checks that each dangerous action is rejected without its permission, with the
// position of its clause, and that only this permission allows it.
func TestPermissions(t *testing.T) {
	for _, c := range []struct{ script, allow, says string }{
		{`begin { system("id"); }`, "system", "x.bt:1:9: error: system() is unsafe"},
		{`kprobe:f { signal("KILL"); }`, "signal", "signal() is unsafe"},
		{`uprobe:/bin/sh:main { signal_thread("KILL"); }`, "signal", "signal_thread() is unsafe"},
		{`kprobe:f { override(1); }`, "override", "override() is unsafe"},
		{`fn poke($p : uint64) : int64 { write_user((int8 *)$p, "x", 1); return 0; } uprobe:/bin/sh:main { $a = poke(arg0); }`, "write-user", "write_user() is unsafe"},
		{`kprobe:f { debugf("x"); }`, "trace-printk", "writes to the kernel's trace buffer"},
		{`kprobe:0xffffffff81000000 { @ = 1; }`, "probe-address", "Probing by address"},
		{`rawtracepoint:netif_receive_skb { @ = skboutput("/tmp/d/x.pcap", args.skb, args.skb->len, 0); }`, "files=/tmp/d", "writes packets to /tmp/d/x.pcap"},
		{`iter:task:name { @ = 1; }`, "pins=/sys/fs/bpf", "pins an iterator at /sys/fs/bpf/name"},
	} {
		for _, lie := range []bool{false, true} {
			o := compileObject(t, "x.bt", c.script)
			if lie { // the list in the manifest must not be trusted
				o.Manifest.Unsafe = nil
			}
			says := c.says
			if lie && strings.HasPrefix(says, "x.bt:1:9") {
				says = "system() is unsafe"
			}
			err := new(permit.Grants).Check(o)
			if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "--allow "+c.allow) {
				t.Errorf("%s: Check without permissions = %v, want an error with the permission", c.script, err)
			}
			for _, p := range permit.All {
				g, text := new(permit.Grants), string(p.Name)
				if p.Path {
					text += "=/nowhere"
				}
				if name, _, _ := strings.Cut(c.allow, "="); name == string(p.Name) {
					text = c.allow
				}
				if err := g.Allow(text); err != nil {
					t.Fatal(err)
				}
				if err := g.Check(o); (err == nil) != (text == c.allow) {
					t.Errorf("%s: --allow %s: %v", c.script, text, err)
				}
			}
			if err := (&permit.Grants{All: true}).Check(o); err != nil {
				t.Errorf("%s: --unsafe: %v", c.script, err)
			}
		}
	}
}

// TestLies checks that objects whose two halves contradict each other are rejected.
func TestLies(t *testing.T) {
	rename := func(from, to string) func([]byte, *manifest.Manifest) []byte {
		return func(b []byte, _ *manifest.Manifest) []byte {
			return []byte(strings.Replace(string(b), from, to+strings.Repeat("\x00", len(from)-len(to)), 1)) // same length
		}
	}
	for _, c := range []struct {
		name, script, says string
		spoil              func([]byte, *manifest.Manifest) []byte
	}{
		{"fentry that decides results", `fentry:security_inode_mkdir { @ = 1; }`, "is wrong for", rename("fentry/security_inode_mkdir\x00", "fmod_ret/security_inode_m")},
		{"fentry that is an LSM program", `fentry:security_inode_mkdir { @ = 1; }`, "is wrong for", rename("fentry/security_inode_mkdir\x00", "lsm/security_inode_mkdirxxx")},
		{"sleepable", `fentry:security_inode_mkdir { @ = 1; }`, "flags", rename("fentry/security_inode_mkdir\x00", "fentry.s/security_inode_mkd")},
		{"program without a name in the manifest", `begin { @ = 1; } end { @ = 2; }`, "does not name", func(b []byte, m *manifest.Manifest) []byte {
			m.Programs = m.Programs[:1]
			return b
		}},
		{"map without a name in the manifest", `begin { @x[1] = 1; }`, "does not name", func(b []byte, m *manifest.Manifest) []byte {
			m.Maps = slices.DeleteFunc(m.Maps, func(x manifest.Map) bool { return x.Name == "@x" })
			m.Losses, m.Events = nil, m.Events[:0]
			return b
		}},
		{"printf as a shell command", `begin { printf("id\n"); }`, "", func(b []byte, m *manifest.Manifest) []byte {
			m.Events[0].Kind = "system"
			return b
		}},
	} {
		x86, err := kernel.Default("x86_64")
		if err != nil {
			t.Fatal(err)
		}
		out, diags := compile.Compile(compile.Input{Name: "x.bt", Text: c.script, Target: x86, Compiler: "test"})
		if out == nil {
			t.Fatalf("%s: %v", c.name, diags)
		}
		m, err := manifest.Parse(out.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		bare, _, err := objfile.Split(out.Object)
		if err != nil {
			t.Fatal(err)
		}
		data := c.spoil(bare, m)
		sum := sha256.Sum256(data)
		m.Object = manifest.Object{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
		o, err := object.Parse(data, m)
		if c.says == "" && err == nil {
			err = new(permit.Grants).Check(o)
			c.says = "system() is unsafe"
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error = %v, want %q", c.name, err, c.says)
		}
	}
}

// build builds a program of the project into a directory, with the options of a release.
func build(t *testing.T, dir, name string) (path string) {
	t.Helper()
	path = filepath.Join(dir, name)
	cmd := exec.Command("go", "build", "-o", path, "btc/cmd/"+name)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", err, out)
	}
	return path
}

// TestDryRun checks that a dry run does nothing that the object asks for, and leaves nothing behind.
func TestDryRun(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	dir := t.TempDir()
	btc, btrun := build(t, dir, "btc"), build(t, dir, "btrun")
	script := `begin { printf("begin ran\n"); system("touch ` + dir + `/touched"); } end { printf("end ran\n"); }
		interval:ms:1 { printf("interval ran\n"); } iter:task:dry_run_` + filepath.Base(dir) + ` { @ = 1; }`
	o := filepath.Join(dir, "x.o")
	if out, err := exec.Command(btc, "compile", "-e", script, "-o", o).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", err, out)
	}
	out, err := exec.Command(btrun, "--dry-run", "--unsafe", "-c", "touch "+dir+"/child", o).CombinedOutput()
	if err != nil {
		if strings.Contains(string(out), "not permitted") {
			t.Skip("skipped: this machine does not let root load programs: ", string(out))
		}
		t.Fatalf("%s: %s", err, out)
	}
	if string(out) != "Verified 4 programs\n" {
		t.Errorf("--dry-run printed %q", out)
	}
	for _, name := range []string{filepath.Join(dir, "touched"), filepath.Join(dir, "child"), "/sys/fs/bpf/dry_run_" + filepath.Base(dir)} {
		if _, err := os.Stat(name); err == nil {
			os.Remove(name)
			t.Errorf("--dry-run left %s behind", name)
		}
	}
}

// TestAddressesOfPrograms checks that --inspect names the permission for uprobes whose sites only the host can prove,
// and for no others.
func TestAddressesOfPrograms(t *testing.T) {
	for script, listed := range map[string]bool{
		`uprobe:/bin/sh:0x1168 { @ = 1; }`: true, `uretprobe:/bin/sh:0x1168 { @ = 1; }`: true, `uprobe:/bin/sh:main+4 { @ = 1; }`: true,
		`uprobe:/bin/sh:$1 { @ = 1; }`: true, `uprobe:/bin/sh:main+$1 { @ = 1; }`: true,
		`uprobe:/bin/sh:main { @ = 1; }`: false, `uretprobe:/bin/sh:main { @ = 1; }`: false, `uprobe:/bin/sh:m* { @ = 1; }`: false,
		`uprobe:$1:main { @ = 1; }`: false, `usdt:/bin/sh:a:b { @ = 1; }`: false,
	} {
		o := compileObject(t, "x.bt", script)
		d := permit.Describe(o, 1)
		if slices.Contains(d.Permissions, string(permit.ProbeAddress)) != listed || len(d.Actions) > 0 != listed {
			t.Errorf("%s: permissions %v, actions %v", script, d.Permissions, d.Actions)
		}
		if err := (&permit.Grants{}).Check(o); err != nil {
			t.Errorf("%s: refused before the host's file is known: %v", script, err)
		}
	}
}

// TestDescriptionIsOfWhatIsActedOn checks that --inspect describes attach points by the fields that the
// loader uses, rather than by the description in the manifest.
func TestDescriptionIsOfWhatIsActedOn(t *testing.T) {
	for _, c := range []struct {
		script string
		lie    func(*manifest.Attach)
		want   string
	}{
		{`tracepoint:syscalls:sys_enter_openat { @ = 1; }`, func(a *manifest.Attach) { a.Name = "sys_enter_write" }, "tracepoint:syscalls:sys_enter_write"},
		{`uprobe:/bin/sh:main { @ = 1; }`, func(a *manifest.Attach) { a.Target, a.Name, a.Addr = "/sbin/init", "", 16 }, "uprobe:/sbin/init:0x10"},
		{`interval:s:1 { @ = 1; }`, func(a *manifest.Attach) { a.Text, a.Unit = "begin", "us" }, "interval:us:1"},
		{`kprobe:$1 { @ = 1; }`, func(a *manifest.Attach) { a.Text, a.Substitute = "begin", []string{"$1*"} }, "kprobe:$1*"},
	} {
		o := compileObject(t, "x.bt", c.script)
		c.lie(&o.Manifest.Programs[0].Attach)
		if got := permit.Describe(o, 1).Probes[0].Text; got != c.want {
			t.Errorf("%s: Describe().Probes[0].Text = %q, want %q", c.script, got, c.want)
		}
	}
	// In a truthful manifest, both are the same.
	files, err := filepath.Glob("../corpus/*.bt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts in the corpus: ", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range compileObject(t, filepath.Base(f), string(text)).Manifest.Programs {
			if got := p.Attach.Attaches(p.Kind); got != p.Attach.Text {
				t.Errorf("%s: attach point %d: Attaches() = %q, Text = %q", f, i, got, p.Attach.Text)
			}
		}
	}
}
