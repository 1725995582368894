// SPDX-License-Identifier: Apache-2.0

package attach

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The builtin cgroup in a key is a number, after which --names prints the name of the container. Metrics have labels
// for it.
func TestCgroupKeys(t *testing.T) {
	h := newContainerHost(t)
	id := func(c string) string { return strings.Repeat(c, 64) }
	const pod = "/btc-keys.slice/kubepods.slice/kubepods-pod0f1e2d3c_4b5a_4978_8695_a4b3c2d1e0f1.slice"
	for _, path := range []string{
		"/btc-keys.slice/docker-" + id("1") + ".scope", pod + "/cri-containerd-" + id("2") + ".scope", "/btc-keys.slice/other",
	} {
		h.start(path)
	}
	h.docker(id("1"), "btc-key")
	h.file("/var/log/containers/key-0_btc-shop_proxy-"+id("2")+".log", "")
	keys := compile(t, `tracepoint:syscalls:sys_enter_openat /comm == "sh"/ {
	@[cgroup, comm] = count(); @only[cgroup] = count();
	if (++@n >= 5) { exit(); }
}`)
	for args, want := range map[string]string{
		"--container btc-key":                          `(?m)^@\[\d+, sh\]: \d+$[^$]*^@only\[\d+\]: \d+$`,
		"--container btc-key --names":                  `(?m)^@\[\d+ \(btc-key\), sh\]: \d+$[^$]*^@only\[\d+ \(btc-key\)\]: \d+$`,
		"--cgroup /btc-keys.slice/other --names":       `(?m)^@only\[\d+\]: \d+$`,
		"-f prometheus --container proxy":              `_total{object="[^"]*",cgroup="\d+",namespace="btc-shop",pod="key-0",container="proxy",comm="sh"} \d`,
		"-f prometheus --cgroup /btc-keys.slice/other": `_only_total{object="[^"]*",cgroup="\d+"} \d`,
		"-f json2 --container btc-key":                 `{"key": \[\d+\], "value": \d`,
		"-f json2 --names --container btc-key":         `{"key": \[{"id": \d+, "text": "\d+ \(btc-key\)", "label": "btc-key", "container": "btc-key"}\], "value": \d`,
		"-f json --names --container btc-key":          `{"\d+\(btc-key\)": \d`,
		"-f otlp --container btc-key":                  `{"key":"container","value":{"stringValue":"btc-key"}}`,
	} {
		out := h.run(append([]string{"-q", "--timeout", "1m", keys}, strings.Fields(args)...)...)
		if !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: no %s in\n%s", args, want, out)
		}
	}
}

// A signal ends the wait for a container, and leaves no output file and no other content in one that exists.
func TestSignalDuringWait(t *testing.T) {
	h := newContainerHost(t)
	o, dir := compile(t, opens), t.TempDir()
	for _, c := range []struct{ file, options string }{
		{"text", ""}, {"rotated", "--rotate 1M"}, {"lines", "--every 1s -f json2"}, {"document", "--every 1s -f prometheus"}, {"old", ""},
	} {
		path := filepath.Join(dir, c.file)
		if c.file == "old" {
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cmd := h.command(append(strings.Fields(c.options), o, "1", "--container", "btc-none", "--wait", "-o", path)...)
		errs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := make([]byte, 100) // "Waiting for container btc-none"
		if n, err := errs.Read(said); err != nil {
			t.Errorf("%s: reading messages: %v, got %s", c.file, err, said[:n])
		}
		cmd.Process.Signal(syscall.SIGUSR1) // does nothing yet
		cmd.Process.Signal(os.Interrupt)
		timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		if s, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGINT {
			t.Errorf("%s: %v, want killed by SIGINT", c.file, cmd.ProcessState)
		}
		left, _ := filepath.Glob(filepath.Join(dir, "*"))
		hidden, _ := filepath.Glob(filepath.Join(dir, ".*"))
		switch {
		case c.file == "old":
			if b, _ := os.ReadFile(path); string(b) != "old" || len(left) != 1 {
				t.Errorf("%q in %q", b, left)
			}
		case len(left)+len(hidden) > 0:
			t.Errorf("%s: left over: %q %q", c.file, left, hidden)
		}
	}
}

// A run of btc fan that waits shows that it is alive, and ends with its input.
func TestRemoteWait(t *testing.T) {
	h := newContainerHost(t)
	o := compile(t, opens)
	cmd := h.command("--remote", "--container", "btc-none", "--wait", "-", "1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	for _, name := range []string{o, strings.TrimSuffix(o, ".o") + ".json"} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		in.Write(data)
	}
	var all strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Fprintln(&all, lines.Text())
		if strings.HasPrefix(lines.Text(), `{"type": "alive", `) {
			in.Close()
		}
	}
	cmd.Wait()
	if text := all.String(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(text, `{"type": "alive", `) ||
		!strings.Contains(text, `"status": 1, "error": "`) || !strings.Contains(text, "no running container btc-none") {
		t.Errorf("%v\n%s", cmd.ProcessState, text)
	}
}
