// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"btc/tests/tier"
)

// hostPrograms builds btc and btrun, with which the kernel of this host runs a script, and returns their directory.
func hostPrograms(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root: programs cannot be loaded")
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-o", bin, "btc/cmd/btc", "btc/cmd/btrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

const sampling = "profile:hz:99 { @samples[cpu] = count(); }\n"

// process is a program of the host that a test started.
type process struct {
	*exec.Cmd
	lines chan string
	seen  []string
}

// start starts a program, whose standard error is read line by line. It is ended as Ctrl-C ends it.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(name, args...), lines: make(chan string, 100)}
	out, err := p.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
	}()
	t.Cleanup(func() { p.end(t) })
	return p
}

// line returns the submatches of the first line that matches.
func (p *process) line(t *testing.T, pattern string) []string {
	t.Helper()
	r, late := regexp.MustCompile(pattern), time.After(30*time.Second)
	for {
		select {
		case text, ok := <-p.lines:
			if !ok {
				if regexp.MustCompile(`(?i)not permitted|permission|no BTF|not mounted|ENOSYS`).MatchString(strings.Join(p.seen, "\n")) {
					t.Skipf("skipped: %s may not trace here: %q", filepath.Base(p.Path), p.seen)
				}
				t.Fatalf("%s ended: %q", filepath.Base(p.Path), p.seen)
			}
			p.seen = append(p.seen, text)
			if m := r.FindStringSubmatch(text); m != nil {
				return m
			}
		case <-late:
			t.Fatalf("no line is %s: %q", pattern, p.seen)
		}
	}
}

// end ends a program.
func (p *process) end(t *testing.T) {
	t.Helper()
	if p.ProcessState != nil {
		return
	}
	p.Process.Signal(os.Interrupt)
	done := make(chan error, 1)
	go func() { done <- p.Wait() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		p.Process.Kill()
		t.Errorf("%s does not end", p.Path)
		<-done
	}
}

// TestKernelColumn runs a script and looks at what the page of its stages says that the kernel made of it.
func TestKernelColumn(t *testing.T) {
	tier.Real.Need(t, "starts a browser, and loads programs")
	browser, bin, dir := findBrowser(t), hostPrograms(t), t.TempDir()
	script := filepath.Join(dir, "s.bt")
	if err := os.WriteFile(script, []byte(sampling), 0o600); err != nil {
		t.Fatal(err)
	}
	dump := func() string {
		cmd := exec.Command(filepath.Join(bin, "btc"), "compile", "--dump=html", script)
		cmd.Dir = t.TempDir() // it gets the object
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		file := filepath.Join(t.TempDir(), "s.html")
		if err := os.WriteFile(file, out, 0o600); err != nil {
			t.Fatal(err)
		}
		return "file://" + file
	}
	page := dump()
	x := browse(t, browser, page, page)
	x.expect("#stages", "It is not loaded now")

	if out, err := exec.Command(filepath.Join(bin, "btc"), "compile", script, "-o", filepath.Join(dir, "s.o")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start(t, filepath.Join(bin, "btrun"), filepath.Join(dir, "s.o")).line(t, "^Attached ")
	page = dump()
	x = browse(t, browser, page, page)
	const column = `[aria-label="Kernel's instructions"]`
	if got := x.text("#stages"); strings.Contains(got, "It is not loaded now") {
		t.Fatal("the page does not find the program that runs")
	}
	x.expect("#stages", "runs in 1s of", "bytes of machine code")
	// The verifier has replaced the number of the helper by its function, and the map by its address.
	x.expect(column, "profile_hz_99", "0: (", "exit")
	if got := x.eval(`Array.from(document.querySelectorAll("[aria-label=Script] [data-keys]")).find((e) => e.textContent.startsWith("count()")).dispatchEvent(new MouseEvent("mouseover", {bubbles: true}))`); got != "true" {
		t.Errorf("pointing at count(): %s", got)
	}
	x.expect(".says", "kernel instruction")
	if got := x.eval(`Array.from(document.querySelectorAll("[aria-label=\"Kernel's instructions\"] .on")).length > 0`); got != "true" {
		t.Error("no instruction of the kernel is marked")
	}
	x.axe()
}

// get sends a request and returns the status and the body.
func get(t *testing.T, client *http.Client, method, url string, header map[string]string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	a, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return a.StatusCode, string(text)
}

// TestLiveRun shows a run of this host while it goes on, on a Unix socket and on a port: who may read it, and that it is read only.
func TestLiveRun(t *testing.T) {
	tier.Real.Need(t, "loads programs")
	bin, dir := hostPrograms(t), t.TempDir()
	script := filepath.Join(dir, "sampling.bt")
	if err := os.WriteFile(script, []byte(sampling), 0o600); err != nil {
		t.Fatal(err)
	}
	btc := filepath.Join(bin, "btc")
	unix := func(socket string) *http.Client {
		return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}}}
	}
	t.Run("socket", func(t *testing.T) {
		socket, file := filepath.Join(dir, "live.sock"), filepath.Join(dir, "end.html")
		p := start(t, btc, "report", "--live", "--socket", socket, "-o", file, script)
		path := p.line(t, `the page is (/[0-9a-f]{32}/) on the socket `+regexp.QuoteMeta(socket))[1]
		if i, err := os.Stat(socket); err != nil || i.Mode().Perm() != 0o600 || i.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			t.Errorf("the socket: %v, %v", i, err)
		}
		client := unix(socket)
		var status int
		var text string
		for range 100 { // until it has begun
			if status, text = get(t, client, "GET", "http://localhost"+path+"data", nil); status == 200 && strings.Contains(text, `"name":"@samples"`) {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		if status != 200 || !strings.Contains(text, `"name":"@samples"`) || !strings.Contains(text, `"ended":false`) {
			t.Fatalf("status %d: %.300s (%q)", status, text, p.seen)
		}
		if status, text = get(t, client, "GET", "http://localhost"+path, nil); status != 200 || !strings.Contains(text, "<title>sampling.bt</title>") {
			t.Errorf("the page: status %d, %.300s", status, text)
		}
		for _, x := range []struct {
			method, path string
			header       map[string]string
			status       int
		}{
			{"GET", "/", nil, 404},
			{"GET", "/" + strings.Repeat("0", 32) + "/", nil, 404},
			{"POST", path, nil, 405},
			{"PUT", path + "data", nil, 405},
			{"DELETE", path, nil, 405},
			{"GET", path + "data", map[string]string{"Origin": "http://evil.example"}, 403},
			{"GET", path + "data", map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		} {
			if status, text := get(t, client, x.method, "http://localhost"+x.path, x.header); status != x.status || strings.Contains(text, "@samples") {
				t.Errorf("%+v: status %d, %.100s", x, status, text)
			}
		}
		p.end(t)
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "sampling.bt") {
			t.Errorf("the page of -o: %v", err)
		}
		if _, err := os.Stat(socket); err == nil {
			t.Error("the socket is left over")
		}
	})
	t.Run("port", func(t *testing.T) {
		p := start(t, btc, "report", "--live", script)
		m := p.line(t, `the page is (http://127\.0\.0\.1:(\d+)(/[0-9a-f]{32}/))`)
		url, port, path := m[1], m[2], m[3]
		for range 100 {
			if status, _ := get(t, http.DefaultClient, "GET", url, nil); status == 200 {
				break
			}
			time.Sleep(200 * time.Millisecond)
		}
		for _, x := range []struct {
			method, path string
			header       map[string]string
			status       int
		}{
			{"GET", path, nil, 200},
			{"GET", path + "data", map[string]string{"Host": "localhost:" + port, "Origin": "http://localhost:" + port}, 200},
			{"GET", path + "data", map[string]string{"Host": "evil.example:" + port}, 403}, // a name that resolves to this machine
			{"GET", path + "data", map[string]string{"Host": "127.0.0.1"}, 403},
			{"GET", path + "data", map[string]string{"Origin": "http://evil.example"}, 403},
			{"GET", path + "data", map[string]string{"Origin": "null"}, 403},
			{"POST", path, nil, 405},
			{"GET", "/", nil, 404},
		} {
			if status, text := get(t, http.DefaultClient, x.method, fmt.Sprintf("http://127.0.0.1:%s%s", port, x.path), x.header); status != x.status || x.status != 200 && strings.Contains(text, "@samples") {
				t.Errorf("%+v: status %d, %.100s", x, status, text)
			}
		}
	})
}
