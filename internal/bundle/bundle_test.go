// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"testing"
)

func contents() *Contents {
	c := &Contents{Object: []byte("an object")}
	for i, s := range Shells {
		c.Completions[i] = []byte(s)
	}
	return c
}

func read(file []byte) (*Contents, error) { return Read(bytes.NewReader(file), int64(len(file))) }

func TestAppend(t *testing.T) {
	loader := []byte("a loader")
	file := Append(loader, contents())
	c, err := read(file)
	if err != nil || string(c.Object) != "an object" || string(c.Completions[2]) != "fish" {
		t.Fatalf("%+v, %v", c, err)
	}
	for _, plain := range [][]byte{nil, loader, bytes.Repeat(loader, 50)} {
		if c, err := read(plain); c != nil || err != nil {
			t.Errorf("a loader alone: %v, %v", c, err)
		}
	}
	// Whatever bit is changed after the loader, the object is not run.
	for i := 8 * len(loader); i < 8*len(file); i++ {
		changed := bytes.Clone(file)
		changed[i/8] ^= 1 << (i % 8)
		if c, err := read(changed); c != nil {
			t.Errorf("changed bit %d: contents, %v", i, err)
		} else if i < 8*(len(file)-len(Magic)) && err != ErrDamaged {
			t.Errorf("changed bit %d: error = %v", i, err)
		}
	}
}

// FuzzRead checks that no executable makes the reader panic or read outside of it.
func FuzzRead(f *testing.F) {
	f.Add(Append(nil, contents()))
	f.Add([]byte(Magic))
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := read(file)
		if c != nil && (err != nil || len(c.Object) > len(file)) {
			t.Error("contents and an error")
		}
	})
}
