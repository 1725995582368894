// SPDX-License-Identifier: Apache-2.0

// Package color decides whether messages are colored, for both programs alike.
//
// It takes the choice on the command line, whether the output is a terminal, and the environment. It writes nothing.
package color

import (
	"btc/internal/option"
)

// Option returns the row of the option table; its value is stored in to.
func Option(to *string) option.Option {
	return option.Option{Name: "color", Value: "WHEN", Choices: option.Choices("auto", "always", "never"), To: to,
		Help: "color messages: always, never, or auto (on a terminal, unless NO_COLOR is set or TERM is dumb); default: $BPFTRACE_COLOR, or auto"}
}

// Wanted reports whether messages are colored. choice is the value of the option; if it is "", the variable
// BPFTRACE_COLOR decides, as in bpftrace.
func Wanted(choice string, terminal bool, getenv func(string) string) bool {
	if choice == "" {
		choice = getenv("BPFTRACE_COLOR")
	}
	switch choice {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && Capable(getenv)
}

// Capable reports whether the environment lets programs use control sequences on a terminal.
func Capable(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}
