// SPDX-License-Identifier: Apache-2.0

// Package modulepath tests copies of this tree that are changed as the documents say: another module can require a renamed
// one, from a module proxy in a directory, and use its library; the change of docs/contributing/builtin.md works.
package modulepath

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	path    = "example.com/tools/btc"
	version = "v0.1.0"
)

// program uses the library together with the output of btc gen go.
const program = `package main

import (
	"context"
	"fmt"
	"log"

	"PATH/btrace"
)

//go:generate btc gen go reads.bt

func main() {
	s, err := LoadReads(ReadsParams{Times: 3}, btrace.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	if err := s.Attach(context.Background()); err != nil {
		log.Fatal(err)
	}
	for e := range s.Events() {
		switch x := s.Event(e).(type) {
		case *ReadsPrintf1:
			fmt.Println(x.Getopt, x.Arg2)
		}
	}
	calls, err := s.Calls()
	fmt.Println(len(calls), calls[0].Key1, calls[0].Value, err)
}
`

const script = `begin { printf("%d %s\n", getopt("times", 1), "text"); @calls["key"] = count(); exit(); }
tracepoint:syscalls:sys_enter_lseek /pid == getopt("only", 0) && getopt("flag", false)/ {
	@h[comm, args.offset, kstack] = hist(args.offset); @a[pid] = avg(3); @events = str($2); @low = min(args.offset); print((1, comm));
}`

func TestOtherModule(t *testing.T) {
	tree, proxy, other := t.TempDir(), t.TempDir(), t.TempDir()
	files := copyTree(t, tree)
	run(t, tree, nil, "make", "-s", "module-path", "MODULE="+path)
	if out := run(t, tree, nil, "grep", "-rlE", `"btc/(loader|btrace|internal|compile|cmd)`, "--include=*.go", "--exclude-dir=modulepath", "."); out != "" {
		t.Errorf("files with the old path:\n%s", out)
	}
	serve(t, tree, proxy, files)
	for name, text := range map[string]string{
		"main.go": strings.ReplaceAll(program, "PATH", path), "reads.bt": script,
		"go.mod": fmt.Sprintf("module example.org/agent\n\ngo 1.26\n\nrequire %s %s\n", path, version),
	} {
		if err := os.WriteFile(filepath.Join(other, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	bin := t.TempDir()
	run(t, "../..", nil, "go", "build", "-o", bin, "./cmd/btc")
	// By default, the generated code imports the library of the btc that generated it.
	run(t, other, nil, filepath.Join(bin, "btc"), "gen", "go", "--library", path+"/btrace", "--package", "main", "reads.bt")
	cache := strings.TrimSpace(run(t, other, nil, "go", "env", "GOMODCACHE"))
	env := []string{"GOPROXY=file://" + proxy + ",file://" + filepath.Join(cache, "cache", "download"), "GONOSUMDB=*", "GONOSUMCHECK=1", "GOFLAGS=-mod=mod",
		"GONOPROXY=none", "GOPRIVATE=", "GOSUMDB=off", "GOMODCACHE=" + modCache(t)}
	run(t, other, env, "go", "build", "-o", "agent", ".")
	out := run(t, other, nil, filepath.Join(other, "agent"))
	want := "3 text\n1 key 1 <nil>\n"
	if os.Geteuid() != 0 {
		if !strings.Contains(out, "root") && !strings.Contains(out, "permitted") && !strings.Contains(out, "CAP_") {
			t.Errorf("program without root: %s", out)
		}
		return
	}
	if out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}

// modCache returns a separate module cache whose files can be removed.
func modCache(t *testing.T) string {
	dir, err := os.MkdirTemp("", "modcache")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		exec.Command("chmod", "-R", "u+w", dir).Run()
		os.RemoveAll(dir)
	})
	return dir
}

// copyTree copies the files of this tree that are in git.
func copyTree(t *testing.T, to string) []string {
	t.Helper()
	list := run(t, "../..", nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	var files []string
	for name := range strings.SplitSeq(strings.TrimRight(list, "\x00"), "\x00") {
		from := filepath.Join("../..", name)
		info, err := os.Lstat(from)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), b, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
		files = append(files, name)
	}
	if len(files) == 0 {
		t.Skip("skipped: the files of this tree are not in git")
	}
	return files
}

// serve creates the files of a module proxy for a tree.
func serve(t *testing.T, tree, proxy string, files []string) {
	t.Helper()
	dir := filepath.Join(proxy, path, "@v")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"list": version + "\n", version + ".mod": string(mod), version + ".info": `{"Version":"` + version + `"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := zip.NewWriter(f)
	for _, name := range files {
		if nested(tree, name) {
			continue
		}
		from, err := os.Open(filepath.Join(tree, name))
		if err != nil {
			t.Fatal(err)
		}
		w, err := z.Create(path + "@" + version + "/" + name)
		if err == nil {
			_, err = io.Copy(w, from)
		}
		from.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
}

// nested reports whether a file belongs to a nested module, which is not part of the zip file.
func nested(tree, name string) bool {
	for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(tree, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// run runs a command and returns its output. grep may exit with status 1.
func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil && name != "grep" {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
	}
	return string(out)
}
