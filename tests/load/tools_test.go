// SPDX-License-Identifier: Apache-2.0

package load

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"btc/tests/kernels/vm"
	"btc/tests/load/objload"
)

// tool looks up a program, also where distributions put bpftool, which is only in root's PATH.
func tool(t *testing.T, name string) string {
	t.Helper()
	for _, path := range []string{name, "/usr/sbin/" + name, "/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return found
		}
	}
	t.Skipf("skipped: %s is not installed", name)
	return ""
}

// TestReaders checks that other programs can read each object.
func TestReaders(t *testing.T) {
	for _, command := range [][]string{
		{"bpftool", "gen", "skeleton"},
		{"bpftool", "btf", "dump", "file"},
		{"llvm-objdump", "-d", "-r"},
	} {
		t.Run(strings.Join(command, " "), func(t *testing.T) {
			bin := tool(t, command[0])
			list := compiled(t)
			dir := objects(t, list)
			each(list, func(s *script) {
				cmd := exec.Command(bin, append(command[1:], filepath.Join(dir, s.name+".o"))...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				out, err := cmd.Output()
				if err != nil || stderr.Len() > 0 || len(out) == 0 {
					t.Errorf("%s: %v: %s", s.name, err, stderr.Bytes())
				}
			})
		})
	}
}

// others parses the results for bpftool in the output of loadall.
func others(out []byte) map[string]objload.Other {
	all := map[string]objload.Other{}
	for line := range bytes.Lines(out) {
		var o objload.Other
		if json.Unmarshal(line, &o) == nil && o.Name != "" {
			all[o.Name] = o
		}
	}
	return all
}

// TestBpftoolLoads loads each object unchanged with libbpf, through bpftool. The kernel must get the
// same programs from it as from cilium/ebpf. Objects with programs that this kernel does not support
// are left out, because bpftool loads either all programs or none.
func TestBpftoolLoads(t *testing.T) {
	lacking := map[string]bool{}
	for _, r := range native(t) {
		if !r.OK {
			lacking[r.Object] = true
		}
	}
	bpftool := tool(t, "bpftool")
	unshare := tool(t, "unshare")
	if _, err := os.Stat("/sys/fs/bpf"); err != nil {
		t.Skip("skipped: cannot mount a bpf file system: ", err)
	}
	var list []*script
	for _, s := range compiled(t) {
		if !lacking[s.name] {
			list = append(list, s)
		}
	}
	// In a mount namespace of its own, the file system with the pinned programs goes away when the
	// command exits.
	cmd := exec.Command(unshare, "--mount", "--propagation", "private", "sh", "-c", `mount -t bpf bpf /sys/fs/bpf && exec "$@"`, "sh",
		buildLoadall(t, runtime.GOARCH), "-bpftool", bpftool, objects(t, list))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	n := checkOthers(t, "this kernel", list, others(out))
	t.Logf("bpftool loaded %d objects with the same programs as cilium/ebpf; %d left out", n, len(compiled(t))-len(list))
}

func checkOthers(t *testing.T, kernel string, list []*script, all map[string]objload.Other) (good int) {
	for _, s := range list {
		switch o, ok := all[s.name]; {
		case !ok:
			t.Errorf("%s: no result for %s", s.path, kernel)
		case len(o.Problems) > 0:
			t.Errorf("%s on %s: %s", s.path, kernel, strings.Join(o.Problems, "\n"))
		case o.Programs == 0:
			t.Errorf("%s on %s: no programs compared", s.path, kernel)
		default:
			good++
		}
	}
	return good
}

// guestOthers are the scripts whose objects bpftool loads in each guest. They cover fields through
// pointers, of arrays, nested and renamed, bitfields, enumerators, whole structs, records of
// tracepoints, arguments of functions, and functions of scripts. bpftool parses all BTF of the kernel
// for each object, which takes seconds in a guest.
var guestOthers = []string{"array-addresses", "enums-records", "functions", "moved-members", "runqlat", "struct-copies", "task-memory", "tcpconnect"}

// otherTool returns the path of bpftool for guests, and the files that it needs there.
func otherTool(goarch, images string) (puts []vm.Put, err error) {
	if goarch == runtime.GOARCH {
		for _, path := range []string{"bpftool", "/usr/sbin/bpftool", "/sbin/bpftool"} {
			if found, err := exec.LookPath(path); err == nil {
				return vm.Program(found, guestBpftool)
			}
		}
		return nil, errors.New("bpftool is not installed")
	}
	dir := filepath.Join(images, "bpftool-"+goarch)
	if _, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("no %s (tests/kernels/getkernels.sh fetches it)", dir)
	}
	return []vm.Put{{Host: filepath.Join(dir, "bpftool"), Guest: guestBpftool}, {Host: filepath.Join(dir, "lib"), Guest: "/lib"}}, nil
}

const guestBpftool = "/sbin/bpftool"
