// SPDX-License-Identifier: Apache-2.0

package ir

import (
	"fmt"
	"testing"
)

func manyFuncs(n int) *Module {
	m := &Module{}
	for i := range n {
		m.Funcs = append(m.Funcs, &Func{Name: fmt.Sprint("f", i)})
	}
	return m
}

func TestEachFuncOnce(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 100} {
		m := manyFuncs(n)
		m.EachFunc(func(i int, f *Func) { f.Name += fmt.Sprint(" is ", i) })
		for i, f := range m.Funcs {
			if want := fmt.Sprint("f", i, " is ", i); f.Name != want {
				t.Errorf("with %d functions: %q, want %q", n, f.Name, want)
			}
		}
	}
}

func TestEachFuncFirstPanic(t *testing.T) {
	defer func() {
		if got := recover(); got != "f3" {
			t.Errorf("panic = %v, want that of f3", got)
		}
	}()
	manyFuncs(100).EachFunc(func(i int, f *Func) {
		if i%3 == 0 && i > 0 {
			panic(f.Name)
		}
	})
}
