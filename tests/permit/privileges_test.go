// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threads returns the values of keys in /proc/PID/task/TID/status for each thread of a process.
func threads(t *testing.T, pid int, keys ...string) map[string][]string {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	all := map[string][]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has exited
		}
		values := make([]string, len(keys))
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			for i := range keys {
				if key == keys[i] {
					values[i] = strings.TrimSpace(value)
				}
			}
		}
		all[file] = values
	}
	return all
}

// mask returns a set of capabilities in the form of /proc/PID/status.
func mask(capabilities ...uint) string {
	bits := uint64(0)
	for _, c := range capabilities {
		bits |= 1 << c
	}
	return fmt.Sprintf("%016x", bits)
}

// TestPrivilegesOfThreads checks that after attaching, no thread of btrun has a capability that
// docs/security.md does not list for the script, and that none can regain one.
func TestPrivilegesOfThreads(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	dir := t.TempDir()
	btc, btrun := build(t, dir, "btc"), build(t, dir, "btrun")
	busy := filepath.Join(dir, "busy")
	if err := os.WriteFile(busy, []byte("#!/bin/sh\nwhile :; do :; done\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	const ticks = ` interval:ms:20 { printf("tick\n"); }`
	for i, c := range []struct {
		script string
		args   []string
		want   string // "": unchanged since the start
	}{
		{`begin { @ = 1; }` + ticks, nil, mask(unix.CAP_BPF, unix.CAP_PERFMON)},
		{`begin { cat("/proc/self/comm"); }` + ticks, nil, mask(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_DAC_READ_SEARCH)},
		{`profile:hz:99 { @[kstack] = count(); }` + ticks, nil, mask(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYSLOG)},
		{`interval:ms:20 { printf("tick\n"); }`, []string{"-c", busy}, mask(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_KILL)},
		{`profile:hz:99 /pid == cpid/ { printf("tick %s\n", ustack(2)); }`, []string{"-c", busy},
			mask(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE, unix.CAP_DAC_READ_SEARCH, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_KILL)},
		{`begin { system("true"); }` + ticks, []string{"--allow", "system"}, ""},
	} {
		o := filepath.Join(dir, fmt.Sprintf("x%d.o", i))
		if out, err := exec.Command(btc, "compile", "-e", c.script, "-o", o).CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", c.script, out)
		}
		cmd := exec.Command(btrun, append(c.args, o)...)
		var messages bytes.Buffer
		cmd.Stderr = &messages
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		seen := 0
		for seen < 3 && lines.Scan() { // after some events, everything that follows attaching is done
			if strings.HasPrefix(lines.Text(), "tick") {
				seen++
			}
		}
		if seen < 3 {
			cmd.Wait()
			if strings.Contains(messages.String(), "not permitted") {
				t.Skip("skipped: this machine does not let root load programs: ", messages.String())
			}
			t.Fatalf("%s: %s", c.script, messages.String())
		}
		go func() { // keep the pipe from filling up
			for lines.Scan() {
			}
		}()
		for file, v := range threads(t, cmd.Process.Pid, "CapEff", "CapPrm", "CapInh", "CapAmb", "NoNewPrivs") {
			if c.want == "" {
				if v[4] != "0" {
					t.Errorf("%s: %s: commands of system() cannot gain privileges", c.script, file)
				}
				continue
			}
			if none := mask(); v[0] != c.want || v[1] != c.want || v[2] != none || v[3] != none || v[4] != "1" {
				t.Errorf("%s: %s: effective %s, permitted %s, inheritable %s, ambient %s, no_new_privs %s; want %s", c.script, file, v[0], v[1], v[2], v[3], v[4], c.want)
			}
		}
		if strings.Contains(c.script, "ustack") {
			checkParser(t, cmd.Process.Pid)
		}
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait()
	}
}

// checkParser checks the threads of the process that reads symbols on behalf of btrun.
func checkParser(t *testing.T, parent int) {
	t.Helper()
	wrong := ""
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", parent))
		var children []byte
		for _, file := range lists {
			text, _ := os.ReadFile(file)
			children = append(append(children, text...), ' ')
		}
		for word := range strings.FieldsSeq(string(children)) {
			pid, _ := strconv.Atoi(word)
			if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); !bytes.HasPrefix(name, []byte("btrun-symbols")) {
				continue
			}
			wrong = "" // it may just have started
			for file, v := range threads(t, pid, "CapEff", "CapPrm", "CapBnd", "Uid", "NoNewPrivs", "Seccomp") {
				if none := mask(); v[0] != none || v[1] != none || v[2] != none || strings.Contains(" "+v[3]+"\t", "\t0\t") || v[4] != "1" || v[5] != "2" {
					wrong = fmt.Sprintf("%s of the symbol process: %v, want no privileges", file, v)
				}
			}
			if wrong == "" {
				return
			}
		}
	}
	t.Errorf("no process that reads symbols, or one with privileges: %s", wrong)
}

// TestCopiesOfPrograms checks that a pattern that needs a copy of a program for each match cannot use
// up the kernel's memory, whatever limits the object declares.
func TestCopiesOfPrograms(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	dir := t.TempDir()
	btc, btrun := build(t, dir, "btc"), build(t, dir, "btrun")
	o := filepath.Join(dir, "x.o")
	script := `config = { max_probes = 100000; max_bpf_progs = 100000; } rawtracepoint:* { @[probe] = count(); }`
	if out, err := exec.Command(btc, "compile", "-e", script, "-o", o).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", script, out)
	}
	out, err := exec.Command(btrun, "--dry-run", "--max-memory", "4M", o).CombinedOutput()
	if strings.Contains(string(out), "not permitted") || strings.Contains(string(out), "BTF") {
		t.Skip("skipped: this machine does not let root load programs: ", string(out))
	}
	if err == nil || !strings.Contains(string(out), "copies of its programs, but the limit is 4096 KiB: change it with --max-memory") {
		t.Errorf("error = %v, want one about --max-memory, output:\n%s", err, out)
	}
}
