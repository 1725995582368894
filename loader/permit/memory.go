// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"btc/loader/object"
)

// hashElement is the overhead of an element of a hash besides its key and value, in bytes:
// struct htab_elem of kernel/bpf/hashtab.c. A bucket takes 16.
const (
	hashElement = 48
	hashBucket  = 16
)

// MapMemory returns the approximate kernel memory of a full map, in bytes. Hashes count with all their elements, which
// the kernel preallocates.
func MapMemory(s *ebpf.MapSpec, cpus int) uint64 {
	n, key, value := uint64(s.MaxEntries), round8(s.KeySize), round8(s.ValueSize)
	switch s.Type {
	case ebpf.Array:
		return n * value
	case ebpf.ArrayOfMaps:
		return n * 8
	case ebpf.PerCPUArray:
		return n * (8 + value*uint64(cpus))
	case ebpf.Hash, ebpf.LRUHash:
		return n*(hashElement+key+value) + buckets(n)*hashBucket
	case ebpf.PerCPUHash, ebpf.LRUCPUHash:
		return n*(hashElement+key+8+value*uint64(cpus)) + buckets(n)*hashBucket
	}
	return n // max_entries of a ring buffer is its size in bytes
}

func round8(n uint32) uint64 { return (uint64(n) + 7) &^ 7 }

func buckets(n uint64) uint64 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len64(n-1)
}

// A program takes memory for its BPF and its compiled instructions and a few pages, about these numbers of bytes.
const (
	programBytes     = 8 << 10
	instructionBytes = 24
)

// ProgramMemory returns the approximate kernel memory of n copies of a program, in bytes.
func ProgramMemory(s *ebpf.ProgramSpec, n int) uint64 {
	return uint64(n) * (programBytes + instructionBytes*uint64(len(s.Instructions)))
}

// CheckMemory returns an error if maps and programs together take more than limit bytes; 0 means
// no limit. programs is the memory of all copies of programs (ProgramMemory), in bytes. from says
// where the limit is set, if no option can raise it. left is what the rest of the run may take.
func CheckMemory(o *object.Object, cpus int, programs, limit uint64, from string) (left uint64, err error) {
	if limit == 0 {
		return math.MaxUint64, nil
	}
	change := "change it with --max-memory"
	if from != "" {
		change = "it is from " + from
	}
	total, largest, most := programs, "", uint64(0)
	for name, s := range o.Spec.Maps {
		n := min(MapMemory(s, cpus), 1<<50) // so that the sum over all maps does not overflow
		if total += n; n > most || n == most && name < largest {
			largest, most = name, n
		}
	}
	if total <= limit {
		return limit - total, nil
	}
	if programs > most {
		return 0, fmt.Errorf("the object would need %s on this machine with %d CPUs, %s of it for copies of its programs, but the limit is %s: %s",
			Size(total), cpus, Size(programs), Size(limit), change)
	}
	for i := range o.Manifest.Maps {
		if x := &o.Manifest.Maps[i]; x.Symbol == largest {
			largest = x.Name
		}
	}
	return 0, fmt.Errorf("the maps would need %s on this machine with %d CPUs, %s of it %s, but the limit is %s: %s",
		Size(total), cpus, Size(most), largest, Size(limit), change)
}

// Size formats a number of bytes with a unit, rounded.
func Size(n uint64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}

// ParseSize reads a number of bytes with an optional unit K, M, G or T of 1024.
func ParseSize(text string) (uint64, error) {
	digits := strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text), "B"), "I"), "KMGT")
	unit := strings.TrimPrefix(strings.ToUpper(text), digits)
	n, err := strconv.ParseUint(digits, 10, 64)
	shift, known := map[string]int{"": 0, "K": 10, "M": 20, "G": 30, "T": 40, "KIB": 10, "MIB": 20, "GIB": 30, "TIB": 40}[unit]
	if err != nil || !known || n == 0 || n > 1<<(63-shift) {
		return 0, fmt.Errorf("%q is not a size: expected a number of bytes such as 512M or 2G", text)
	}
	return n << shift, nil
}
