// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sort"
	"strings"
	"unsafe"
)

// Kallsyms is the table of the running kernel's functions, modules' and BPF programs' included, ordered by address.
// It takes about 40 bytes per function (4 to 5 MB).
type Kallsyms struct {
	addrs []uint64
	names []uint32 // start of the name in text
	text  []byte   // "name\n" or "name\tmodule\n"
}

// Symbol is one kernel function.
type Symbol struct {
	Name   string
	Module string // "" for the kernel itself
	Addr   uint64
}

// ErrHiddenSymbols means that the kernel shows all addresses as zero.
var ErrHiddenSymbols = errors.New("/proc/kallsyms hides addresses (it needs root or CAP_SYSLOG, and kernel.kptr_restrict below 2)")

// LoadKallsyms reads /proc/kallsyms. It takes about 100 ms, nearly all of it in the kernel: call it only when the
// first symbol is needed, and cache the result.
func LoadKallsyms() (*Kallsyms, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	k, err := ReadKallsyms(f)
	if err == nil && (len(k.addrs) == 0 || k.addrs[len(k.addrs)-1] == 0) {
		return nil, ErrHiddenSymbols
	}
	return k, err
}

// ReadKallsyms reads a table in the form of /proc/kallsyms. Only functions are
// kept (types t, T, w and W); malformed lines are skipped.
func ReadKallsyms(r io.Reader) (*Kallsyms, error) {
	// Capacity for a distribution's kernel, to avoid copying. Unwritten pages cost no memory.
	const functions, letters = 128 << 10, 24
	k := &Kallsyms{
		addrs: make([]uint64, 0, functions),
		names: make([]uint32, 0, functions),
		text:  make([]byte, 0, functions*letters),
	}
	err := eachLine(r, func(addr uint64, name []byte) {
		k.addrs = append(k.addrs, addr)
		k.names = append(k.names, uint32(len(k.text)))
		if tab := bytes.IndexByte(name, '\t'); tab >= 0 {
			k.text = append(k.text, name[:tab+1]...)
			name = bytes.Trim(name[tab+1:], "[]")
		}
		k.text = append(append(k.text, name...), '\n')
	})
	if err != nil {
		return nil, err
	}
	if !sort.IsSorted(k) {
		sort.Sort(k)
	}
	return k, nil
}

// eachLine calls fn for every function in text like /proc/kallsyms, in the
// text's order. name is "name" or "name\t[module]", valid only during the call.
func eachLine(r io.Reader, fn func(addr uint64, name []byte)) error {
	buf := make([]byte, 64<<10)
	held := 0 // bytes of an unfinished line at the start of buf
	for {
		n, err := r.Read(buf[held:])
		held += n
		end := bytes.LastIndexByte(buf[:held], '\n') + 1
		lines(buf[:end], fn)
		held = copy(buf, buf[end:held])
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if held == len(buf) {
			held = 0 // no kernel writes a line of 64 KiB
		}
	}
	lines(append(buf[:held:held], '\n'), fn)
	return nil
}

// lines parses whole lines: "ffffffff81000000 T name\t[module]\n".
func lines(b []byte, fn func(addr uint64, name []byte)) {
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		line := b[:end]
		b = b[end+1:]
		var addr uint64
		i := 0
		for ; i < len(line) && line[i] != ' '; i++ {
			addr = addr<<4 | uint64(hexValue[line[i]])
		}
		if i+3 >= len(line) || i > 16 || line[i+2] != ' ' {
			continue
		}
		switch line[i+1] {
		case 't', 'T', 'w', 'W':
		default:
			continue
		}
		fn(addr, line[i+3:])
	}
}

// hexValue maps hex digits to values; invalid digits count as 0.
var hexValue = func() (t [256]uint8) {
	for i, c := range []byte("0123456789abcdef") {
		t[c] = uint8(i)
	}
	return t
}()

// Len, Less and Swap order by address, then as the kernel lists them, for package sort.
func (k *Kallsyms) Len() int { return len(k.addrs) }
func (k *Kallsyms) Less(i, j int) bool {
	return k.addrs[i] < k.addrs[j] || k.addrs[i] == k.addrs[j] && k.names[i] < k.names[j]
}
func (k *Kallsyms) Swap(i, j int) {
	k.addrs[i], k.addrs[j] = k.addrs[j], k.addrs[i]
	k.names[i], k.names[j] = k.names[j], k.names[i]
}

// Lookup finds the function that an address is in: the last one that begins
// at or below it; of several at one address, the one that the kernel lists first.
// ok is false below the first function.
func (k *Kallsyms) Lookup(addr uint64) (sym Symbol, offset uint64, ok bool) {
	i := sort.Search(len(k.addrs), func(i int) bool { return k.addrs[i] > addr }) - 1
	if i < 0 {
		return Symbol{}, 0, false
	}
	for i > 0 && k.addrs[i-1] == k.addrs[i] {
		i--
	}
	return k.symbol(i), addr - k.addrs[i], true
}

// Find returns every function of a name, in order of address.
func (k *Kallsyms) Find(name string) []Symbol {
	var all []Symbol
	for i := range k.addrs {
		if at := k.text[k.names[i]:]; len(at) > len(name) && string(at[:len(name)]) == name && at[len(name)] <= '\n' {
			all = append(all, k.symbol(i))
		}
	}
	return all
}

// Each calls fn for every function in order of address until it returns false.
// The strings of the symbol share memory with the table.
func (k *Kallsyms) Each(fn func(Symbol) bool) {
	for i := range k.addrs {
		if !fn(k.symbol(i)) {
			return
		}
	}
}

func (k *Kallsyms) symbol(i int) Symbol {
	at := k.text[k.names[i]:]
	at = at[:bytes.IndexByte(at, '\n')]
	// text is never written again, so its bytes may be shared as a string.
	name, module, _ := strings.Cut(unsafe.String(unsafe.SliceData(at), len(at)), "\t")
	return Symbol{name, module, k.addrs[i]}
}
