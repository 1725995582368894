// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// library runs an object with package btrace.
func library(t *testing.T, b built, name string) string {
	args := append([]string{b.path(name + ".o")}, b.workload(name)...)
	return strings.TrimSuffix(output(t, exec.Command(b.path("library"), args...)), "\n")
}

// fetched returns a directory of tests/setup/loaders.sh.
func fetched(t *testing.T, name string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(filepath.Join("../../build/loaders", name))
	if err != nil {
		t.Skipf("skipped: no %s: tests/setup/loaders.sh could not get it", name)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// libbpfProgram compiles testdata/libbpf.c with the headers of the older libbpf; it also runs with the
// newer one.
func libbpfProgram(t *testing.T, b built) string {
	t.Helper()
	dir, program := fetched(t, "bookworm"), b.path("libbpfagent")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("skipped: no C compiler")
	}
	libs, err := filepath.Glob(dir + "/usr/lib/*/libbpf.so.1")
	if err != nil || len(libs) != 1 {
		t.Skip("skipped: no libbpf.so.1 in ", dir)
	}
	cmd := exec.Command("gcc", "-Wall", "-O1", "-I", dir+"/usr/include", "-o", program, "testdata/libbpf.c", libs[0],
		"-Wl,--allow-shlib-undefined")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func libbpfBookworm(t *testing.T, b built, name string) string {
	return found(t, b.path(name+".o"), bookwormOutput(t, b, name))
}

func bookwormOutput(t *testing.T, b built, name string) string {
	t.Helper()
	program := libbpfProgram(t, b)
	libs, _ := filepath.Glob(fetched(t, "bookworm") + "/usr/lib/*/libbpf.so.1")
	elf, _ := filepath.Glob(fetched(t, "bookworm") + "/*/*/libelf.so.1")
	elf = append(elf, libs...)
	path := "LD_LIBRARY_PATH="
	for _, l := range append(libs, elf...) {
		path += filepath.Dir(l) + ":"
	}
	cmd := withTracefs(
		append([]string{"env", strings.TrimSuffix(path, ":"), program, b.path(name + ".o")}, b.workload(name)...)...)
	return output(t, cmd)
}

// inSid returns a command in the fetched system, in which /tmp, /proc, /sys and /dev are those of this
// machine.
func inSid(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if !strings.HasPrefix(os.TempDir(), "/tmp") {
		t.Skip("skipped: the directory of temporary files is not below /tmp")
	}
	root := fetched(t, "sid")
	const script = `set -e; [ -e /sys/kernel/tracing/events ] || mount -t tracefs tracefs /sys/kernel/tracing
mountpoint -q /sys/fs/bpf || mount -t bpf bpf /sys/fs/bpf
root=$1; shift; for d in proc sys dev tmp; do mount --rbind /$d "$root/$d"; done
exec chroot "$root" "$@"`
	return exec.Command(
		"unshare",
		append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh", root}, args...)...)
}

func libbpfSid(t *testing.T, b built, name string) string {
	return found(t, b.path(name+".o"), sidOutput(t, b, name))
}

func sidOutput(t *testing.T, b built, name string) string {
	t.Helper()
	return output(t, inSid(t, append([]string{libbpfProgram(t, b), b.path(name + ".o")}, b.workload(name)...)...))
}

// bpftoolSid and bpftoolBookworm load and attach an object with bpftool, run the workload, and print
// all maps. autoattach is the option to attach programs; the bpftool of bookworm can only load them.
var autoattach = map[string]string{"sid": "autoattach"}

func bpftoolSid(t *testing.T, b built, name string) string { return bpftool(t, b, name, "sid") }
func bpftoolBookworm(t *testing.T, b built, name string) string {
	return bpftool(t, b, name, "bookworm")
}

const bpftoolScript = `set -e; run=$1 attach=$2 pins=$3 object=$4; shift 4; mkdir "$pins"; trap 'rm -rf "$pins"' EXIT
bpftool() { "$run/lib/ld.so" --library-path "$run/lib" "$run/bpftool" "$@"; }
bpftool prog loadall "$object" "$pins/prog" pinmaps "$pins/map" $attach >&2
"$@" >&2
for m in "$pins"/map/*; do echo "== ${m##*/}"; bpftool -j map dump pinned "$m" 2>/dev/null || true; echo; done`

// bpftool loads and attaches an object with the bpftool of a release, runs the workload, and prints all
// maps.
func bpftool(t *testing.T, b built, name, release string) string {
	t.Helper()
	run := fetched(t, "run/"+release+"-"+runtime.GOARCH)
	pins := "/sys/fs/bpf/" + filepath.Base(b.dir) + "-" + name
	cmd := withTracefs(
		append(
			[]string{"sh", "-c", bpftoolScript, "sh", run, autoattach[release], pins, b.path(name + ".o")},
			b.workload(name)...)...)
	if name == "usdt" && autoattach[release] != "" {
		const refusal = "does not support autoattach"
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), refusal) {
			t.Fatalf("%v\n%s", err, out)
		}
		return refusal
	}
	return bpftoolFound(t, b, name, output(t, cmd))
}

// bpftoolFound converts the output of bpftool to the form of the cases.
func bpftoolFound(t *testing.T, b built, name, out string) string {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(b.path(name + ".o"))
	if err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for part := range strings.SplitSeq(out, "== ") {
		symbol, dump, _ := strings.Cut(part, "\n")
		if m := spec.Maps[symbol]; m == nil || m.Type == ebpf.RingBuf {
			continue
		}
		var elements []struct {
			Key, Value []string
			Values     []struct{ Value []string }
		}
		if err := json.Unmarshal([]byte(dump), &elements); err != nil {
			t.Fatalf("%s: %v\n%s", symbol, err, dump)
		}
		for _, e := range elements {
			fmt.Fprintf(&lines, "map %s %s", symbol, bytesOf(t, e.Key))
			for _, v := range e.Values {
				fmt.Fprintf(&lines, " %s", bytesOf(t, v.Value))
			}
			if e.Value != nil {
				fmt.Fprintf(&lines, " %s", bytesOf(t, e.Value))
			}
			lines.WriteByte('\n')
		}
	}
	return found(t, b.path(name+".o"), lines.String())
}

// bytesOf converts a list of bytes printed by bpftool to hexadecimal.
func bytesOf(t *testing.T, list []string) string {
	t.Helper()
	var b []byte
	for _, text := range list {
		one, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
		if err != nil || len(one) != 1 {
			t.Fatalf("invalid byte: %s", text)
		}
		b = append(b, one[0])
	}
	return hex.EncodeToString(b)
}

// compileExporter compiles a case for ebpf_exporter. It returns the object and the configuration that
// btc export writes next to it; ok is false if btc refuses the script.
func (b built) compileExporter(t *testing.T, name string) (object, config string, ok bool) {
	t.Helper()
	object = b.path("exporter-" + name + ".o")
	b.compile(t, name, object, "--for", "ebpf_exporter")
	text, err := exec.Command(b.path("btc"), "export", "ebpf_exporter", object).Output()
	if err != nil {
		os.Remove(object)
		return "", "", false
	}
	if err := os.WriteFile(strings.TrimSuffix(object, ".o")+".yaml", text, 0o644); err != nil {
		t.Fatal(err)
	}
	return object, string(text), true
}

// exporter runs an object compiled for ebpf_exporter. If btc refuses to write one, it returns
// "refused".
func exporter(t *testing.T, b built, name string) string {
	object, config, ok := b.compileExporter(t, name)
	if !ok {
		return "refused"
	}
	return exporterFound(t, b, name, serve(t, b, object, config, b.workload(name)))
}

// exporterFound converts a page of ebpf_exporter to the form of the cases. From the values of all CPUs
// it takes the smallest or the largest.
func exporterFound(t *testing.T, b built, name, page string) string {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(b.path("exporter-" + name + ".o"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	best := map[string]float64{}
	for series, x := range readPage(t, page) {
		metric, labels, keyed := strings.Cut(strings.TrimPrefix(series, "ebpf_exporter_"), "{")
		m := spec.Maps[metric]
		if m == nil {
			continue
		}
		member := m.Value.(*btf.Struct).Members[0].Name
		extreme := member == "min" || member == "max"
		if extreme {
			labels = withoutCPU(labels)
			keyed = labels != "}"
		}
		key := "0"
		if keyed {
			key = "{" + strings.NewReplacer(`="`, ": ", `"`, "", ",", ", ").Replace(labels)
		}
		value := fmt.Sprintf("count: %.0f, total: %.0f", x.count, x.sum)
		switch {
		case extreme:
			at := fmt.Sprintf("%s[%s] = {set: 1, %s: ", metric, key, member)
			if v, ok := best[at]; !ok || (x.value < v) == (member == "min") {
				best[at] = x.value
			}
			continue
		case x.buckets == nil:
			value = fmt.Sprintf("%s: %.0f", member, x.value)
		case len(x.buckets) > 2:
			value = "slots: [" + strings.Join(slots(x.buckets), " ") + "]"
		}
		if value == "count: 0" {
			continue
		}
		lines = append(lines, fmt.Sprintf("%s[%s] = {%s}", metric, key, value))
	}
	for at, v := range best {
		lines = append(lines, fmt.Sprintf("%s%.0f}", at, v))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// withoutCPU removes the label cpu from labels.
func withoutCPU(labels string) string {
	return strings.Replace(cpuLabel.ReplaceAllString(labels, ""), ",}", "}", 1)
}

var cpuLabel = regexp.MustCompile(`\bcpu="[0-9]+",?`)

// slots returns the slots of a hist() for the given cumulative buckets.
func slots(buckets map[float64]float64) []string {
	var out []string
	before := 0.0
	for i, le := range slices.Sorted(maps.Keys(buckets)) {
		if n := buckets[le] - before; n > 0 {
			out = append(out, fmt.Sprintf("%d:%.0f", i+1, n))
		}
		before = buckets[le]
	}
	return out
}

// serve runs ebpf_exporter with an object and a configuration, runs the workload, and returns the page
// of metrics.
func serve(t *testing.T, b built, object, config string, workload []string) string {
	t.Helper()
	program := filepath.Join(filepath.Dir(fetched(t, "sid")), "ebpf_exporter")
	if _, err := os.Stat(program); err != nil {
		t.Skip("skipped: no ebpf_exporter: tests/setup/loaders.sh could not build it")
	}
	dir := b.path("exporter")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(object)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"x.yaml": []byte(config), "x.bpf.o": content, "ebpf_exporter": binary} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	cmd := inSid(t, filepath.Join(dir, "ebpf_exporter"), "--config.dir="+dir, "--config.names=x",
		"--web.listen-address="+address)
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Log(messages.String())
		}
	}()
	page(t, address) // wait until it is attached
	if out, err := exec.Command(workload[0], workload[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return page(t, address)
}

// series are the values on a page of metrics for a name and its labels other than le and object.
type series struct {
	value, count, sum float64
	buckets           map[float64]float64 // for a histogram: cumulative, by le
}

// readPage parses metrics in Prometheus' text format by name and sorted labels.
func readPage(t *testing.T, text string) map[string]*series {
	t.Helper()
	histograms := map[string]bool{}
	found := map[string]*series{}
	label := regexp.MustCompile(`([a-zA-Z_0-9]+)="([^"]*)"`)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) == 4 && f[1] == "TYPE" && (f[3] == "histogram" || f[3] == "summary") {
			histograms[f[2]] = true
		}
		end := strings.LastIndexByte(strings.TrimSpace(line), ' ')
		if strings.HasPrefix(line, "#") || end < 0 {
			continue
		}
		value, err := strconv.ParseFloat(strings.TrimSpace(line[end:]), 64)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		name, labels, _ := strings.Cut(line[:end], "{")
		var own []string
		bound := 0.0
		for _, l := range label.FindAllStringSubmatch(labels, -1) {
			switch l[1] {
			case "object":
			case "le":
				if bound, err = strconv.ParseFloat(l[2], 64); err != nil {
					t.Fatalf("%v: %s", err, line)
				}
			default:
				own = append(own, l[0])
			}
		}
		labels = ""
		if slices.Sort(own); own != nil {
			labels = "{" + strings.Join(own, ",") + "}"
		}
		base, suffix := name, ""
		for _, s := range []string{"_bucket", "_count", "_sum"} {
			if b, ok := strings.CutSuffix(name, s); ok && histograms[b] {
				base, suffix = b, s
			}
		}
		x := found[base+labels]
		if x == nil {
			x = &series{}
			found[base+labels] = x
		}
		switch suffix {
		case "_bucket":
			if x.buckets == nil {
				x.buckets = map[float64]float64{}
			}
			x.buckets[bound] = value
		case "_count":
			x.count = value
		case "_sum":
			x.sum = value
		default:
			x.value = value
		}
	}
	return found
}

// page waits until an exporter serves its metrics.
func page(t *testing.T, address string) string {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		r, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			continue
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err == nil {
			return string(text)
		}
	}
	t.Fatal("no response from ebpf_exporter")
	return ""
}
