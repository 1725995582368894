// SPDX-License-Identifier: Apache-2.0

// Command agent loads an object with cilium/ebpf only, as a program does that knows nothing about btc.
// It attaches programs by their section names, runs a workload (the other arguments), and prints the
// contents of maps and ring buffers as lines that the tests in tests/loaders parse:
//
//	map NAME KEY VALUE...   in hexadecimal; one value per CPU
//	event NAME RECORD
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

func main() {
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(object string, workload []string) error {
	spec, err := ebpf.LoadCollectionSpec(object)
	if err != nil {
		return err
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		var refused *ebpf.VerifierError
		if errors.As(err, &refused) {
			return fmt.Errorf("%+v", refused)
		}
		return err
	}
	var links []link.Link // keeps the links reachable, so that they stay open
	defer func() { runtime.KeepAlive(links) }()
	for name, p := range spec.Programs {
		l, err := attach(p.SectionName, coll.Programs[name])
		if err != nil {
			return fmt.Errorf("%s: %w", p.SectionName, err)
		}
		links = append(links, l)
	}
	reading := make(chan error)
	rings := 0
	for name, m := range coll.Maps {
		if m.Type() == ebpf.RingBuf {
			rings++
			go func() { reading <- events(name, m) }()
		}
	}
	if out, err := exec.Command(workload[0], workload[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	for range rings {
		if err := <-reading; err != nil {
			return err
		}
	}
	for name, m := range coll.Maps {
		if m.Type() == ebpf.RingBuf {
			continue
		}
		if err := dump(name, m); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func attach(section string, p *ebpf.Program) (l link.Link, err error) {
	kind, where, _ := strings.Cut(section, "/")
	if where == "" {
		return nil, nil
	}
	switch first, second, _ := strings.Cut(where, "/"); kind {
	case "tracepoint":
		l, err = link.Tracepoint(first, second, p, nil)
	case "kprobe":
		l, err = link.Kprobe(where, p, nil)
	case "uprobe":
		path, symbol, _ := strings.Cut(where, ":")
		var x *link.Executable
		if x, err = link.OpenExecutable(path); err == nil {
			l, err = x.Uprobe(symbol, p, nil)
		}
	}
	return l, err
}

// events prints records until there are none for two seconds. Like all readers, it waits for the
// notification of the ring buffer.
func events(name string, m *ebpf.Map) error {
	r, err := ringbuf.NewReader(m)
	if err != nil {
		return err
	}
	for {
		until := time.Now().Add(2 * time.Second)
		r.SetDeadline(until)
		rec, err := r.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return err
		}
		if time.Now().After(until) {
			return errors.New("records available, but no program woke the reader")
		}
		fmt.Printf("event %s %x\n", name, rec.RawSample)
	}
}

func dump(name string, m *ebpf.Map) error {
	key, all := make([]byte, m.KeySize()), m.Iterate()
	perCPU := m.Type() == ebpf.PerCPUHash || m.Type() == ebpf.PerCPUArray || m.Type() == ebpf.LRUCPUHash
	var one []byte
	var each [][]byte
	for {
		values := &each
		if perCPU {
			if !all.Next(&key, &each) {
				break
			}
		} else {
			if !all.Next(&key, &one) {
				break
			}
			values = &[][]byte{one}
		}
		fmt.Printf("map %s %x", name, key)
		for _, v := range *values {
			fmt.Printf(" %x", v)
		}
		fmt.Println()
	}
	return all.Err()
}
