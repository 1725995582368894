// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"btc/frontend/diag"
	"btc/internal/option"
)

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
