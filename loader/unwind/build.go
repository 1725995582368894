// SPDX-License-Identifier: Apache-2.0

package unwind

import (
	"cmp"
	"errors"
	"io"
	"os"
	"sync"

	"btc/internal/unwind"
	"btc/loader/symbols"
)

// parser is the Builder of a run: the process that parses files.
type parser struct {
	*symbols.Unwinder
	mu sync.Mutex // held during Build
}

// NewBuilder returns a Builder with a process of its own, and a directory of tables (symbols.Unwinder.UseStore) unless
// cache is empty. warn receives warnings to show.
func NewBuilder(helper symbols.Helper, cache string, warn func(string)) (Builder, error) {
	p := &parser{Unwinder: symbols.NewUnwinder(helper, warn)}
	if cache == "" {
		return p, nil
	}
	return p, p.UseStore(cache)
}

func (p *parser) Build(f *os.File) (*Table, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var magic [4]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	if string(magic[:]) != "\x7fELF" {
		return nil, ErrNotELF
	}
	return tableOf(p.Table(f))
}

// tableOf returns the table that the process has made. The process reads hostile files: it may answer that there is none.
func tableOf(t *unwind.Table, err error) (*Table, error) {
	if err != nil || t == nil {
		return nil, cmp.Or(err, errors.New("no table"))
	}
	out := &Table{Table: unwind.Table{Base: t.Base, Segments: t.Segments, Frames: t.Frames}}
	if len(t.Rows) > 0 {
		out.Chunks = t.Chunks()
	}
	return out, nil
}

func (p *parser) Close() {
	p.Cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Unwinder.Close()
}
