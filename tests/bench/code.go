package main

import (
	"fmt"
	"path/filepath"
	"strings"
)

// code compares what the kernel runs: the instructions of the loaded programs
// after the verifier removed what this kernel never reaches, and how many
// instructions it went through to accept them. Every script that both take is
// attached by both; a script with several programs counts as their sum.
func (b *bench) code() error {
	a := axis{Name: "code", Title: "Instructions after load"}
	v := axis{Name: "verified", Title: "Instructions that the kernel's verifier went through"}
	var scripts []string
	for _, dir := range []string{"examples", "tests/corpus"} {
		list, err := filepath.Glob(filepath.Join(b.root, dir, "*.bt"))
		if err != nil {
			return err
		}
		scripts = append(scripts, list...)
	}
	jited := axis{Name: "jited", Title: "Machine code after load"}
	left := map[string]int{}
	for i, script := range scripts {
		name := strings.TrimSuffix(filepath.Base(script), ".bt")
		if !b.matches(name) || b.quick && b.match == nil && i%8 != 0 {
			continue
		}
		mine, err := b.loaded(b.btc, script)
		if err != nil {
			left["btc"]++
			fmt.Printf("   %s left out: btc: %v\n", name, firstLine(err))
			continue
		}
		other, err := b.loaded(b.ref, script)
		if err != nil {
			left["bpftrace"]++
			fmt.Printf("   %s left out: bpftrace: %v\n", name, firstLine(err))
			continue
		}
		if mine.count != other.count {
			left["other programs"]++
			fmt.Printf("   %s left out: %d programs of btc, %d of bpftrace\n", name, mine.count, other.count)
			continue
		}
		a.add(compared(name, "insns", exactly(float64(mine.insns)), exactly(float64(other.insns))))
		v.add(compared(name, "verified", exactly(float64(mine.verified)), exactly(float64(other.verified))))
		jited.Rows = append(jited.Rows, compared(name, "bytes", exactly(float64(mine.jited)), exactly(float64(other.jited))))
	}
	a.note("%d scripts; left out because this kernel or tool does not run them to their end of attaching: btc %d, bpftrace %d; because the two make different programs of them: %d",
		len(a.Rows), left["btc"], left["bpftrace"], left["other programs"])
	a.mean("translated instructions, geometric mean", geometric(a.Rows), 0.7)
	a.mean("the largest ratio", largest(a.Rows), 1)
	v.mean("instructions verified, geometric mean", geometric(v.Rows), 0.7)
	jited.mean("bytes of machine code, geometric mean", geometric(jited.Rows), 0)
	b.result.put(a)
	b.result.put(v)
	b.result.put(jited)
	return nil
}

// firstLine is what an error says first, apart from warnings.
func firstLine(err error) string {
	s, rest, _ := strings.Cut(err.Error(), "\n")
	for line := range strings.Lines(rest) {
		if strings.Contains(line, "ERROR") {
			return s + ": " + strings.TrimSpace(line)
		}
	}
	return s
}

// sums of a tracer's programs.
type sums struct{ count, insns, verified, jited int }

func (b *bench) loaded(t tool, script string) (sums, error) {
	var s sums
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
		return s, fmt.Errorf("no program left")
	}
	for _, p := range list {
		s.count++
		s.insns += p.insns
		s.verified += p.verified
		s.jited += p.jited
	}
	return s, nil
}
