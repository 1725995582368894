// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the op table of docs/ir.md")

// TestDocument checks that the op table in the reference is generated from the op table in the code.
func TestDocument(t *testing.T) {
	const path = "../docs/ir.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok1 := strings.Cut(string(data), "<!-- ops begin -->\n")
	_, tail, ok2 := strings.Cut(rest, "<!-- ops end -->")
	if !ok1 || !ok2 {
		t.Fatal("marks of the table not found")
	}
	want := head + "<!-- ops begin -->\n" + opTable() + "<!-- ops end -->" + tail
	if string(data) == want {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the op table: run go test ./ir -run TestDocument -update", path)
	}
	if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

func opTable() string {
	var sb strings.Builder
	sb.WriteString("| op | stage | operands | result | effect | meaning |\n|---|---|---|---|---|---|\n")
	kinds := [...]string{AnyArg: "any", IntArg: "int", BoolArg: "bool", AddrArg: "addr", PtrArg: "ptr", MapArg: "map", KeyArg: "[key]"}
	results := [...]string{RVoid: "", RI64: "i64", RI1: "i1", RArg0: "as the first", RNonNull: "as the first, not null", RGiven: "given"}
	for i := range Ops {
		info := &Ops[i]
		if info.Inline || Op(i) == OpInvalid {
			continue
		}
		args := join(info.Args, func(k ArgKind) string { return kinds[k] })
		if info.Variadic {
			args += "..."
		}
		fmt.Fprintf(&sb, "| `%s` | %s | %s | %s | %s | %s |\n", info.Name, [...]string{"high", "core"}[info.Stage], args,
			results[info.Result], [...]string{"pure", "reads", "writes"}[info.Effect], strings.ReplaceAll(info.Doc, "|", "\\|"))
	}
	return sb.String()
}
