// SPDX-License-Identifier: Apache-2.0

// Package load compiles every script of tests/corpus and examples and passes all programs of all
// objects to kernels and tools, without running any.
//
//	go test ./tests/load                      compile; as root also load, here and in guests
//	go test ./tests/load -script runqlat      only scripts whose names match
//	go test ./tests/load -update              rewrite testdata/insns.json
//
// The second line of a corpus script may be "// refused: TEXT": the script uses what the compiler does
// not support, and must be rejected with an error that has this text and a position.
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
	"btc/targets/kernel"
)

var (
	only   = flag.String("script", "", "only scripts whose names match this regular expression")
	update = flag.Bool("update", false, "rewrite testdata/insns.json")
)

// script is one script and the result of compiling it.
type script struct {
	name    string
	path    string
	text    string
	refused string // part of the expected error; "" if the script must compile

	out   *compile.Output
	again *compile.Output // result of a second compilation, under another path
	diags *diag.List
	panic string
}

// workers is the number of scripts compiled or loaded at the same time.
const workers = 2

// scripts returns all scripts, compiled once for all tests.
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
				return nil, fmt.Errorf("%s and %s have the same name", old, path)
			}
			seen[name] = path
			if wanted.MatchString(name) {
				list = append(list, &script{name: name, path: path, text: string(text), refused: refusal(string(text))})
			}
		}
	}
	return list, nil
}

// refusal returns the expected error in the second line of a script.
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

// each calls f for all scripts, several at a time.
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

// compiled returns the scripts that have an object. Those without one are reported by TestCompile only.
func compiled(t *testing.T) []*script {
	t.Helper()
	var list []*script
	for _, s := range all(t) {
		if s.out != nil {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		t.Skip("skipped: no script compiles (see TestCompile)")
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

// objects writes all objects to a directory.
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
