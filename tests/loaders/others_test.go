// SPDX-License-Identifier: Apache-2.0

package loaders

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"btc/btrace"
)

// library runs an object by package btrace.
func library(t *testing.T, b built, name string) string {
	o, err := btrace.Open(b.path(name + ".o"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := btrace.Load(o, btrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Attach(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := b.workload(name)
	if out, err := exec.Command(w[0], w[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Stop()
	events := 0
	for range s.Events() {
		events++
	}
	if events > 0 {
		return fmt.Sprintf("%d events", events)
	}
	var lines []string
	stacks := btrace.Count(0)
	for _, m := range s.Maps() {
		x, err := m.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		symbol := strings.TrimPrefix(m.Name(), "@")
		if symbol == "" {
			symbol = "AT_"
		}
		for _, e := range x.Entries {
			key := "0"
			if !m.Scalar() {
				var parts []string
				for i, k := range e.Key {
					if _, ok := k.(btrace.Stack); ok {
						stacks += e.Value.(btrace.Count)
					}
					parts = append(parts, fmt.Sprintf("%s: %v", m.KeyNames()[i], k))
				}
				key = "{" + strings.Join(parts, ", ") + "}"
			}
			lines = append(lines, fmt.Sprintf("%s[%s] = {%s}", symbol, key, valueText(e.Value)))
		}
	}
	if stacks > 0 {
		return fmt.Sprintf("%d in stacks", stacks)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// valueText is a value as found prints its bytes.
func valueText(v btrace.Value) string {
	switch v := v.(type) {
	case btrace.Count:
		return fmt.Sprintf("count: %d", v)
	case btrace.Sum:
		return fmt.Sprintf("sum: %v", v.Total)
	case btrace.Min:
		return fmt.Sprintf("set: 1, min: %v", v.Value)
	case btrace.Max:
		return fmt.Sprintf("set: 1, max: %v", v.Value)
	case btrace.Avg:
		return fmt.Sprintf("count: %d, total: %v", v.Count, v.Total)
	case btrace.Stats:
		return fmt.Sprintf("count: %d, total: %v", v.Count, v.Total)
	case *btrace.Hist:
		var slots []string
		for i, n := range v.Counts {
			if n > 0 {
				slots = append(slots, fmt.Sprintf("%d:%d", i, n))
			}
		}
		return "slots: [" + strings.Join(slots, " ") + "]"
	}
	return fmt.Sprint(v)
}

// fetched is a directory of tests/setup/loaders.sh.
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

// libbpfProgram compiles testdata/libbpf.c with the headers of the older libbpf: it runs with the newer one, too.
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
	cmd := exec.Command("gcc", "-Wall", "-O1", "-I", dir+"/usr/include", "-o", program, "testdata/libbpf.c", libs[0], "-Wl,--allow-shlib-undefined")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

func libbpfBookworm(t *testing.T, b built, name string) string {
	program := libbpfProgram(t, b)
	libs, _ := filepath.Glob(fetched(t, "bookworm") + "/usr/lib/*/libbpf.so.1")
	elf, _ := filepath.Glob(fetched(t, "bookworm") + "/*/*/libelf.so.1")
	elf = append(elf, libs...)
	path := "LD_LIBRARY_PATH="
	for _, l := range append(libs, elf...) {
		path += filepath.Dir(l) + ":"
	}
	cmd := withTracefs(append([]string{"env", strings.TrimSuffix(path, ":"), program, b.path(name + ".o")}, b.workload(name)...)...)
	return found(t, b.path(name+".o"), output(t, cmd))
}

// inSid is a command in the fetched system, which sees /tmp, /proc, /sys and /dev of this one.
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
	return exec.Command("unshare", append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh", root}, args...)...)
}

func libbpfSid(t *testing.T, b built, name string) string {
	cmd := inSid(t, append([]string{libbpfProgram(t, b), b.path(name + ".o")}, b.workload(name)...)...)
	return found(t, b.path(name+".o"), output(t, cmd))
}

// bpftool loads and attaches an object, runs the workload, and prints all maps.
func bpftool(t *testing.T, b built, name string) string {
	pins := "/sys/fs/bpf/" + filepath.Base(b.dir) + "-" + name
	const script = `set -e; pins=$1 object=$2; shift 2; mkdir "$pins"; trap 'rm -rf "$pins"' EXIT
bpftool prog loadall "$object" "$pins/prog" pinmaps "$pins/map" autoattach >&2
"$@" >&2
for m in "$pins"/map/*; do echo "== ${m##*/}"; bpftool -j map dump pinned "$m" 2>/dev/null || true; echo; done`
	cmd := inSid(t, append([]string{"sh", "-c", script, "sh", pins, b.path(name + ".o")}, b.workload(name)...)...)
	if name == "usdt" {
		const refusal = "does not support autoattach"
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), refusal) {
			t.Fatalf("%v\n%s", err, out)
		}
		return refusal
	}
	out := output(t, cmd)
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

// bytesOf is a list of bytes as bpftool prints them, in hexadecimal.
func bytesOf(t *testing.T, list []string) string {
	t.Helper()
	var b []byte
	for _, text := range list {
		one, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
		if err != nil || len(one) != 1 {
			t.Fatalf("not a byte: %s", text)
		}
		b = append(b, one[0])
	}
	return hex.EncodeToString(b)
}

// exporter serves an object with ebpf_exporter and the configuration that btc export writes. What btc
// refuses to write is "refused".
func exporter(t *testing.T, b built, name string) string {
	program := filepath.Join(filepath.Dir(fetched(t, "sid")), "ebpf_exporter")
	if _, err := os.Stat(program); err != nil {
		t.Skip("skipped: no ebpf_exporter: tests/setup/loaders.sh could not build it")
	}
	dir := b.path("exporter")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	config, err := exec.Command(b.path("btc"), "export", "ebpf_exporter", b.path(name+".o")).Output()
	if err != nil {
		return "refused"
	}
	object, err := os.ReadFile(b.path(name + ".o"))
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{name + ".yaml": config, name + ".bpf.o": object, "ebpf_exporter": binary} {
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
	cmd := inSid(t, filepath.Join(dir, "ebpf_exporter"), "--config.dir="+dir, "--config.names="+name, "--web.listen-address="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	page(t, address) // attached
	w := b.workload(name)
	if out, err := exec.Command(w[0], w[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	spec, err := ebpf.LoadCollectionSpec(b.path(name + ".o"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(page(t, address)) {
		metric, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		metric, labels, keyed := strings.Cut(strings.TrimPrefix(metric, "ebpf_exporter_"), "{")
		m := spec.Maps[metric]
		if m == nil || value == "0" {
			continue
		}
		key := "0"
		if keyed {
			key = "{" + strings.NewReplacer(`="`, ": ", `"`, "", ",", ", ").Replace(labels)
		}
		number, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s[%s] = {%s: %.0f}", metric, key, m.Value.(*btf.Struct).Members[0].Name, number))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// page waits for the metrics of an exporter.
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
	t.Fatal("ebpf_exporter does not answer")
	return ""
}
