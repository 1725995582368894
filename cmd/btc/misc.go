package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
	"btc/frontend/parse"
	"btc/passes"
	"btc/targets/capture"
)

func runFmt(args []string) int {
	fs := newFlags("fmt", "[-w] FILE.bt ...")
	write := fs.Bool("w", false, "write the result back to the file")
	operands, err := parseInterleaved(fs, args)
	if err != nil {
		return flagStatus(fs, err)
	}
	if len(operands) == 0 {
		return fail("no script to format")
	}
	status := 0
	for _, path := range operands {
		if err := formatFile(path, *write); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	return status
}

func formatFile(path string, write bool) error {
	text, err := readScript(path)
	if err != nil {
		return fmt.Errorf("btc: %w", err)
	}
	diags := &diag.List{}
	script := parse.Script(diag.NewSource(path, text), diags)
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

func runExplain(args []string) int {
	if len(args) != 1 {
		return fail("give one code, for example: btc explain E0201")
	}
	info, ok := diag.Explain(diag.Code(strings.ToUpper(args[0])))
	if !ok {
		return fail("there is no code %s; docs/errors.md lists them", args[0])
	}
	fmt.Printf("%s: %s\n\n%s\n", info.Code, info.Title, info.Explanation)
	if example := diag.Example(info.Code); example != "" {
		fmt.Printf("\nFor example:\n\n    %s\n", strings.ReplaceAll(example, "\n", "\n    "))
	}
	return 0
}

func runPasses(args []string) int {
	if len(args) > 0 {
		return fail("btc passes takes no arguments")
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

func runTarget(args []string) int {
	if len(args) == 0 {
		return fail("usage: btc target show [FILE] | btc target diff A B [PATTERN] | btc target capture -o FILE | btc target import RAW -o FILE")
	}
	switch args[0] {
	case "show":
		return targetShow(args[1:])
	case "diff":
		return targetDiff(args[1:])
	case "capture":
		return targetCapture(args[1:])
	case "import":
		return targetImport(args[1:])
	}
	return fail("unknown command %q: btc target has show, diff, capture and import", args[0])
}

func targetShow(args []string) int {
	if len(args) > 1 {
		return fail("one target at a time: %q is one too many", args[1])
	}
	name := strings.Join(args, "")
	t, err := openTarget(name)
	if err != nil {
		return fail("%v", err)
	}
	fmt.Printf("kernel:       %s\narchitecture: %s\n", t.Release(), t.Arch().Label)
	fmt.Printf("tracepoints:  %d\nsystem calls: %d\nfunctions:    %d\n", len(t.Tracepoints("*", "*")), len(t.Syscalls("*")), len(t.Funcs("*")))
	for _, g := range t.Gaps() {
		fmt.Printf("missing:      %s\n", g)
	}
	if err := t.Err(); err != nil {
		return fail("the target file is damaged: %v", err)
	}
	return 0
}

func targetCapture(args []string) int {
	fs := newFlags("target capture", "-o FILE")
	out := fs.String("o", "", "target `FILE` to write")
	if err := fs.Parse(args); err != nil {
		return flagStatus(fs, err)
	}
	if *out == "" {
		return fail("say where to write with -o FILE")
	}
	b, err := capture.HostFile()
	if err != nil {
		return fail("cannot capture this host: %v", err)
	}
	return written(newFile{*out, b})
}

// targetImport makes a target file of what btrun --capture wrote on a host.
func targetImport(args []string) int {
	fs := newFlags("target import", "RAW -o FILE")
	out := fs.String("o", "", "target `FILE` to write")
	operands, err := parseInterleaved(fs, args)
	switch {
	case err != nil:
		return flagStatus(fs, err)
	case len(operands) == 0:
		return fail("name the file that btrun --capture wrote")
	case len(operands) > 1:
		return fail("unexpected argument %q: one file at a time", operands[1])
	case *out == "":
		return fail("say where to write with -o FILE")
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
	return written(newFile{*out, b})
}

// written writes a file and returns the exit status.
func written(f newFile) int {
	if err := writeFiles(f); err != nil {
		return fail("%v", err)
	}
	return 0
}
