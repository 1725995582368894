// SPDX-License-Identifier: Apache-2.0

// Command mutate measures which changes the unit tests of a package notice: it changes one operator,
// constant, condition or statement at a time and runs the package's own tests on the result.
//
//	go run ./tests/mutate [-n 10] [-seed 1] [-min 85] [package...]
//
// Without arguments it takes every package of the programs and libraries, but not generated code and not the tests.
// For each package it picks n of all possible changes at random, prints those that no test noticed, and
// the percentage of those noticed. The exit status is 1 if the percentage over all packages is less
// than -min. The source tree is not changed: go test reads the changed file through -overlay. Changes
// that do not compile are replaced by others. A test run that takes several times as long as without a
// change is killed and counts as noticed.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// everyPackage returns the packages of the module, without generated code, tests, and tools of its developers.
func everyPackage() ([]string, error) {
	out, err := exec.Command("go", "list", "./...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(p string) bool {
		_, p, _ = strings.Cut(p, "/")
		return p == "grammar/parser" || strings.HasPrefix(p, "tests/") || strings.HasPrefix(p, "tools/")
	}), nil
}

func main() {
	n := flag.Int("n", 10, "changes for each package")
	seed := flag.Int64("seed", 1, "of the draw")
	least := flag.Float64("min", 85, "least share of noticed changes, in percent")
	timeout := flag.Duration("timeout", 2*time.Minute, "most time for one test run")
	file := flag.String("file", "", "change only files whose name contains this")
	flag.Parse()
	packages := flag.Args()
	if len(packages) == 0 {
		var err error
		if packages, err = everyPackage(); err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(2)
		}
	}
	noticed, all := 0, 0
	for _, p := range packages {
		k, total, err := score(p, *n, *seed, *timeout, *file)
		if err != nil {
			fmt.Fprintln(os.Stderr, "mutate:", err)
			os.Exit(2)
		}
		noticed, all = noticed+k, all+total
		fmt.Printf("%-24s %3d of %3d noticed, %.0f %%\n", p, k, total, percent(k, total))
	}
	fmt.Printf("%-24s %3d of %3d noticed, %.0f %%\n", "all", noticed, all, percent(noticed, all))
	if percent(noticed, all) < *least {
		os.Exit(1)
	}
}

func percent(k, n int) float64 { return 100 * float64(k) / float64(max(n, 1)) }

// score applies n changes to a package and returns how many of them its tests noticed.
func score(pkg string, n int, seed int64, timeout time.Duration, only string) (noticed, total int, err error) {
	dir, files, err := sources(pkg)
	if err != nil {
		return 0, 0, err
	}
	var all []change
	for _, name := range files {
		if strings.Contains(name, only) {
			found, err := changes(filepath.Join(dir, name))
			if err != nil {
				return 0, 0, err
			}
			all = append(all, found...)
		}
	}
	tmp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(tmp)
	start := time.Now()
	if out, failed, _ := test(pkg, "", timeout); failed {
		return 0, 0, fmt.Errorf("%s: tests fail without any change:\n%s", pkg, out)
	}
	timeout = min(timeout, 10*time.Second+4*time.Since(start)) // a change may cause an infinite loop
	for _, i := range rand.New(rand.NewSource(seed)).Perm(len(all)) {
		if total == n {
			break
		}
		c := all[i]
		overlay, err := c.overlay(tmp)
		if err != nil {
			return 0, 0, err
		}
		out, failed, timedOut := test(pkg, overlay, timeout)
		if failed && !timedOut && strings.Contains(out, "[build failed]") {
			continue
		}
		total++
		if failed {
			noticed++
		} else {
			fmt.Printf("survived: %s\n", c)
		}
	}
	return noticed, total, nil
}

// sources returns the directory of a package and the names of its files.
func sources(pkg string) (dir string, files []string, err error) {
	out, err := exec.Command("go", "list", "-json=Dir,GoFiles", pkg).Output()
	if err != nil {
		return "", nil, fmt.Errorf("go list %s: %w", pkg, err)
	}
	var p struct {
		Dir     string
		GoFiles []string
	}
	err = json.Unmarshal(out, &p)
	return p.Dir, p.GoFiles, err
}

// test runs a package's tests.
func test(pkg, overlay string, timeout time.Duration) (out string, failed, timedOut bool) {
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-ldflags=-w", "-timeout", timeout.String()}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	text, err := exec.Command("go", append(args, pkg)...).CombinedOutput()
	return string(text), err != nil, strings.Contains(string(text), "panic: test timed out")
}

// overlay writes the changed file and the overlay description that refers to it.
func (c *change) overlay(dir string) (string, error) {
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, c.apply(), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {c.path: changed}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}
