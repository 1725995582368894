// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"btc/tests/kernels/vm"
	"btc/tests/tier"
)

var kernel = flag.String("kernel", "",
	"run the cases in guests with the kernels whose whole name matches this regular expression")

var onlyLoader = flag.String("loader", "", "run only loaders in guests that match this regular expression")

var only = flag.String("case", "", "run only cases in guests that match this regular expression")

// guests are the kernels, by their names in tests/kernels/getkernels.sh.
var guests = []string{"5.10", "6.1", "6.1-rt", "6.12", "6.12-rt", "sid", "6.1-arm64", "sid-arm64"}

// openat is the system call number.
var openat = map[string]string{"amd64": "257", "arm64": "56"}

// guestLoader is a loader that runs in guests.
type guestLoader struct {
	name string
	// needs are files and directories in the guest; if one is missing, the loader is skipped (see
	// inPuts).
	needs []string
	// object is the prefix of the names of its objects.
	object string
	// command is a shell command with the object as $1, followed by the workload.
	command string
	// read parses the output of the command; nil if it is in the form of the cases.
	read    func(t *testing.T, b built, name, out string) string
	refused map[string]string
	// before515 is the reason why it rejects all objects before Linux 5.15.
	before515 string
}

var inGuest = []guestLoader{
	{name: "btrace", needs: []string{"library"}, command: `"$dir/library" "$@"`, refused: libraryDiffers},
	{name: "agent", command: `"$dir/agent" "$@"`, read: printed, refused: map[string]string{"usdt": ""}},
	libbpfInGuest("bookworm"),
	libbpfInGuest("sid"),
	bpftoolInGuest("bookworm"),
	bpftoolInGuest("sid"),
	{
		name: "ebpf_exporter", needs: []string{"/ebpf_exporter", "/sid"}, object: "exporter-",
		command: `exporter "$@"`, read: exporterFound,
		refused: exporterRefused,
	},
	{
		name: "gadget", needs: []string{"/ig"}, object: "gadget-", command: `gadget "$@"`,
		read: func(t *testing.T, b built, name, out string) string {
			rows, err := decodeRows(strings.NewReader(out))
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			return gadgetFound(name, rows)
		},
		refused: gadgetRefused,
	},
}

func libbpfInGuest(release string) guestLoader {
	return guestLoader{
		name: "libbpf-" + release, needs: []string{"libbpfagent", "/" + release},
		command: "run " + release + ` "$dir/libbpfagent" "$@"`, read: printed, refused: map[string]string{"usdt": ""},
	}
}

func bpftoolInGuest(release string) guestLoader {
	l := guestLoader{
		name: "bpftool-" + release, needs: []string{"/" + release}, read: bpftoolFound, refused: loadsOnly(),
		command: fmt.Sprintf("attach %s '%s' \"$@\"", release, autoattach[release]),
	}
	if autoattach[release] != "" {
		l.refused = map[string]string{"usdt": refused + "does not support autoattach", "printf": "", "print-long": ""}
		// Before 5.15, the kernel has no links for perf events, which bpftool would pin.
		l.before515 = "failed to pin all programs"
	}
	return l
}

// refused is the prefix of the messages of a loader that failed.
const refused = "refused: "

// guestScript is the beginning of the script for a guest. /tmp is empty in a guest, and uprobes name
// paths in it.
//
//	run RELEASE PROGRAM ...           runs a program with the libraries of a release
//	attach RELEASE [autoattach] OBJECT WORKLOAD   loads an object with bpftool and prints its maps
//	exporter OBJECT WORKLOAD          loads an object with ebpf_exporter and prints its page
//	gadget OBJECT WORKLOAD            runs the image next to an object with ig and prints its rows
//	brief                             shortens the output of loaders, because the serial line of a guest is slow
const guestScript = `mkdir -p "${dir%/*}"; ln -s /objects "$dir"
run() { r=$1; shift; "/$r/lib/ld.so" --library-path "/$r/lib" "$@"; }
attach() {
	release=$1 auto=$2 object=$3 pins=/sys/fs/bpf/objects; shift 3; mkdir $pins
	if run $release /$release/bpftool prog loadall "$object" $pins/prog pinmaps $pins/map $auto >&2; then
		"$@" >&2
		for m in $pins/map/*; do
			case ${m##*/} in *_bss|*_data|*_rodata*|*.*|scratch_*|events_*) continue;; esac
			echo "== ${m##*/}"; run $release /$release/bpftool -j map dump pinned $m; echo
		done
	else
		false
	fi
	s=$?; rm -rf $pins; return $s
}
exporter() {
	mkdir -p /tmp/exporter; cp "$1" /tmp/exporter/x.bpf.o; cp "${1%.o}.yaml" /tmp/exporter/x.yaml; shift
	/sid/lib/ld.so --library-path /sid/lib /ebpf_exporter --config.dir=/tmp/exporter --config.names=x --web.listen-address=127.0.0.1:9435 >&2 & p=$!
	n=0
	until busybox wget -q -O /dev/null http://127.0.0.1:9435/metrics; do
		n=$((n + 1)); [ $n -lt 600 ] && kill -0 $p || return 1; sleep 0.2
	done
	"$@" >&2
	busybox wget -q -O - http://127.0.0.1:9435/metrics | grep -E '^(# TYPE )?ebpf_exporter_'
	kill $p; wait $p; true
}
gadget() {
	image=${1%.o} name=btc-${1##*/gadget-}; name=${name%.o}; shift; mkdir -p /var/lib/ig
	export HOST_ROOT=/
	cp /bin/busybox /usr/bin/runc # ig needs a container runtime to watch
	drawn=; case $name in *hist) drawn="--annotate h:metrics.print=false";; esac # otherwise
	/ig image import "$image.tar" >&2 || return 1
	/ig -v run "$name" --verify-image=false --pull never -o json $drawn >/tmp/rows 2>/tmp/ig & p=$!
	n=0
	until grep -q 'ttaching \|starting ebpfInstance' /tmp/ig; do
		n=$((n + 1)); [ $n -lt 600 ] && kill -0 $p || { cat /tmp/ig >&2; return 1; }; sleep 0.2
	done
	sleep 10 # loading and attaching
	"$@" >&2
	sleep 3; kill -INT $p; wait $p || { cat /tmp/ig >&2; return 1; }
	cat /tmp/rows
}
brief() {
	awk '$1 == "event" { n[$2]++; next } $1 == "map" && $2 ~ /[.]|^scratch/ { next } { print } END { for (r in n) print "events", r, n[r] }'
}
`

func printed(t *testing.T, b built, name, out string) string { return found(t, b.path(name+".o"), out) }

// guestTool is a program that is not a loader, or one that loads the output of another program.
type guestTool struct {
	name    string
	needs   []string
	command string
	check   func(t *testing.T, b built, out string)
	// before513 is why the kernel refuses the object before Linux 5.13.
	before513 string
}

// guestTools returns the tools of each release, and veristat.
func guestTools() []guestTool {
	objects := ""
	for _, c := range cases {
		objects += " $dir/" + c.name + ".o"
	}
	work := " $dir/" + workload
	all := []guestTool{{
		name: "veristat", needs: []string{"/veristat", "/sid"}, check: checkVeristat,
		command: "run sid /veristat " + strings.Join(veristatOptions, " ") + objects,
	}}
	for _, r := range []string{"bookworm", "sid"} {
		run, gen := "run "+r, "run "+r+" /"+r+"/bpftool gen"
		all = append(all, guestTool{
			name: "skeleton-" + r, needs: []string{"skeleton-" + r, "/" + r}, command: run + " $dir/skeleton-" + r + work,
			check: func(t *testing.T, b built, out string) {
				if d := cmp.Diff(skeletonOutput, out); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			},
		}, guestTool{
			name: "gen-object-" + r, needs: []string{"/" + r, "whole.o"}, check: checkLinked,
			command: gen + " object /tmp/whole.o $dir/linked-a.o $dir/linked-b.o >&2 && $dir/agent /tmp/whole.o" + work,
			// One of the scripts has a loop that may call bpf_loop.
			before513: "number of funcs in func_info doesn't match number of subprogs",
		}, guestTool{
			name: "min_core_btf-" + r, needs: []string{"/" + r, "libbpfagent"},
			command: gen + " min_core_btf /sys/kernel/btf/vmlinux /tmp/small.btf $dir/arguments.o $dir/results.o >&2 && " +
				"TYPES=/tmp/small.btf " + run + " $dir/libbpfagent $dir/arguments.o" + work,
			check: func(t *testing.T, b built, out string) {
				if have := found(t, b.path("arguments.o"), out); !strings.HasSuffix(have, "= {count: 12}") {
					t.Errorf("got %s", have)
				}
			},
		})
	}
	return all
}

// TestGuests loads each object with each loader in guests.
func TestGuests(t *testing.T) {
	if *kernel == "" {
		tier.Kernels.Need(t, "boots kernels under emulation, minutes for each (or make test-loaders KERNEL=NAME)")
		*kernel = ".*"
	}
	wanted := regexp.MustCompile("^(" + *kernel + ")$")
	dir, err := filepath.Abs("../../build/kernels")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range guests {
		if !wanted.MatchString(name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			image, err := vm.FindImage(dir, name)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			qemu, err := vm.FindQEMU("../../build/qemu", image)
			if err != nil {
				t.Skip("skipped: ", err)
			}
			goarch, err := vm.Arch(image)
			if err != nil {
				t.Fatal(err)
			}
			guest(t, name, qemu, image, goarch)
		})
	}
}

// marks separate the outputs of the runs.
const runMark, endMark = "=== ", "=== end "

func guest(t *testing.T, name, qemu, image, goarch string) {
	b := build(t, goarch)
	puts := guestFiles(t, b, goarch)
	chosenCase, chosenLoader := regexp.MustCompile(*only), regexp.MustCompile(*onlyLoader)
	script := "dir=" + b.dir + "\n" + guestScript
	add := func(name, arguments, command string) {
		script += fmt.Sprintf(`echo '%s%s'
set -- %s
{ %s; } 2>/tmp/messages >/tmp/found; s=$?
brief </tmp/found; [ $s = 0 ] || tail -n 5 /tmp/messages | sed 's/^/%s/'
echo '%s'; cat /tmp/messages >&2
`, runMark, name, arguments, command, refused, endMark)
	}
	started := map[string]bool{} // by name of the run
	for _, l := range inGuest {
		for _, c := range cases {
			if !chosenLoader.MatchString(l.name) || !chosenCase.MatchString(c.name) || !inPuts(b, puts, l.needs) {
				continue
			}
			object := b.path(l.object + c.name + ".o")
			if _, err := os.Stat(object); err != nil {
				continue
			}
			started[l.name+" "+c.name] = true
			add(l.name+" "+c.name, strings.Join(append([]string{object}, b.workload(c.name)...), " "), l.command)
		}
	}
	for _, tool := range guestTools() {
		if chosenLoader.MatchString(tool.name) && inPuts(b, puts, tool.needs) {
			started[tool.name] = true
			add(tool.name, "", tool.command)
		}
	}
	r, err := vm.Run(context.Background(), vm.Config{
		QEMU: qemu, Image: image, Command: []string{script}, Memory: 2048, Silence: 20 * time.Minute, Puts: puts,
	})
	if err != nil {
		t.Fatal(err)
	}
	outputs := map[string]string{}
	for part := range strings.SplitSeq("\n"+string(r.Stdout), "\n"+runMark) {
		if head, body, _ := strings.Cut(part, "\n"); !strings.HasPrefix(runMark+head, endMark) {
			outputs[head] = strings.TrimSpace(body)
		}
	}
	for _, l := range inGuest {
		t.Run(l.name, func(t *testing.T) {
			for _, c := range cases {
				if !chosenLoader.MatchString(l.name) || !chosenCase.MatchString(c.name) {
					continue
				}
				t.Run(c.name, func(t *testing.T) {
					if out, ran := outputs[l.name+" "+c.name]; ran {
						l.compare(t, b, c, out, name, goarch)
					} else if started[l.name+" "+c.name] {
						t.Error("the guest ended before this run")
					} else if l.refused[c.name] != "refused" {
						t.Skip("skipped: not available in the guest")
					}
				})
			}
		})
	}
	for _, tool := range guestTools() {
		t.Run(tool.name, func(t *testing.T) {
			out, ran := outputs[tool.name]
			switch {
			case !ran && started[tool.name]:
				t.Error("the guest ended before this run")
			case !ran:
				t.Skip("skipped: not available in the guest")
			case tool.before513 != "" && oldKernel.MatchString(name):
				if !strings.Contains(out, refused) || !strings.Contains(out, tool.before513) {
					t.Errorf("want an error with %q, found\n%s", tool.before513, out)
				}
			case strings.Contains(out, refused):
				t.Error(out)
			default:
				tool.check(t, b, out)
			}
		})
	}
	if t.Failed() {
		t.Logf("messages:\n%s", r.Stderr)
	}
}

// compare compares the output of a loader in a guest with the expected one.
func (l *guestLoader) compare(t *testing.T, b built, c testCase, out, kernel, goarch string) {
	t.Helper()
	want := c.want
	if other, ok := l.refused[c.name]; ok {
		want = other
	}
	if c.name == "usdt" && !b.probes {
		t.Skip("skipped: no C compiler for a program with static probes")
	}
	if l.before515 != "" && oldKernel.MatchString(kernel) {
		want = refused + l.before515
	}
	if reason, ok := strings.CutPrefix(want, refused); ok {
		if !strings.Contains(out, refused) || !strings.Contains(out, reason) {
			t.Errorf("want an error with %q, found\n%s", reason, out)
		}
		return
	}
	if l.read != nil && !strings.Contains(out, refused) {
		out = l.read(t, b, c.name, out)
	}
	if d := cmp.Diff(strings.ReplaceAll(ours(want), "OPENAT", openat[goarch]), out); d != "" {
		t.Errorf("found (-want +got):\n%s", d)
	}
}

// oldKernel matches kernels before 5.13.
var oldKernel = regexp.MustCompile(`^5\.10`)

// inPuts reports whether a guest has the given files of b.dir, or outside of it if they begin with a slash.
func inPuts(b built, puts []vm.Put, files []string) bool {
	return !slices.ContainsFunc(files, func(file string) bool {
		if strings.HasPrefix(file, "/") {
			return !slices.ContainsFunc(puts, func(p vm.Put) bool { return p.Guest == file })
		}
		_, err := os.Stat(b.path(file))
		return err != nil
	})
}

// guestFiles creates the files that guests need in addition to the objects of build, as far as
// possible, and returns all files for the guest.
func guestFiles(t *testing.T, b built, goarch string) []vm.Put {
	t.Helper()
	objects := b.compileLinked(t)
	for _, c := range cases {
		b.compileExporter(t, c.name)
		b.compileGadget(t, c.name)
	}
	b.compileScript(t, skeletonScript, b.path("reads.o"), "--suffix", "mine")
	puts := []vm.Put{{Host: b.dir, Guest: "/objects"}}
	dir, err := filepath.EvalSymlinks("../../build/loaders")
	if err != nil {
		t.Log("skipped: no loaders (tests/setup/loaders.sh fetches them)")
		return puts
	}
	// The linked object has the same types as one that is linked on this machine.
	if out, err := hostBpftool(filepath.Join(dir, "run", "sid-"+runtime.GOARCH),
		append([]string{"gen", "object", b.path("whole.o")}, objects...)...).CombinedOutput(); err != nil {
		t.Logf("skipped: linking: %v\n%s", err, out)
	}
	suffix := ""
	if goarch != "amd64" {
		suffix = "-" + goarch
	}
	for _, name := range []string{"ebpf_exporter", "veristat", "ig"} {
		if file := filepath.Join(dir, name+suffix); exists(file) {
			puts = append(puts, vm.Put{Host: file, Guest: "/" + name})
		}
	}
	for _, release := range []string{"bookworm", "sid"} {
		run := filepath.Join(dir, "run", release+"-"+goarch)
		if !exists(run) {
			t.Logf("skipped: no bpftool and libbpf of %s for %s: tests/setup/loaders.sh could not get them", release,
				goarch)
			continue
		}
		puts = append(puts, vm.Put{Host: run, Guest: "/" + release})
		if err := b.guestPrograms(run, filepath.Join(dir, "run", release+"-"+runtime.GOARCH), release, goarch); err != nil {
			t.Logf("skipped: programs of %s: %v", release, err)
		}
	}
	return puts
}

// hostBpftool returns a command that runs the bpftool in a directory of tests/setup/loaders.sh.
func hostBpftool(run string, args ...string) *exec.Cmd {
	return exec.Command(
		run+"/lib/ld.so",
		append([]string{"--library-path", run + "/lib", run + "/bpftool"}, args...)...)
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// guestPrograms compiles the programs of testdata with the libbpf in run. The directory host has the
// bpftool of this release for this machine.
func (b built) guestPrograms(run, host, release, goarch string) error {
	gen := hostBpftool(host, "gen", "skeleton", b.path("reads.o"), "name", "reads")
	header, err := gen.Output()
	if err != nil {
		return fmt.Errorf("%v: %w", gen.Args, err)
	}
	include := b.path(release)
	if err := os.MkdirAll(include, 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(include, "reads.skel.h"), header, 0o644); err != nil {
		return err
	}
	programs := map[string]string{"skeleton-" + release: "testdata/skeleton.c"}
	if release == "bookworm" { // also runs with the newer one
		programs["libbpfagent"] = "testdata/libbpf.c"
	}
	for program, source := range programs {
		cc := exec.Command(compilers[goarch], "-O1", "-I", run+"/include", "-I", include, "-o", b.path(program), source,
			run+"/lib/libbpf.so.1", "-Wl,--allow-shlib-undefined")
		if out, err := cc.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", cc.Args, err, out)
		}
	}
	return nil
}
