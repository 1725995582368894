// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"btc/internal/elffile"
	"btc/internal/option"
	"btc/internal/safefile"
	"btc/internal/unwind"
	"btc/internal/unwind/ehframe"
	"btc/loader/diag"
)

func unwindCommand() *command {
	return &command{
		name: "unwind", operands: "COMMAND ...", summary: "prepare tables for the stacks of programs that keep no frame pointers",
		sub: []*command{unwindPackCommand()},
	}
}

func unwindPackCommand() *command {
	var output string
	return &command{
		name: "pack", operands: "DIR|FILE ...", summary: "write a pack of the unwind tables of programs and libraries",
		about: "A pack has the tables that btrun otherwise makes from the files of a host while it traces, by build id. Of a directory, " +
			"all programs and libraries below it are packed; what is not one, or has no build id, is left out. Symbolic links below it are not followed.",
		status: "0 if all files are in the pack, 2 if some files given by name are not, 1 if the pack is not written or the command line is wrong.",
		options: option.Table{
			{Name: "output", Short: "o", Value: "FILE", To: &output, Help: "the pack to write (required)"},
		},
		examples: []example{
			{"btc unwind pack /usr/bin /usr/lib -o host.unwind", "pack the programs and libraries of a host"},
			{"btc unwind pack build/server -o server.unwind", "pack one program"},
		},
		run: func(line *option.Line) int {
			names := line.All()
			switch {
			case len(names) == 0:
				return fail("no input: give directories, programs or libraries")
			case output == "":
				return fail("no output: -o FILE")
			}
			p := &packing{tables: map[string][]byte{}}
			bad := p.add(names)
			for _, err := range bad {
				fmt.Fprintf(onTerminal(os.Stderr), "btc: %s\n", diag.Printable(err.Error()))
			}
			if p.err == nil && len(p.tables) == 0 {
				p.err = errors.New("no program or library with a build id")
			}
			var b bytes.Buffer
			if p.err == nil {
				p.err = unwind.WritePack(&b, p.tables)
			}
			if p.err == nil {
				p.err = writeFiles(newFile{output, b.Bytes()})
			}
			if p.err != nil {
				return fail("%s", diag.Printable(p.err.Error()))
			}
			files := "files"
			if len(p.tables) == 1 {
				files = "file"
			}
			fmt.Printf("%s: tables of %d %s, %.1f MB\n", output, len(p.tables), files, float64(b.Len())/1e6)
			if len(bad) > 0 {
				return 2
			}
			return 0
		},
	}
}

// maxPack bounds the tables of a pack, in bytes: it is written from memory.
const maxPack = 2 << 30

// packing collects the tables of files.
type packing struct {
	mu     sync.Mutex
	tables map[string][]byte // by build id
	size   int
	err    error // the bound of a pack is reached
}

// errNoBuildID is the error of a file that a pack cannot have.
var errNoBuildID = errors.New("the file has no build id")

// add adds files and directories, on all CPUs. Its errors are about names that were given.
func (p *packing) add(names []string) (bad []error) {
	type job struct {
		path  string
		named bool
	}
	jobs := make(chan job)
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for j := range jobs {
				if err := p.file(j.path); err != nil && j.named {
					p.mu.Lock()
					bad = append(bad, fmt.Errorf("%s: %w", j.path, err))
					p.mu.Unlock()
				}
			}
		})
	}
	for _, name := range names {
		fi, err := os.Stat(name)
		switch {
		case err != nil:
			p.mu.Lock()
			bad = append(bad, err)
			p.mu.Unlock()
		case !fi.IsDir():
			jobs <- job{name, true}
		default:
			if dir, err := filepath.EvalSymlinks(name); err == nil { // such as /lib
				name = dir
			}
			filepath.WalkDir(name, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					jobs <- job{path, false}
				}
				return nil
			})
		}
	}
	close(jobs)
	wg.Wait()
	return bad
}

// file adds the table of a file.
func (p *packing) file(path string) error {
	in, err := safefile.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	f, err := elf.NewFile(in)
	if err != nil {
		return err
	}
	id := elffile.BuildID(f)
	if id == "" {
		return errNoBuildID
	}
	p.mu.Lock()
	_, known := p.tables[id]
	full := p.err != nil
	p.mu.Unlock()
	if known || full {
		return nil
	}
	t, err := ehframe.Build(f)
	if err != nil {
		return err
	}
	b, err := t.MarshalBinary()
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.tables[id]; known {
		return nil
	}
	if p.size += len(b); p.size > maxPack {
		p.err = fmt.Errorf("the tables are too large for one pack (max %d MiB): pack fewer directories", maxPack>>20)
		return nil
	}
	p.tables[id] = b
	return nil
}
