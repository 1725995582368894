// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFileParameters checks that a file is read as systemd reads it for EnvironmentFile and $PARAMETERS (systemd.exec(5),
// systemd.service(5)).
func TestFileParameters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.conf")
	if got, err := fileParameters(path); got != nil || err != nil {
		t.Errorf("a file that does not exist: %q, %v", got, err)
	}
	for _, c := range []struct {
		text string
		want []string // nil: an error
	}{
		{"", []string{}},
		{"OPTIONS=-v\n", []string{}},
		{"# PARAMETERS=no\nPARAMETERS=\n", []string{}},
		{"OPTIONS=-v\nPARAMETERS=a  b\t12\n", []string{"a", "b", "12"}},
		{"PARAMETERS=a\nPARAMETERS= b -- --name=v", []string{"b", "--", "--name=v"}},
		{`PARAMETERS="a b"`, []string{"a", "b"}},
		{`PARAMETERS="'a b' c"`, []string{"a b", "c"}},
		{`PARAMETERS=a 'b  c' "d \"e\"" f\ g ''`, []string{"a", "b  c", `d "e"`, "f g", ""}},
		{"  PARAMETERS=a \\\nb\n", []string{"a", "b"}},
		{`PARAMETERS=it's`, nil},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := fileParameters(path)
		if (err != nil) != (c.want == nil) || err == nil && !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", c.text, got, err)
		}
	}
	if err := os.WriteFile(path, []byte("PARAMETERS=b -- --n=1"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parseArgs([]string{"--parameters", path, "x.o", "a"}, nil)
	o.scriptArgs(nil)
	if err != nil || !slices.Equal(o.Args, []string{"a", "b"}) || o.Params["n"] != "1" {
		t.Errorf("%q, %q, %v", o.Args, o.Params, err)
	}
}

// TestReloadOptions checks what --reload cannot be combined with.
func TestReloadOptions(t *testing.T) {
	for args, want := range map[string]string{
		"--reload -":                 "--reload reads the object again",
		"--reload -c true x.o":       "--reload cannot be combined with -c",
		"--reload --test x.o":        "--reload cannot be combined with -c",
		"--request-reload 1":         "--request-reload needs the file",
		"--request-reload 0":         "--request-reload: \"0\" is not a number",
		"--reload=f x.o":             "",
		"--request-reload 1 -v":      "cannot be combined",
		"--reload=f --follow-forks ": "--follow-forks needs processes",
	} {
		_, err := parseArgs(strings.Fields(args), nil)
		if fmt.Sprint(err) != "<nil>" != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestRequestReload checks that a request waits for a reload that began after it.
func TestRequestReload(t *testing.T) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGUSR2)
	defer signal.Stop(asked)
	o := &arguments{}
	o.Results, o.Request = filepath.Join(t.TempDir(), "result"), os.Getpid()
	if err := requestReload(o); err == nil || !strings.Contains(err.Error(), "does not run with --reload=") {
		t.Errorf("without a file: %v", err)
	}
	for _, text := range []string{"0\n", "1 0\n", "", "x 0\n"} { // not of this process, which would get the signal
		if err := os.WriteFile(o.Results, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := requestReload(o); err == nil || !strings.Contains(err.Error(), "does not run with --reload=") {
			t.Errorf("a file with %q: %v", text, err)
		}
	}
	if len(asked) > 0 {
		t.Error("a process that has not written the file got the signal")
	}
	d, err := createDocument(o.Results)
	if err != nil {
		t.Fatal(err)
	}
	r := &reloader{args: o, results: d}
	for _, c := range []struct{ before, after, last, want string }{
		{"", "\n", "", ""},
		{"old error\n", "\n", "", ""},
		{"", "new error\n", "", "new error"},
		{loading, "\n", "of after\n", "of after"}, // a reload that may have read the files of before
	} {
		r.write(c.before)
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-asked
			r.write(loading)
			time.Sleep(50 * time.Millisecond)
			r.count++
			r.write(c.after)
			if c.last != "" {
				r.write(loading)
				time.Sleep(50 * time.Millisecond)
				r.count++
				r.write(c.last)
			}
		}()
		err := requestReload(o)
		<-done
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%q: %v", c.want, err)
		}
	}
}

// TestReloadFile checks that the file of --reload is a regular one, and exists as long as the run.
func TestReloadFile(t *testing.T) {
	o := &arguments{}
	o.Results = "/dev/null"
	if _, err := startReloader(o, nil, nil, &guard{}); err == nil || !strings.Contains(err.Error(), "--reload: /dev/null: ") {
		t.Errorf("a device: %v", err)
	}
	o.Results = filepath.Join(t.TempDir(), "result")
	over := make(chan struct{})
	defer close(over)
	r, err := startReloader(o, nil, nil, &guard{over: over})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(o.Results); err != nil || string(text) != fmt.Sprintf("%d 0\n", os.Getpid()) {
		t.Errorf("%q, %v", text, err)
	}
	r.end()
	r.write(loading)
	if _, err := os.Stat(o.Results); !os.IsNotExist(err) {
		t.Errorf("after the end: %v", err)
	}
}

// TestWatchdog checks that a manager with a watchdog gets keep-alives often enough, and not if the watchdog is that of
// another process.
func TestWatchdog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "socket")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	next := func() string {
		buf := make([]byte, 100)
		manager.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		n, err := manager.Read(buf)
		if err != nil {
			return ""
		}
		return string(buf[:n])
	}
	for pid, want := range map[int]bool{os.Getpid(): true, os.Getpid() + 1: false} {
		t.Setenv("NOTIFY_SOCKET", name)
		t.Setenv("WATCHDOG_USEC", "40000")
		t.Setenv("WATCHDOG_PID", fmt.Sprint(pid))
		n := newNotifier()
		n.alive()
		n.alive() // too early
		time.Sleep(11 * time.Millisecond)
		n.alive()
		n.ending()
		got := next() + " " + next() + " " + next()
		if all := "WATCHDOG=1 WATCHDOG=1 WATCHDOG_USEC=18446744073709551615"; want && got != all || !want && got != "  " {
			t.Errorf("process %d: %q", pid, got)
		}
		n.reloading()
		if got := next(); !strings.HasPrefix(got, "RELOADING=1\nMONOTONIC_USEC=") {
			t.Errorf("%q", got)
		}
		n.close()
	}
}
