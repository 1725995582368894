// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"btc/tests/kernels/vm"
)

// inGuest is the environment variable of the process that runs in a guest: the directory of the scripts
// and objects to load, or layoutsInGuest.
const inGuest = "BTC_BENCH_GUEST"

// guestDir is that directory in the guest.
const guestDir = "/bench"

// endless are scripts that cannot be attached in guests, with the reason.
var endless = map[string]string{
	"loop-forms": "the iterations of its loops grow with the square of the bytes read: minutes of an emulated CPU for each read of a tracer",
}

// guestCode compares code on a kernel with kprobes and fentry, which the running kernel may lack. The
// root of the guest is bpftrace's directory; it also gets btrun and compiled objects. In one boot, each
// script is loaded with both tools. Guests are emulated: instruction counts are exact, and nothing is
// timed. The scripts are distributed over as many guests as there are CPUs.
func (b *bench) guestCode() error {
	image, err := vm.FindImage(filepath.Join(b.root, "build/kernels"), b.kernel)
	if err != nil {
		return err
	}
	scripts, err := b.codeScripts()
	if err != nil {
		return err
	}
	sides := map[string]*[2]loadedSide{}
	var there []string // scripts that btc compiles
	for _, script := range scripts {
		sides[script] = &[2]loadedSide{}
		if why := endless[scriptName(script)]; why != "" {
			sides[script][0].Err = why
			continue
		}
		if _, err := b.btc.prepare(script, ""); err != nil {
			sides[script][0].Err = firstLine(err)
			continue
		}
		there = append(there, script)
	}
	program, err := b.guestProgram()
	if err != nil {
		return err
	}
	n := min(runtime.NumCPU(), len(there))
	reports, errs := make([][]guestLine, n), make([]error, n)
	var guests sync.WaitGroup
	for i := range n {
		var part []string
		for j := i; j < len(there); j += n {
			part = append(part, there[j])
		}
		guests.Go(func() { reports[i], errs[i] = b.inGuests(image, program, part) })
	}
	guests.Wait()
	host := ""
	for i, lines := range reports {
		if errs[i] != nil {
			return errs[i]
		}
		for _, l := range lines {
			if l.Kernel != "" {
				host = fmt.Sprintf("%s against btc %s, Linux %s in guests with 2 CPUs that QEMU emulates: counts are exact, times would not be, %s",
					l.Version, b.commit(), l.Kernel, time.Now().UTC().Format("2006-01-02"))
				continue
			}
			sides[l.Script][l.Side] = l.loadedSide
		}
	}
	c := newCodeAxes("guest-", ", with kprobes and fentry (kernel "+b.kernel+")", host)
	for _, script := range scripts {
		if s := *sides[script]; s[0].Err == "" && s[0].Count == 0 {
			return fmt.Errorf("%s: no result from the guest", script)
		}
		c.add(script, *sides[script])
	}
	c.put(&b.result)
	return nil
}

// guestLine is a line of the guest's report: the result for a script with one tool, or, in the first
// line, a description of the guest.
type guestLine struct {
	Script string `json:",omitempty"`
	Side   int    `json:",omitempty"`
	loadedSide
	Kernel, Version string `json:",omitempty"`
}

// inGuests loads the scripts with both tools in a guest. After a script that crashes the guest, it
// continues in a new one.
func (b *bench) inGuests(image, program string, scripts []string) ([]guestLine, error) {
	var all []guestLine
	for deaths := 0; len(scripts) > 0; deaths++ {
		lines, err := b.inGuest(image, program, scripts)
		all = append(all, lines...)
		if err == nil {
			break
		}
		if len(lines) == 0 || deaths == 3 {
			return nil, err
		}
		at, side := unfinished(scripts, lines[len(lines)-1])
		if at == len(scripts) {
			break
		}
		all = append(all, guestLine{Script: scripts[at], Side: side, loadedSide: loadedSide{Err: "the guest died: " + firstLine(err)}})
		scripts = scripts[at+1:]
	}
	return all, nil
}

// unfinished returns the script and the tool that was loading when the report ended. The index is
// len(scripts) if the report is complete.
func unfinished(scripts []string, last guestLine) (at, side int) {
	at = slices.Index(scripts, last.Script) // -1: the line describes the guest
	if at >= 0 && last.Side == 0 && last.Err == "" {
		return at, 1
	}
	return at + 1, 0
}

// inGuest boots a kernel and loads the scripts with both tools. If the guest crashes, it returns the
// results so far and the error.
func (b *bench) inGuest(image, program string, scripts []string) ([]guestLine, error) {
	qemu, err := vm.FindQEMU(filepath.Join(b.root, "build/qemu"), image)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(scripts)
	if err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(b.dir, "list")
	if err != nil {
		return nil, err
	}
	if _, err := file.Write(list); err != nil {
		return nil, err
	}
	file.Close()
	at := func(path string) string { return filepath.Join(guestDir, filepath.Base(path)) }
	puts := []vm.Put{{Host: program, Guest: at(program)}, {Host: filepath.Join(b.dir, "btrun"), Guest: at("btrun")}, {Host: file.Name(), Guest: at("list")},
		{Host: b.ref.include, Guest: at(b.ref.include)}}
	for _, script := range scripts {
		puts = append(puts, vm.Put{Host: script, Guest: at(script)})
		for _, ext := range []string{".o", ".json"} {
			made := filepath.Join(b.dir, scriptName(script)+ext)
			puts = append(puts, vm.Put{Host: made, Guest: at(made)})
		}
	}
	modules := filepath.Join(filepath.Dir(image), "modules")
	if _, err := os.Stat(modules); err == nil {
		puts = append(puts, vm.Put{Host: modules, Guest: "/modules"})
	}
	r, err := vm.Run(context.Background(), vm.Config{
		QEMU: qemu, Image: image, Disk: filepath.Join(filepath.Dir(b.ref.chroot), "root.ext4"), Memory: 2048,
		Silence: 2*time.Minute + time.Duration(len(scripts))*12*time.Second, Puts: puts, Env: []string{inGuest + "=" + guestDir},
		Command: []string{"for m in $(cat /modules/order 2>/dev/null); do insmod /modules/$m.ko; done; exec " + at(program)},
	})
	var died *vm.GuestError
	switch {
	case errors.As(err, &died):
		lines, bad := parseGuest(died.Stdout)
		if bad != nil || len(lines) == 0 {
			return nil, err
		}
		return lines, err
	case err != nil:
		return nil, err
	case r.Exit != 0:
		return nil, fmt.Errorf("bench in the guest: exit status %d: %s", r.Exit, r.Stderr)
	}
	return parseGuest(r.Stdout)
}

// parseGuest parses the guest's report, which may end with an incomplete line.
func parseGuest(text []byte) ([]guestLine, error) {
	var all []guestLine
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var l guestLine
		if err := json.Unmarshal(line, &l); err != nil {
			return nil, fmt.Errorf("the guest's report: %v", err)
		}
		all = append(all, l)
	}
	return all, nil
}

// guest runs in the guest: it loads each script of the list with both tools and prints what the kernel
// reports about the programs.
func guest(dir string) error {
	if dir == layoutsInGuest {
		return measureLayouts()
	}
	text, err := os.ReadFile(filepath.Join(dir, "list"))
	if err != nil {
		return err
	}
	var scripts []string
	if err := json.Unmarshal(text, &scripts); err != nil {
		return err
	}
	tools := [2]tool{readyTool{btcTool{dir}}, refTool{include: filepath.Join(dir, "include")}}
	out := json.NewEncoder(os.Stdout)
	version, err := refTool{}.command("--version").Output()
	if err != nil {
		return err
	}
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	if err := out.Encode(guestLine{Kernel: strings.TrimSpace(string(kernel)), Version: strings.TrimSpace(string(version))}); err != nil {
		return err
	}
	for _, script := range scripts {
		for k, t := range tools {
			s := load(t, filepath.Join(dir, filepath.Base(script)))
			if err := out.Encode(guestLine{Script: script, Side: k, loadedSide: s}); err != nil {
				return err
			}
			if s.Err != "" {
				break
			}
		}
	}
	return nil
}

// readyTool runs objects that were compiled on another machine.
type readyTool struct{ btcTool }

func (t readyTool) prepare(script, out string) (func() *exec.Cmd, error) {
	return t.run(script, out), nil
}
