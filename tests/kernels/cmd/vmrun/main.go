// SPDX-License-Identifier: Apache-2.0

// Vmrun boots a kernel under QEMU, runs one command in it as root and passes on the command's standard
// output, standard error and exit status.
//
//	go run ./tests/kernels/cmd/vmrun -k 6.12 -put ./btrun:/bin/btrun -put ./x.o -put ./x.json -- btrun /x.o
//	go run ./tests/kernels/cmd/vmrun -k sid -disk build/oracle/root.ext4 -- bpftrace -e 'kprobe:do_nanosleep { exit(); }'
//
// Vmrun exits with 201 if the guest died or hung, and with 200 for all other errors of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"

	"btc/tests/kernels/vm"
)

type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(s string) error { *l = append(*l, s); return nil }

func main() {
	var (
		dir     = flag.String("kdir", "build/kernels", "directory of kernels, as getkernels.sh makes it")
		name    = flag.String("k", "6.12", "kernel under -kdir, or a path to an image")
		qemus   = flag.String("qemu", "build/qemu", "directory of the QEMU that tests/setup/qemu.sh unpacked; without it the machine's own is used")
		memory  = flag.Int("m", 0, "MiB of memory (default 768)")
		cpus    = flag.Int("smp", 0, "CPUs (default 2)")
		silence = flag.Duration("t", 2*time.Minute, "how long the guest may print nothing")
		disk    = flag.String("disk", "", "ext4 image that is the command's root; left unchanged")
		out     = flag.String("out", "", "tar file that receives the guest's /out")
		console = flag.String("console", "", "file that receives the kernel's console")
		more    = flag.String("append", "", "more kernel arguments")
		verbose = flag.Bool("v", false, "times on standard error")
		puts    list
		env     list
	)
	flag.Var(&puts, "put", "HOST[:GUEST] file or directory copied into the guest (default /basename); repeatable")
	flag.Var(&env, "e", "K=V in the command's environment; repeatable")
	flag.Parse()
	if flag.NArg() == 0 {
		fail(200, errors.New("no command"))
	}
	image, err := vm.FindImage(*dir, *name)
	if err != nil {
		fail(200, err)
	}
	qemu, err := vm.FindQEMU(*qemus, image)
	if err != nil {
		fail(200, err)
	}
	config := vm.Config{QEMU: qemu, Image: image, Command: flag.Args(), Env: env, Disk: *disk, OutTar: *out,
		Memory: *memory, CPUs: *cpus, Silence: *silence, Append: *more, Console: *console}
	for _, p := range puts {
		host, guest, ok := strings.Cut(p, ":")
		if !ok {
			guest = "/" + path.Base(host)
		}
		config.Puts = append(config.Puts, vm.Put{Host: host, Guest: guest})
	}
	begin := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) // so that Run removes its files
	defer stop()
	r, err := vm.Run(ctx, config)
	var died *vm.GuestError
	switch {
	case errors.As(err, &died):
		os.Stdout.Write(died.Stdout) // what the guest did before it died
		fail(201, err)
	case err != nil:
		fail(200, err)
	}
	os.Stdout.Write(r.Stdout)
	os.Stderr.Write(r.Stderr)
	if *verbose {
		fmt.Fprintf(os.Stderr, "vmrun: kernel %s: %.1f s; guest: booted in %.1f s, ran %.1f s\n",
			*name, time.Since(begin).Seconds(), r.Boot.Seconds(), r.Run.Seconds())
	}
	os.Exit(r.Exit)
}

func fail(status int, err error) {
	fmt.Fprintln(os.Stderr, "vmrun:", err)
	os.Exit(status)
}
