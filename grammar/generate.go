// SPDX-License-Identifier: Apache-2.0

// Package grammar holds the ANTLR grammar of the bpftrace language. The parser and the automaton of the lexer that
// are generated from it are committed in grammar/parser and used only by frontend/parse. Generation needs Node.js;
// building does not.
package grammar

//go:generate sh -c "cd ../tools/antlr && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error"
//go:generate sh ../tools/antlr/generate.sh
//go:generate go test ./parser -run TestAutomaton -update
