// Command btc compiles scripts in the bpftrace language, ahead of time, into
// BPF objects that btrun attaches on any host.
package main

import (
	"fmt"
	"io"
	"os"
	"runtime/debug"
)

// version is set by the linker.
var version = "devel"

// command is a row of the command table.
type command struct {
	name, args, summary string
	run                 func(args []string) int
}

// commands is the table that main dispatches on and that help prints.
func commands() []command {
	return []command{
		{"compile", "FILE.bt | -e PROGRAM [-o FILE.o]", "compile a script to FILE.o and FILE.json", runCompile},
		{"run", "FILE.bt | -e PROGRAM [params]", "compile and trace at once (root)", runRun},
		{"fmt", "[-w] FILE.bt ...", "print scripts in canonical form", runFmt},
		{"list", "[-v] [PATTERN]", "list the probes and structs of a target", runList},
		{"check", "FILE.o ... [--target FILE]...", "say whether objects load on the kernels of targets", runCheck},
		{"explain", "CODE", "explain an error or warning code", runExplain},
		{"passes", "", "list the compiler's passes and their order constraints", runPasses},
		{"target", "show|diff|capture|import", "show or compare target files, or make one of this host or of another", runTarget},
		{"version", "[--json]", "print the version", runVersion},
	}
}

func main() { os.Exit(dispatch(os.Args[1:])) }

func dispatch(args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		if len(args) == 0 {
			usage(os.Stderr)
			return 1
		}
		usage(os.Stdout)
		return 0
	}
	if args[0] == "--version" || args[0] == "-V" {
		args[0] = "version"
	}
	// Compiling ends before much garbage is there: collecting it as eagerly as by
	// default would take half of the time. The first collection is at 16 MB.
	if args[0] == "compile" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(args[1:])
		}
	}
	fmt.Fprintf(os.Stderr, "btc: unknown command %q; `btc help` lists the commands\n", args[0])
	return 1
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "btc compiles bpftrace scripts ahead of time to BPF objects; btrun runs them.")
	fmt.Fprintln(w)
	fmt.Fprintln(w, "Commands:")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-8s %-34s %s\n", c.name, c.args, c.summary)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "`btc COMMAND -h` describes a command's options.")
}

// fail prints an error that has no place in a script.
func fail(format string, args ...any) int {
	fmt.Fprintf(os.Stderr, "btc: "+format+"\n", args...)
	return 1
}
