package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"btc/ir/target"
)

// syscallNumbers reads an architecture's system call numbers from the source
// text of golang.org/x/sys/unix.
func syscallNumbers(arch string) (map[string]int, error) {
	a := target.ArchByName(arch)
	if a == nil {
		return nil, fmt.Errorf("unknown architecture %q", arch)
	}
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		return nil, fmt.Errorf("go list golang.org/x/sys: %w", err)
	}
	name := filepath.Join(strings.TrimSpace(string(out)), "unix", "zsysnum_linux_"+a.GOARCH+".go")
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
	if err != nil {
		return nil, err
	}
	numbers := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		call, isCall := strings.CutPrefix(spec.Names[0].Name, "SYS_")
		if ok && isCall && lit.Kind == token.INT {
			if nr, err := strconv.Atoi(lit.Value); err == nil {
				numbers[strings.ToLower(call)] = nr
			}
		}
		return true
	})
	return numbers, nil
}
