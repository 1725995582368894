// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// EachFunc calls do for each function of the module, in parallel. do may change only its own
// function, so that the result is that of sequential calls. If do panics, EachFunc panics with the
// same value; if it panics for several functions, with that of the first.
func (m *Module) EachFunc(do func(i int, f *Func)) {
	workers := min(runtime.GOMAXPROCS(0), len(m.Funcs)/fewFuncs)
	if workers < 2 {
		for i, f := range m.Funcs {
			do(i, f)
		}
		return
	}
	var next atomic.Int64
	bugs := make([]any, len(m.Funcs))
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(m.Funcs) {
				return
			}
			func() {
				defer func() { bugs[i] = recover() }()
				do(i, m.Funcs[i])
			}()
		}
	}
	var others sync.WaitGroup
	for range workers - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	for _, bug := range bugs {
		if bug != nil {
			panic(bug)
		}
	}
}

// fewFuncs is the number of functions below which a second thread does not pay off: waking it
// costs as much as it saves.
const fewFuncs = 4
