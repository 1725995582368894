// SPDX-License-Identifier: Apache-2.0

// Package targetfile reads and writes target files: the description of one kernel for the
// compiler, in one file.
//
// It encodes a Data (made by targets/capture). Lookups by name decode only the parts of a file that they need.
//
// # Layout
//
//	header     magic "btctrgt" and a version byte, u32 length of the
//	           directory, u32 CRC-32C of the directory
//	directory  the codec, the Meta strings, then for each table its number of
//	           entries and the offsets of its index and of its dictionary
//	chunks     compressed by the codec: zstd frames, which contain a checksum,
//	           or a u32 CRC-32C of the content and a DEFLATE stream
//
// Integers in the header are little endian; everywhere else they are varints
// (encoding/binary). A table is a sorted list of entries, split into blocks of
// some kilobytes; its index, also a chunk, contains the first key and the offset of each
// block. The dictionary, also a chunk, is the preset dictionary with which the blocks were
// compressed (DEFLATE only): with it, small blocks compress nearly as well as one large
// block. Two kinds exist: named tables (the key is a string, prefix-compressed against the
// entry before it) and the table of types (the key is the position).
//
// # Hostile input
//
// A file may come from anywhere. Every length is checked against the data before anything is allocated, and the
// unpacked size of a chunk is known, and at most maxChunk bytes, before it is unpacked. Open and the lookups return
// errors for damaged files and never panic.
package targetfile

import (
	"fmt"
	"strings"
)

// Version is the format's version. Readers refuse others, because a target file is cheap to recreate.
const Version = 2

const (
	magic      = "btctrgt"
	headerSize = len(magic) + 1 + 4 + 4
	maxChunk   = 1 << 20  // largest unpacked chunk in bytes
	blockSize  = 16 << 10 // unpacked bytes after which a block is closed
	// zstdBlockSize is the block size with zstd, which needs no dictionary.
	zstdBlockSize = 6 << 10
	maxDict       = 32 << 10 // largest dictionary in bytes: DEFLATE looks no further back
)

// Compression of chunks. DEFLATE is linked into the loader anyway; zstd decompresses four times as fast.
const (
	codecDeflate = iota
	codecZstd
	codecZstdOver // zstd, and the file is a delta to another (over.go)
)

// The tables of a file.
const (
	tableTypes    = iota // by position: type records
	tableNames           // kind letter and name -> type references
	tableConsts          // enumerator name -> reference of its enum
	tableFuncs           // function name -> function record
	tableEvents          // "category:event" -> tracepoint record
	tableSyscalls        // syscall name -> syscall record
	numTables
)

// Meta is where a target comes from.
type Meta struct {
	Arch    string // as uname -m: x86_64, aarch64
	Release string // as uname -r
	Gaps    []string
}

// Ref names a type: 0 is void, otherwise the record's position plus one, shifted left by two, with the number of
// pointers to it in the low two bits (three or more pointers continue in a Pointer record).
type Ref uint32

// MakeRef makes a reference to the record at a position.
func MakeRef(position, pointers int) Ref { return Ref(position+1)<<2 | Ref(pointers) }

// Pointers returns the number of pointers to the record, 0 to 3.
func (r Ref) Pointers() int { return int(r & 3) }

// Base returns the reference without pointers.
func (r Ref) Base() Ref { return r &^ 3 }

// Position returns the record's position in the table of types, -1 for void.
func (r Ref) Position() int { return int(r>>2) - 1 }

// Kind is the kind of a type record. The numbers are part of the format.
type Kind uint8

const (
	Int Kind = iota + 1
	Float
	Pointer // only if a Ref cannot express it: user pointers, more than three levels
	Array
	Struct
	Union
	Enum
	Typedef
	Proto
	Forward
)

// Letter returns the key prefix of a kind's names in the table of names. A forward declaration has none, because it is
// never looked up.
func (k Kind) Letter() byte {
	switch k {
	case Struct:
		return 's'
	case Union:
		return 'u'
	case Enum:
		return 'e'
	case Typedef:
		return 't'
	case Int, Float:
		return 'i'
	}
	return 0
}

// Type is one type record.
type Type struct {
	Kind        Kind
	Name        string
	Size        int // bytes; for Typedef and Array the resolved size
	Flags       TypeFlags
	Len         int // Array
	Elem        Ref // Pointer, Array, Typedef, Proto (result)
	Members     []Member
	Enumerators []Enumerator
	Params      []Param // Proto
}

// TypeFlags are properties of a type record.
type TypeFlags uint8

const (
	Signed   TypeFlags = 1 << iota // Int, Enum
	Bool                           // Int
	User                           // Pointer
	Variadic                       // Proto
	InModule                       // a module's type: hosts have it while the module is loaded
)

// Member is one member of a struct or union.
type Member struct {
	Name      string
	BitOffset int
	BitSize   int // 0 if not a bitfield
	Type      Ref
}

// Enumerator is one constant.
type Enumerator struct {
	Name  string
	Value int64
}

// Param is one parameter of a prototype.
type Param struct {
	Name string
	Type Ref
}

// Func is one function.
type Func struct {
	Name      string
	Module    string
	Traceable bool
	Kfunc     bool
	Proto     *Type // nil without BTF
}

// Event is one tracepoint; category syscalls is not stored (see Syscall).
type Event struct {
	Category, Name string
	Class          string // BTF struct of the record, "" if none
	Fields         []Field
}

// Field is one field of a tracepoint, without the common ones.
type Field struct {
	Name         string
	CType        string
	Offset, Size int
	Signed       bool
}

// Syscall is one system call; the records of its two tracepoints are derived from it.
type Syscall struct {
	Name string
	Nr   int // -1 if not known
	Args []Arg
	// Exit reports whether sys_exit_<name> exists (it does not for calls that never return).
	Exit bool
}

// Arg is one argument of a system call.
type Arg struct{ Name, CType string }

// Data is the whole content of a target file.
type Data struct {
	Meta     Meta
	Types    []Type // Ref positions point here
	Funcs    []Func
	Events   []Event
	Syscalls []Syscall
}

// damage returns the error for a file that violates the format.
func damage(format string, args ...any) error {
	return fmt.Errorf("damaged target file: "+format, args...)
}

// MemberName returns the name, in a tracepoint's class struct, of the field that has name and
// type ctype in the format file.
func MemberName(name, ctype string) string {
	for _, loc := range []string{"__data_loc", "__rel_loc"} {
		if strings.HasPrefix(ctype, loc+" ") {
			return loc + "_" + name
		}
	}
	return name
}
