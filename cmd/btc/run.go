package main

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"btc/compile"
	"btc/internal/manifest"
)

// runRun compiles to a temporary place and traces at once.
func runRun(args []string) int {
	var s scriptFlags
	flags := newFlags("run", "FILE.bt | -e PROGRAM [btrun options and parameters]")
	s.add(flags)
	s.targets.native = true
	own, rest, first := splitRun(flags, splitJoined(args))
	if err := flags.Parse(own); err != nil {
		return flagStatus(flags, err)
	}
	if runtime.GOOS != "linux" {
		return fail("btc run needs Linux: compile here with btc compile -o FILE.o, and trace there with btrun FILE.o")
	}
	var script []string
	if !s.isExpr && first >= 0 {
		script = []string{rest[first]}
		rest = slices.Delete(rest, first, first+1)
	}
	name, text, err := s.script(script)
	if err != nil {
		return fail("%v", err)
	}
	s.scriptParams(runParams(rest))
	s.fixAll = true
	out, status := s.compile(name, text)
	if out == nil {
		return status
	}
	out = s.forHost(out, name, text)
	dir, err := os.MkdirTemp("", "btc")
	if err != nil {
		return fail("%v", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "script.o")
	if err := writeBoth(path, out); err != nil {
		return fail("%v", err)
	}
	// Who runs a script has its text: the files that it names may be written.
	var allow []string
	if m, err := manifest.Parse(out.Manifest); err == nil {
		for _, p := range writtenFiles(m) {
			allow = append(allow, "--allow", p)
		}
	}
	return trace(append(append(allow, path), rest...))
}

// forHost compiles again for this kernel when the object copies kernel types whole, whose
// members have no relocations; out stays where this kernel cannot be captured.
func (s *scriptFlags) forHost(out *compile.Output, name, text string) *compile.Output {
	m, err := manifest.Parse(out.Manifest)
	if err != nil || s.targets.given() || s.untrusted || !m.CopiesWhole() {
		return out
	}
	own := *s
	own.noWarnings = true
	own.targets.files = []string{"host"}
	if again, _ := own.compile(name, text); again != nil {
		return again
	}
	return out
}

// valueOptions are the options of btrun that take their value from the next
// argument.
var valueOptions = []string{"p", "c", "o", "f", "B", "pid", "cmd", "output", "format", "btf", "traceable-functions", "allow", "max-memory"}

// splitRun tells our own options from what btrun gets. first is the place in
// rest of the first operand, which is the script unless there is -e; -1 for none.
func splitRun(flags *flag.FlagSet, args []string) (own, rest []string, first int) {
	first = -1
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		f := flags.Lookup(name)
		to, value := &rest, slices.Contains(valueOptions, name)
		switch {
		case arg == "--":
			return own, append(rest, args[i:]...), first
		case arg == "-" || arg == "" || arg[0] != '-':
			if first < 0 {
				first = len(rest)
			}
			value = false
		case f != nil:
			toggle, _ := f.Value.(interface{ IsBoolFlag() bool })
			to, value = &own, toggle == nil
		case name == "h" || name == "help":
			to = &own
		}
		*to = append(*to, arg)
		if value && !joined && i+1 < len(args) {
			i++
			*to = append(*to, args[i])
		}
	}
	return own, rest, first
}

// runParams are the script's parameters among the arguments for btrun.
func runParams(rest []string) []string {
	var params []string
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		switch {
		case arg == "--":
			return append(params, rest[i+1:]...)
		case arg == "" || arg == "-" || arg[0] != '-':
			params = append(params, arg)
		case slices.Contains(valueOptions, name) && !joined:
			i++
		}
	}
	return params
}

// trace runs the btrun that lies beside this program and gives its status. A
// signal meant to end the tracing ends btrun, which prints the maps; we stay
// until then, and clean up.
func trace(args []string) int {
	self, err := os.Executable()
	if err != nil {
		return fail("%v", err)
	}
	btrun := filepath.Join(filepath.Dir(self), "btrun")
	cmd := exec.Command(btrun, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fail("btc run needs btrun beside it, and there is no %s", btrun)
		}
		return fail("cannot run btrun: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if sig != syscall.SIGINT { // the terminal sends that one to btrun, too
				cmd.Process.Signal(sig)
			}
		case <-ended:
			if code := cmd.ProcessState.ExitCode(); code >= 0 {
				return code
			}
			return fail("btrun: %v", cmd.ProcessState)
		}
	}
}
