// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// code compares what the kernel runs: the number of instructions of the loaded programs after the
// verifier has removed dead code, and the number of instructions that the verifier processed. It
// uses every script that both tools attach. If a script has several programs, their sum counts.
func (b *bench) code() error {
	scripts, err := b.codeScripts()
	if err != nil {
		return err
	}
	c := newCodeAxes()
	for _, script := range scripts {
		var sides [2]loadedSide
		for k, t := range b.tools() {
			sides[k] = load(t, script)
			if sides[k].Err != "" {
				break
			}
		}
		c.add(script, sides)
	}
	c.put(&b.result)
	return nil
}

// codeScripts returns the scripts that the code axes compare.
func (b *bench) codeScripts() ([]string, error) {
	var scripts []string
	for _, dir := range []string{"examples", "tests/corpus"} {
		list, err := filepath.Glob(filepath.Join(b.root, dir, "*.bt"))
		if err != nil {
			return nil, err
		}
		for i, script := range list {
			if b.matches(scriptName(script)) && (!b.quick || b.match != nil || i%8 == 0) {
				scripts = append(scripts, script)
			}
		}
	}
	return scripts, nil
}

func scriptName(path string) string { return strings.TrimSuffix(filepath.Base(path), ".bt") }

// codeAxes are the three axes of loaded code.
type codeAxes struct {
	insns, verified, jited axis
	left                   map[string]int
}

func newCodeAxes() *codeAxes {
	return &codeAxes{
		insns:    axis{Name: "code", Title: "Instructions after load"},
		verified: axis{Name: "verified", Title: "Instructions that the kernel's verifier went through"},
		jited:    axis{Name: "jited", Title: "Machine code after load"},
		left:     map[string]int{},
	}
}

// add compares the two loads of a script, btc's first, or records why they are not compared.
func (c *codeAxes) add(script string, sides [2]loadedSide) {
	name, mine, other := scriptName(script), sides[0], sides[1]
	switch {
	case mine.Err != "":
		c.left["btc"]++
		fmt.Printf("   %s left out: btc: %v\n", name, mine.Err)
	case other.Err != "":
		c.left["bpftrace"]++
		fmt.Printf("   %s left out: bpftrace: %v\n", name, other.Err)
	case mine.Count != other.Count:
		c.left["other programs"]++
		fmt.Printf("   %s left out: %d programs of btc, %d of bpftrace\n", name, mine.Count, other.Count)
	default:
		row := func(unit string, mine, other int) row {
			return compared(name, unit, exactly(float64(mine)), exactly(float64(other)))
		}
		c.insns.add(row("insns", mine.Insns, other.Insns))
		c.verified.add(row("verified", mine.Verified, other.Verified))
		c.jited.Rows = append(c.jited.Rows, row("bytes", mine.Jited, other.Jited))
	}
}

// put adds the finished axes to the result.
func (c *codeAxes) put(r *result) {
	c.insns.note("%d scripts; left out because this kernel or the tool cannot attach them: btc %d, bpftrace %d; because the two make different programs from them: %d",
		len(c.insns.Rows), c.left["btc"], c.left["bpftrace"], c.left["other programs"])
	c.insns.mean("translated instructions, geometric mean", geometric(c.insns.Rows), 0.7)
	c.insns.mean("the largest ratio", largest(c.insns.Rows), 1)
	c.verified.mean("instructions verified, geometric mean", geometric(c.verified.Rows), 0.7)
	c.jited.mean("bytes of machine code, geometric mean", geometric(c.jited.Rows), 0)
	for _, a := range []axis{c.insns, c.verified, c.jited} {
		r.put(a)
	}
}

// loadedSide is the result of loading a script with one tool: sums over its programs, or the reason why
// there are none.
type loadedSide struct {
	Count, Insns, Verified, Jited int
	Err                           string
}

func load(t tool, script string) loadedSide {
	s, err := loaded(t, script)
	if err != nil {
		return loadedSide{Err: firstLine(err)}
	}
	return s
}

func loaded(t tool, script string) (loadedSide, error) {
	var s loadedSide
	command, err := t.prepare(script, "")
	if err != nil {
		return s, err
	}
	tr, err := start(command())
	if err != nil {
		return s, err
	}
	list, err := tr.programs()
	tr.stop()
	if err != nil {
		return s, err
	}
	defer closeAll(list)
	if len(list) == 0 {
		return s, fmt.Errorf("no programs left")
	}
	for _, p := range list {
		s.Count++
		s.Insns += p.insns
		s.Verified += p.verified
		s.Jited += p.jited
	}
	return s, nil
}

// firstLine returns the first line of an error that is not a warning.
func firstLine(err error) string {
	s, rest, _ := strings.Cut(err.Error(), "\n")
	what, said, _ := strings.Cut(s, ": ")
	for line := range strings.Lines(said + "\n" + rest) {
		if strings.Contains(line, "ERROR") {
			return what + ": " + strings.TrimSpace(line)
		}
	}
	return s
}
