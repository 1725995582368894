// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"btc/tests/kernels/vm"
)

// oldKernels are the kernels on which layouts are measured in guests, by their names in getkernels.sh.
var oldKernels = []string{"5.10", "6.1", "6.12", "sid"}

// layoutsInGuest is the value of inGuest for the process that measures layouts.
const layoutsInGuest = "layouts"

// layoutsOnKernels measures layouts on old and new kernels, in guests. The numbers of instructions in
// the kernel and in the verifier are exact. The times are those of an emulated CPU, on which calls and
// branches have other relative costs than on a real one.
func (b *bench) layoutsOnKernels() error {
	program, err := b.guestProgram()
	if err != nil {
		return err
	}
	a := axis{Name: "layouts-guest", Title: "Layouts on kernels old and new, emulated", Sides: [2]string{"chosen", "the other"}}
	kernels := ""
	for _, name := range oldKernels {
		image, err := vm.FindImage(filepath.Join(b.root, "build/kernels"), name)
		if err != nil {
			a.note("%v", err)
			continue
		}
		list, err := b.guestLayouts(image, program)
		if err != nil {
			return fmt.Errorf("kernel %s: %w", name, err)
		}
		for _, f := range list {
			if f.Missing != "" {
				a.note("%s: %s: %s", name, f.Name, f.Missing)
				continue
			}
			r := paired(name+": "+f.Name, "emulated ns", f.Cost[0], f.Cost[1])
			r.Spread, r.Note = [2]float64{}, f.counts()
			a.add(r)
		}
		kernels = joined(kernels, name)
	}
	a.note("instructions after load, and those that the verifier went through (from 5.16), are exact; times are an emulated CPU's: they say only where one side makes many more calls than the other")
	a.Host = fmt.Sprintf("Debian's kernels %s in guests with 2 CPUs that QEMU emulates, %s", kernels, time.Now().UTC().Format("2006-01-02"))
	b.result.put(a)
	return nil
}

// guestLayouts boots a kernel and measures layouts in it.
func (b *bench) guestLayouts(image, program string) ([]contestFigures, error) {
	qemu, err := vm.FindQEMU(filepath.Join(b.root, "build/qemu"), image)
	if err != nil {
		return nil, err
	}
	r, err := vm.Run(context.Background(), vm.Config{QEMU: qemu, Image: image, Silence: 3 * time.Minute,
		Puts: []vm.Put{{Host: program, Guest: "/bin/bench"}}, Env: []string{inGuest + "=" + layoutsInGuest}, Command: []string{"/bin/bench"}})
	if err != nil {
		return nil, err
	}
	if r.Exit != 0 {
		return nil, fmt.Errorf("exit status %d: %s", r.Exit, r.Stderr)
	}
	var list []contestFigures
	for in := json.NewDecoder(bytes.NewReader(r.Stdout)); in.More(); {
		var f contestFigures
		if err := in.Decode(&f); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// measureLayouts runs in the guest.
func measureLayouts() error {
	out := json.NewEncoder(os.Stdout)
	for _, c := range contests() {
		if !c.old {
			continue
		}
		f, err := c.measure(3, 3, 200)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := out.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// guestProgram builds this program for a guest.
func (b *bench) guestProgram() (string, error) {
	program := filepath.Join(b.dir, "bench")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./tests/bench")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building bench for the guest: %v\n%s", err, out)
	}
	return program, nil
}
