// SPDX-License-Identifier: Apache-2.0

// Package load compiles every script of tests/corpus and examples and puts all
// programs of all objects before kernels and tools, without running any.
//
//	go test ./tests/load                      compile; as root also load; guests
//	go test ./tests/load -script runqlat      scripts whose names match
//	go test ./tests/load -update              rewrite testdata/insns.json
//
// A corpus script whose second line is "// refused: TEXT" uses what the
// compiler does not do yet: it must be refused with that text, at a place.
package load

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"btc/compile"
	"btc/frontend/diag"
	"btc/ir/kernel"
)

var (
	only   = flag.String("script", "", "only scripts whose names match this regular expression")
	update = flag.Bool("update", false, "rewrite testdata/insns.json")
)

// script is one script and what became of it.
type script struct {
	name    string
	path    string
	text    string
	refused string // text of the error that it must give; "" when it must compile

	out   *compile.Output
	again *compile.Output // compiled a second time, under another path
	diags *diag.List
	panic string
}

// workers compile or load at the same time.
const workers = 2

// scripts are all scripts, compiled once for all tests.
var scripts = sync.OnceValues(func() ([]*script, error) {
	list, err := find("../corpus/*.bt", "../../examples/*.bt")
	if err != nil {
		return nil, err
	}
	t, err := kernel.Default("x86_64")
	if err != nil {
		return nil, err
	}
	each(list, func(s *script) { s.compile(t) })
	return list, nil
})

func find(patterns ...string) ([]*script, error) {
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return nil, err
	}
	var list []*script
	seen := map[string]string{}
	for _, pattern := range patterns {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			name := strings.TrimSuffix(filepath.Base(path), ".bt")
			if strings.HasPrefix(pattern, "../../examples") {
				name = "example-" + name
			}
			if old, ok := seen[name]; ok {
				return nil, fmt.Errorf("%s and %s have one name", old, path)
			}
			seen[name] = path
			if wanted.MatchString(name) {
				list = append(list, &script{name: name, path: path, text: string(text), refused: refusal(string(text))})
			}
		}
	}
	return list, nil
}

// refusal is what the second line of a script says it must be refused with.
func refusal(text string) string {
	lines := strings.SplitN(text, "\n", 3)
	if len(lines) < 2 {
		return ""
	}
	s, _ := strings.CutPrefix(lines[1], "// refused: ")
	if s == lines[1] {
		return ""
	}
	return s
}

// each calls f for all scripts, some at a time.
func each(list []*script, f func(*script)) {
	next := make(chan *script)
	var done sync.WaitGroup
	for range workers {
		done.Go(func() {
			for s := range next {
				f(s)
			}
		})
	}
	for _, s := range list {
		next <- s
	}
	close(next)
	done.Wait()
}

func (s *script) compile(t *kernel.Target) {
	defer func() {
		if p := recover(); p != nil {
			s.panic = fmt.Sprintf("%v\n%s", p, debug.Stack())
		}
	}()
	in := compile.Input{PlainNames: true, Name: s.name + ".bt", Text: s.text, Target: t, Verify: true, Compiler: "btc test"}
	s.out, s.diags = compile.Compile(in)
	if s.out != nil {
		in.Verify = false
		s.again, _ = compile.Compile(in)
	}
}

// compiled are the scripts that have an object. What has none is reported by
// TestCompile alone.
func compiled(t *testing.T) []*script {
	t.Helper()
	var list []*script
	for _, s := range all(t) {
		if s.out != nil {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		t.Skip("skipped: no script compiles (TestCompile says why)")
	}
	return list
}

func all(t *testing.T) []*script {
	t.Helper()
	list, err := scripts()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// objects writes all objects into a directory.
func objects(t *testing.T, list []*script) string {
	t.Helper()
	dir := t.TempDir()
	for _, s := range list {
		for ext, content := range map[string][]byte{".o": s.out.Object, ".json": s.out.Manifest} {
			if err := os.WriteFile(filepath.Join(dir, s.name+ext), content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}
