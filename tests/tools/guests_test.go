// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"btc/tests/kernels/vm"
	"btc/tests/tier"
)

var (
	kernels = flag.String("kernel", "", "run TestGuests on the kernels whose whole names match this regular expression")
	only    = flag.String("tool", "", "run TestGuests with the tools whose names match this regular expression")
)

// jobsVariable names, in a guest, the file of the jobs that this program, as a guest's, runs.
const jobsVariable = "BTC_TOOLS_JOBS"

// TestGuests runs the tools in guests, whose root is bpftrace's Debian (build/oracle), each together with bpftrace's
// tool of its name and that of libbpf-tools: all watch the same workload.
func TestGuests(t *testing.T) {
	if *kernels == "" {
		tier.Kernels.Need(t, "boots kernels under emulation for a quarter of an hour each (or make test-tools KERNEL=NAME)")
		*kernels = ".*"
	}
	disk := root + "/build/oracle/root.ext4"
	if _, err := os.Stat(disk); err != nil {
		t.Skip("skipped: no root for guests (tests/setup/oracle.sh makes it)")
	}
	wanted := regexp.MustCompile("^(" + *kernels + ")$")
	for _, name := range []string{"5.10", "6.1", "6.12", "sid"} {
		if !wanted.MatchString(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			image, err := vm.FindImage(root+"/build/kernels", name)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			qemu, err := vm.FindQEMU(root+"/build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			config := vm.Config{
				QEMU: qemu, Image: image, Disk: disk, Scratch: true, Memory: 1536, Silence: 20 * time.Minute,
				Puts: puts(t,
					filepath.Dir(image)), Env: []string{jobsVariable + "=/t/jobs"}, Command: []string{"/t/tools.test"},
			}
			guest(t, config, name)
		})
	}
}

// guest runs all jobs in a guest, again from where it stopped when the guest dies.
func guest(t *testing.T, config vm.Config, kernel string) {
	selected := regexp.MustCompile(*only)
	todo := map[string]tool{}
	var jobs []job
	for i, c := range tools {
		if !selected.MatchString(c.name) {
			continue
		}
		todo[c.name] = c
		j := job{
			Name:  c.name,
			W:     fmt.Sprintf("wk%d%c", 100+i, 'a'+i%26),
			T:     "3",
			Needs: strings.Fields(c.needs),
			Run:   c.run,
			Until: c.until,
			Bin:   "/t",
		}
		if _, err := os.Stat(root + "/build/oracle/root/usr/sbin/" + c.name + ".bt"); err == nil && kernel != "5.10" {
			if c.same != "" || c.bpftrace != nil {
				options := []string{"bpftrace"}
				if c.name == "oomkill" {
					options = append(options, "--unsafe")
				}
				j.Tracers = append(j.Tracers, tracer{bpftrace, append(options, "/usr/sbin/"+c.name+".bt")})
			}
		}
		if c.bcc != "" {
			name, arguments, _ := strings.Cut(c.bcc, " ")
			// The name is Debian's. Some end without writing what is in their buffers.
			command := append([]string{"stdbuf", "-oL", "/t/bcc/" + name + "-libbpf"}, strings.Fields(arguments)...)
			j.Tracers = append(j.Tracers, tracer{bcc, command})
		}
		command := []string{"/t/btrun"}
		args := c.args
		if rest, ok := strings.CutPrefix(args, "--unsafe"); ok {
			command, args = append(command, "--unsafe"), rest
		}
		j.Tracers = append(j.Tracers,
			tracer{btrun, append(append(command, "/t/"+c.name+".o"), strings.Fields(args)...)})
		jobs = append(jobs, j)
	}
	deaths := 0
	for len(jobs) > 0 {
		file := filepath.Join(t.TempDir(), "jobs")
		text, err := json.Marshal(jobs)
		if err == nil {
			err = os.WriteFile(file, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		c := config
		c.Puts = append(append([]vm.Put{}, config.Puts...), vm.Put{Host: file, Guest: "/t/jobs"})
		result, err := vm.Run(context.Background(), c)
		var died *vm.GuestError
		var out []byte
		switch {
		case errors.As(err, &died):
			t.Logf("the guest died: %v", err)
			out = died.Stdout
			if deaths++; deaths > 2 {
				t.Fatal("the guest died three times")
			}
		case err != nil:
			t.Fatal(err)
		default:
			out = result.Stdout
			if result.Exit != 0 || len(out) == 0 {
				t.Fatalf("exit status %d\n%s%s", result.Exit, out, result.Stderr)
			}
		}
		for line := range bytes.Lines(out) {
			var o outcome
			if json.Unmarshal(line, &o) != nil || len(jobs) == 0 || o.Name != jobs[0].Name {
				continue // cut off by a death
			}
			j := jobs[0]
			jobs = jobs[1:]
			t.Run(o.Name, func(t *testing.T) { todo[o.Name].judge(t, j, o, true) })
		}
	}
}

// puts are the files of the guests: the programs, the objects, the workloads, libbpf-tools and modules.
func puts(t *testing.T, kernel string) []vm.Put {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	all := []vm.Put{
		{Host: self, Guest: "/t/tools.test"}, {Host: bin + "/btrun", Guest: "/t/btrun"}, {Host: bin + "/workload", Guest: "/t/workload"},
		{Host: "/bin/busybox", Guest: "/t/insmod"},
	}
	for _, f := range []vm.Put{
		{Host: bin + "/thread", Guest: "/t/thread"}, {Host: "/usr/bin/openssl", Guest: "/usr/bin/openssl"},
		{Host: root + "/build/bcc/sid/usr/sbin", Guest: "/t/bcc"}, {Host: root + "/build/bcc/xfs/usr/sbin/mkfs.xfs", Guest: "/usr/sbin/mkfs.xfs"},
		{Host: kernel + "/modules", Guest: "/modules"},
	} {
		if _, err := os.Stat(f.Host); err == nil {
			all = append(all, f)
		} else {
			t.Logf("not there: %v", err)
		}
	}
	libraries, _ := filepath.Glob(root + "/build/bcc/xfs/usr/lib/*/lib*.so.*")
	for _, l := range libraries {
		_, below, _ := strings.Cut(l, "/build/bcc/xfs")
		all = append(all, vm.Put{Host: l, Guest: below})
	}
	for _, c := range tools {
		object := filepath.Join(bin, c.name+".o")
		cmd := exec.Command(bin+"/btc", "compile", filepath.Join(root, "examples", c.name+".bt"), "-o", object)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, ext := range []string{".o", ".json"} {
			all = append(all, vm.Put{Host: filepath.Join(bin, c.name+ext), Guest: "/t/" + c.name + ext})
		}
	}
	return all
}

// inGuest is what the program of the tests does in a guest: it runs the jobs of a file and prints their outcomes.
func inGuest(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var jobs []job
	if err := json.Unmarshal(text, &jobs); err != nil {
		return err
	}
	exec.Command("ldconfig").Run() // libraries were added
	order, _ := os.ReadFile("/modules/order")
	for _, name := range strings.Fields(string(order)) {
		switch name {
		case "xfs", "libcrc32c", "md_mod", "raid1":
			if out, err := exec.Command("/t/insmod", "/modules/"+name+".ko").CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "%s: %v\n%s", name, err, out)
			}
		}
	}
	out := json.NewEncoder(os.Stdout)
	for _, j := range jobs {
		if err := out.Encode(j.watch()); err != nil {
			return err
		}
	}
	return nil
}
