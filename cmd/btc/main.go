// SPDX-License-Identifier: Apache-2.0

// Command btc compiles scripts in the bpftrace language ahead of time to BPF objects, which btrun attaches on any
// host.
package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"btc/internal/option"
	"btc/internal/quit"
)

// version is set by the linker.
var version = "devel"

// rootCommand returns btc with all of its commands.
func rootCommand() *command {
	root := &command{
		name: "btc", operands: "COMMAND ...",
		summary: "compiles scripts in the bpftrace language ahead of time to BPF objects, which btrun runs",
		about: "Without a command, btc accepts the command line of bpftrace, as does a link to it that " +
			"is called bpftrace: btc -e PROGRAM, btc FILE.bt and btc -l PATTERN are btc run with the same " +
			"arguments.",
		examples: []example{
			{"btc -e 'tracepoint:syscalls:sys_enter_openat { @[comm] = count(); }'", "compile and trace on this host (root), until Ctrl-C"},
			{"btc compile opens.bt -o opens.o", "write opens.o, for btrun on any host"},
			{"btc check opens.o", "report whether the object would load on the kernels of the built-in targets"},
			{"btc help compile", "describe a command"},
		},
		sub: []*command{
			compileCommand(), bundleCommand(), runCommand(), fmtCommand(), listCommand(), checkCommand(), costCommand(), explainCommand(),
			genCommand(), exportCommand(), mergeCommand(), fanCommand(), replayCommand(), symbolizeCommand(), reportCommand(), profileCommand(), passesCommand(), targetCommand(), versionCommand(),
			signCommand(), verifyCommand(), unwindCommand(),
		},
	}
	root.sub = append(root.sub, completionCommand(root), manCommand(root), helpCommand(root))
	return root
}

func helpCommand(root *command) *command {
	return &command{
		name: "help", operands: "[COMMAND ...]", summary: "describe a command and its options",
		run: func(line *option.Line) int { return helpOf(os.Stdout, root, line.Operands) },
	}
}

func main() {
	quit.Catch("btc")
	os.Exit(dispatch(os.Args))
}

func dispatch(args []string) int {
	root := rootCommand()
	if personality(args[0]) {
		if len(args) > 1 && strings.HasPrefix(args[1], "__complete") {
			return execute(programCommand(root, "bpftrace"), args[1:])
		}
		return bpftrace(root, args[1:])
	}
	args = args[1:]
	switch {
	case len(args) == 0:
		helpOf(os.Stderr, root, nil)
		return 1
	case args[0] == completeWord:
		return execute(loader(), append([]string{cobra.ShellCompRequestCmd}, args[1:]...))
	case args[0] == "-h" || args[0] == "--help":
		return helpOf(os.Stdout, root, nil)
	case args[0] == "--version" || args[0] == "-V":
		args[0] = "version"
	case bpftraceStyle(root, args[0]):
		args = append([]string{"run"}, args...)
	case !root.has(args[0]) && !strings.HasPrefix(args[0], "__complete"): // the options after it are not ours to judge
		args = args[:1]
	}
	return execute(root, args)
}

// personality reports whether the program was called by the name of bpftrace.
func personality(name string) bool {
	return strings.TrimSuffix(filepath.Base(name), ".exe") == "bpftrace"
}

// bpftraceStyle reports whether a first argument is an option or a script as bpftrace accepts
// it, and not the name of a command.
func bpftraceStyle(root *command, arg string) bool {
	if root.has(arg) {
		return false
	}
	if strings.HasPrefix(arg, "__complete") { // shell completions use this word
		return false
	}
	if strings.HasPrefix(arg, "-") || filepath.Ext(arg) == ".bt" || strings.ContainsRune(arg, filepath.Separator) {
		return true
	}
	fi, err := os.Stat(arg)
	return err == nil && fi.Mode().IsRegular()
}
