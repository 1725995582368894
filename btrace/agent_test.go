// SPDX-License-Identifier: Apache-2.0

package btrace_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAgent checks that the example agent serves a histogram of the activity of this process.
func TestAgent(t *testing.T) {
	needRoot(t)
	text, err := os.ReadFile("../examples/agent/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > 40 {
		t.Errorf("example has %d lines (max 40)", n)
	}
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir, "../examples/agent").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	object, manifest := compiled(t, fmt.Sprintf(`tracepoint:syscalls:sys_enter_lseek /pid == %d/ { @offset[comm] = hist(args.offset); }`, os.Getpid()))
	os.WriteFile(filepath.Join(dir, "x.o"), object, 0o600)
	os.WriteFile(filepath.Join(dir, "x.json"), manifest, 0o600)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	agent := exec.Command(filepath.Join(dir, "agent"), filepath.Join(dir, "x.o"), address)
	var messages bytes.Buffer
	agent.Stderr = &messages
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		agent.Process.Kill()
		agent.Wait()
	}()
	page := func() string {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			r, err := http.Get("http://" + address + "/metrics")
			if err != nil {
				continue
			}
			b, err := io.ReadAll(r.Body)
			r.Body.Close()
			if err == nil {
				return string(b)
			}
		}
		agent.Process.Kill()
		agent.Wait()
		t.Fatalf("no response from the agent: %s", messages.String())
		return ""
	}
	page() // wait until it is attached
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range 8 {
		unix.Seek(-1, int64(i), 0)
	}
	comm, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/comm", unix.Gettid()))
	key := strings.TrimSpace(string(comm))
	for _, want := range []string{`le="0"} 1`, `le="1"} 2`, `le="3"} 4`, `le="7"} 8`, `le="+Inf"} 8`} {
		if line := fmt.Sprintf(`btc_x_offset_bucket{comm=%q,object="x",%s`, key, want); !strings.Contains(page(), line) {
			t.Errorf("%s not found in\n%s", line, page())
		}
	}
}
