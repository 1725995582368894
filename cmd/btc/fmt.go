// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"btc/frontend/ast"
	"btc/frontend/check"
	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/internal/option"
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
