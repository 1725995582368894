package mach

import (
	"fmt"

	"btc/ir"
)

// Error is a fault of the script that only the backend can see: a frame or a
// function too large for BPF.
type Error struct {
	Func string
	Pos  ir.Pos
	Msg  string
}

func (e *Error) Error() string {
	if e.Pos.Line > 0 {
		return fmt.Sprintf("%d:%d: %s: %s", e.Pos.Line, e.Pos.Col, e.Func, e.Msg)
	}
	return e.Func + ": " + e.Msg
}
