// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/internal/option"
	"btc/passes"
	"btc/targets/capture"
)

func fmtCommand() *command {
	var write bool
	return &command{
		name: "fmt", operands: "FILE.bt ... | -", summary: "print scripts in canonical form", files: []string{"bt"},
		options:  option.Table{{Name: "write", Short: "w", To: &write, Help: "write the result back to the file"}},
		examples: []example{{"btc fmt -w *.bt", "format all scripts of a directory"}},
		run: func(line *option.Line) int {
			operands := line.All()
			if len(operands) == 0 {
				return fail("no script to format")
			}
			status := 0
			for _, path := range operands {
				if err := formatFile(path, write); err != nil {
					fmt.Fprintln(os.Stderr, err)
					status = 1
				}
			}
			return status
		},
	}
}

func formatFile(path string, write bool) error {
	var text string
	var err error
	if path == "-" {
		if write {
			return errors.New("btc: --write: standard input is not a file to write to")
		}
		path = diag.Stdin
		text, err = readPipe(os.Stdin)
	} else {
		text, err = readScript(path)
	}
	if err != nil {
		return fmt.Errorf("btc: %w", err)
	}
	return formatText(path, text, write)
}

// formatText prints a script in canonical form, or writes it back to its file.
func formatText(path, text string, write bool) error {
	diags := &diag.List{}
	script := parse.Script(diag.NewSource(path, text), diags, expand.Values(check.IsValue))
	if err := diags.Err(); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := ast.Fprint(&out, script); err != nil {
		return err
	}
	if !write {
		_, err := os.Stdout.Write(out.Bytes())
		return err
	}
	if out.String() == text {
		return nil
	}
	return writeFiles(newFile{path, out.Bytes()})
}

func explainCommand() *command {
	return &command{
		name: "explain", operands: "CODE", summary: "explain an error or warning code",
		about: "It prints why the compiler reports the code and what to do, a script that causes the message, and one to " +
			"write instead.",
		examples: []example{{"btc explain E0202", "explain what error[E0202] means"}},
		run:      explain,
	}
}

func explain(line *option.Line) int {
	args := line.All()
	if len(args) != 1 {
		return fail("expected one code, for example: btc explain E0201")
	}
	info, ok := diag.Explain(diag.Code(strings.ToUpper(args[0])))
	if !ok {
		return fail("unknown code %s; docs/errors.md lists all", args[0])
	}
	fmt.Printf("%s: %s\n\n%s", info.Code, info.Title, wrapped(info.Explanation))
	if example, ok := diag.ExampleOf(info.Code); ok {
		fmt.Print("\n" + example.Text())
	}
	return 0
}

func passesCommand() *command {
	return &command{
		name: "passes", summary: "list the compiler's passes and their order constraints",
		about: "btc compile --dump=PASS prints the intermediate code after a pass.", run: listPasses,
	}
}

func listPasses(line *option.Line) int {
	if args := line.All(); len(args) > 0 {
		return fail("unexpected argument %q", args[0])
	}
	for _, p := range passes.Pipeline() {
		fmt.Printf("%-20s %s\n", p.Name, p.Doc)
	}
	fmt.Println("\nOrder:")
	for _, o := range passes.Orders() {
		fmt.Printf("%-20s before %-20s %s\n", o.First, o.Then, o.Reason)
	}
	return 0
}

func targetCommand() *command {
	var captured, imported string
	return &command{
		name: "target", operands: "COMMAND ...", summary: "show, compare and make target files",
		about: "A target describes a kernel: its types, tracepoints, system calls and functions. btc compiles for targets and " +
			"checks objects against them, and never reads the host. Targets of three architectures are built in.",
		sub: []*command{
			{name: "show", operands: "[FILE]", summary: "describe a target file", files: []string{"target"}, run: targetShow},
			targetDiffCommand(),
			{
				name:     "capture",
				operands: "-o FILE",
				summary:  "make a target file of this host's kernel",
				examples: []example{{"btc target capture -o host.target", "describe this host's kernel (root)"}},
				options:  option.Table{outputTarget(&captured)},
				run:      func(line *option.Line) int { return targetCapture(line, captured) },
			},
			{
				name:     "import",
				operands: "RAW -o FILE",
				summary:  "make a target file from the output of btrun --capture on another host",
				examples: []example{{"btc target import host.tar -o host.target", "host.tar is from btrun --capture host.tar"}},
				options:  option.Table{outputTarget(&imported)},
				run:      func(line *option.Line) int { return targetImport(line, imported) },
			},
		},
	}
}

// outputTarget returns the option that names the target file to write.
func outputTarget(to *string) option.Option {
	return option.Option{Name: "output", Short: "o", Value: "FILE", To: to, Help: "target file to write"}
}

func targetShow(line *option.Line) int {
	args := line.All()
	if len(args) > 1 {
		return fail("unexpected argument %q: one target at a time", args[1])
	}
	name := strings.Join(args, "")
	t, err := openTarget(name)
	if err != nil {
		return fail("%v", err)
	}
	fmt.Printf("kernel:       %s\narchitecture: %s\n", t.Release(), t.Arch().Label)
	fmt.Printf("tracepoints:  %d\nsystem calls: %d\nfunctions:    %d\n", len(t.Tracepoints("*", "*")),
		len(t.Syscalls("*")), len(t.Funcs("*")))
	for _, g := range t.Gaps() {
		fmt.Printf("missing:      %s\n", g)
	}
	if err := t.Err(); err != nil {
		return fail("the target file is damaged: %v", err)
	}
	return 0
}

func targetCapture(line *option.Line, out string) int {
	if args := line.All(); len(args) > 0 {
		return fail("unexpected argument %q", args[0])
	}
	if out == "" {
		return fail("missing output file: use -o FILE")
	}
	b, err := capture.HostFile()
	if err != nil {
		return fail("cannot capture this host: %v", err)
	}
	return written(newFile{out, b})
}

// targetImport makes a target file from the output of btrun --capture.
func targetImport(line *option.Line, out string) int {
	operands := line.All()
	switch {
	case len(operands) == 0:
		return fail("expected the file that btrun --capture wrote")
	case len(operands) > 1:
		return fail("unexpected argument %q: one file at a time", operands[1])
	case out == "":
		return fail("missing output file: use -o FILE")
	}
	raw := operands[0]
	f, err := os.Open(raw)
	if err != nil {
		return fail("%v", err)
	}
	defer f.Close()
	b, err := capture.Import(f)
	if err != nil {
		return fail("%s: %v", raw, err)
	}
	return written(newFile{out, b})
}

// written writes a file and returns the exit status.
func written(f newFile) int {
	if err := writeFiles(f); err != nil {
		return fail("%v", err)
	}
	return 0
}
