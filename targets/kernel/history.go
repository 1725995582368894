// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"strings"
)

// Records of tracepoints change between kernels in two ways that a field's name does not
// show: an event moves to another class, and so to another struct, or a character array
// becomes data after the record. Existence tests at load time distinguish both, so an
// object contains code for each form.

// otherClass says that events, whose class in the target is another, have a record of class
// Other on some kernels. The fields have the same names.
type otherClass struct {
	Other   string
	Events  []string // category:event; the first one provides the struct's fields
	Kernels string
}

var otherClasses = []otherClass{
	{"block_rq_complete", []string{"block:block_rq_complete"}, "before 5.16"},
	{"block_bio_merge", []string{"block:block_bio_backmerge", "block:block_bio_frontmerge"}, "before 5.12"},
	{"block_bio_queue", []string{"block:block_bio_queue"}, "before 5.12"},
	{"block_get_rq", []string{"block:block_getrq"}, "before 5.12"},
	{"kmem_alloc", []string{"kmem:kmem_cache_alloc", "kmem:kmalloc"}, "before 6.1"},
	{"kmem_free", []string{"kmem:kmem_cache_free", "kmem:kfree"}, "before 5.12"},
	{"exceptions", []string{"exceptions:page_fault_user", "exceptions:page_fault_kernel"}, "since 6.16"},
	{"tcp_retransmit_skb", []string{"tcp:tcp_retransmit_skb"}, "since 6.18"},
	{"sched_process_exit", []string{"sched:sched_process_exit"}, "since 6.17"},
}

// In category sched the names of threads, character arrays in the record, became data after
// it in 6.17. The events of the hot paths kept them.
var keptNames = []string{"sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new"}

func (f *TraceField) nameMoved() bool {
	return f.event.Category == "sched" && strings.HasPrefix(f.CType, "char[") &&
		!slices.Contains(keptNames, f.event.Event)
}

const (
	classPrefix   = "trace_event_raw_"
	dataLocPrefix = "__data_loc_"
)

// OtherField is a form that a tracepoint's field has on some kernels.
type OtherField struct {
	Class   string // struct of the record, as TraceEvent.Class
	Member  string
	DataLoc bool // as TraceField.DataLoc
}

// Others lists the field's forms on kernels other than the target's.
func (f *TraceField) Others() []OtherField {
	if f.event == nil || f.Member == "" || f.DataLoc || f.RelLoc || f.event.Category == syscalls {
		return nil
	}
	var all []OtherField
	for _, c := range otherClasses {
		if slices.Contains(c.Events, f.event.Category+":"+f.event.Event) {
			all = append(all, OtherField{Class: classPrefix + c.Other, Member: f.Member})
		}
	}
	if f.nameMoved() {
		all = append(all, OtherField{Class: f.event.Class, Member: dataLocPrefix + f.Name, DataLoc: true})
	}
	return all
}

// otherStruct makes the struct of a class that the target's kernel does not have, from the
// members that it has under another class.
func (t *Target) otherStruct(name string) (*Type, bool) {
	class, ok := strings.CutPrefix(name, classPrefix)
	if !ok {
		return nil, false
	}
	for _, c := range otherClasses {
		if c.Other != class {
			continue
		}
		category, event, _ := strings.Cut(c.Events[0], ":")
		ev, ok := t.Tracepoint(category, event)
		if !ok || ev.Class == "" || ev.Class == name {
			return nil, false
		}
		own, ok := t.Struct(ev.Class)
		if !ok {
			return nil, false
		}
		other := *own
		other.Name = name
		return &other, true
	}
	return nil, false
}

// A Spelling is one value that kernels keep in different members: the paths of members that
// lead to it from the struct Tag, "->" where a pointer is followed, the oldest first.
type Spelling struct {
	Tag   string
	Paths []string
	// Flags are bits of the member that some kernels use for something else. They are not part of the
	// value under any path but Raw, which is the member's own name there.
	Flags uint64
	Raw   string
	// Tagged are the members that hold the value instead if an enumerator is in another member, the
	// first that exists. They are not tested for Raw.
	Tagged []TaggedMember
}

// A TaggedMember is a member of the struct of a Spelling that has the value while the member Tag
// holds Value of Enum.
type TaggedMember struct {
	Path             string
	Tag, Enum, Value string
	Address          bool   // the value is the address of the member
	None             string // if it is not "": there is no such value, and why
}

// Spellings lists the members whose path differs between kernels.
func Spellings() []Spelling { return slices.Clone(spellings[:]) }

// ubuf is an iov_iter of a single buffer, which has no vector: struct iov_iter of Linux 6.0.
func ubuf(path string) TaggedMember {
	return TaggedMember{Path: path, Tag: "iter_type", Enum: "enum iter_type", Value: "ITER_UBUF"}
}

// vector are the members that hold the vector of an iov_iter of a single buffer.
var vector = []TaggedMember{
	{Path: "__ubuf_iovec", Tag: "iter_type", Enum: "enum iter_type", Value: "ITER_UBUF", Address: true},
	{Path: "ubuf", Tag: "iter_type", Enum: "enum iter_type", Value: "ITER_UBUF", None: NoVector},
}

// NoVector is the message for reading the vector of an iov_iter that has none.
const NoVector = "this iov_iter has a single buffer and, before Linux 6.4, no iovec: the pointer is 0; iov->iov_base and iov->iov_len are read in one expression, or ubuf and count"

// Sources: the kernel commits that made the change; the versions are the first to have it. "same" says
// that the unit, the encoding and the member of a union that is valid are those of the older name; the
// width and the sign are relocated. Each row was compared in the BTF of 5.10, 6.1, 6.12 and 7.2.
var spellings = [...]Spelling{
	{Tag: "task_struct", Paths: []string{"state", "__state"}},                  // 5.14: long to unsigned int, the same bits
	{Tag: "task_struct", Paths: []string{"real_start_time", "start_boottime"}}, // 5.5: same, nanoseconds since boot
	{Tag: "task_struct", Paths: []string{"cpu", "thread_info.cpu"}},            // 5.16: same
	{Tag: "task_struct", Paths: []string{"se.statistics", "stats"}},            // 5.16: same, nanoseconds; also of real-time and deadline threads
	{Tag: "mm_struct", Paths: []string{"mmap_sem", "mmap_lock"}},               // 5.8: same, a struct rw_semaphore
	{Tag: "cfs_rq", Paths: []string{"nr_running", "nr_queued"}},                // 6.14: same; both include delayed ones since 6.12
	{Tag: "cfs_rq", Paths: []string{"h_nr_running", "h_nr_queued"}},            // 6.14: same; as above (h_nr_runnable leaves the delayed ones out)
	{Tag: "bio", Paths: []string{"bi_disk", "bi_bdev->bd_disk"}},               // 5.12: same
	{Tag: "request", Paths: []string{"rq_disk", "q->disk"}},                    // 5.17: same; of passthrough requests 0 before
	{Tag: "request_queue", Paths: []string{"backing_dev_info", "disk->bdi"}},   // 5.16: same
	{Tag: "block_device", Paths: []string{"bd_inode", "bd_mapping->host"}},     // 6.10: same, the inode in bdevfs

	// Seconds: same. Nanoseconds: long to u32 in 6.11. In 6.13 (multigrain timestamps) bit 31 of the
	// nanoseconds of ctime became I_CTIME_QUERIED; inode_get_ctime_nsec() leaves it out. No other time has
	// a flag: include/linux/fs.h, fs/inode.c.
	{Tag: "inode", Paths: []string{"i_atime.tv_sec", "__i_atime.tv_sec", "i_atime_sec"}},                                         // 6.7, 6.11
	{Tag: "inode", Paths: []string{"i_mtime.tv_sec", "__i_mtime.tv_sec", "i_mtime_sec"}},                                         // 6.7, 6.11
	{Tag: "inode", Paths: []string{"i_ctime.tv_sec", "__i_ctime.tv_sec", "i_ctime_sec"}},                                         // 6.6, 6.11
	{Tag: "inode", Paths: []string{"i_atime.tv_nsec", "__i_atime.tv_nsec", "i_atime_nsec"}},                                      // 6.7, 6.11
	{Tag: "inode", Paths: []string{"i_mtime.tv_nsec", "__i_mtime.tv_nsec", "i_mtime_nsec"}},                                      // 6.7, 6.11
	{Tag: "inode", Paths: []string{"i_ctime.tv_nsec", "__i_ctime.tv_nsec", "i_ctime_nsec"}, Flags: 1 << 31, Raw: "i_ctime_nsec"}, // 6.6, 6.11

	{Tag: "dentry", Paths: []string{"d_iname", "d_shortname.string"}}, // 6.13: same, ends with a NUL; 32 bytes to 40 in 6.12; only short names are there
	{Tag: "kernfs_node", Paths: []string{"parent", "__parent"}},       // 6.15: same

	// A union by iter_type, on all kernels. ITER_UBUF (6.0) is a single buffer that a script cannot tell
	// from a vector of one: the word of iov is its address, which is not an iovec. __ubuf_iovec (6.4) is an
	// iovec of the two words ubuf and count; before 6.4 there is none. Other types (kvec, bvec, xarray)
	// have other members, which the script names. __iov is read as it is.
	{Tag: "iov_iter", Paths: []string{"iov", "__iov"}, Raw: "__iov", Tagged: vector}, // 6.4
	{Tag: "iov_iter", Paths: []string{"iov->iov_base", "__iov->iov_base"}, Raw: "__iov->iov_base", Tagged: []TaggedMember{ubuf("ubuf")}},
	{Tag: "iov_iter", Paths: []string{"iov->iov_len", "__iov->iov_len"}, Raw: "__iov->iov_len", Tagged: []TaggedMember{ubuf("count")}},

	// 6.16: same, in pages; of pages of hugetlbfs in huge pages before 6.7. A union by the kind of page,
	// and valid in the first page of a folio only, on all kernels.
	{Tag: "page", Paths: []string{"index", "__folio_index"}},
}

// intermediate are the types of the intermediate members of a path: a target without them cannot
// resolve it.
var intermediate = map[string]string{
	"bio.bi_bdev":             "struct block_device *",
	"request_queue.disk":      "struct gendisk *",
	"thread_info.cpu":         "unsigned int",
	"gendisk.bdi":             "struct backing_dev_info *",
	"block_device.bd_mapping": "struct address_space *",
	"sched_entity.statistics": "struct sched_statistics",
	"inode.i_atime":           "struct timespec64",
	"inode.i_mtime":           "struct timespec64",
	"inode.i_ctime":           "struct timespec64",
	"inode.__i_atime":         "struct timespec64",
	"inode.__i_mtime":         "struct timespec64",
	"inode.__i_ctime":         "struct timespec64",
}

// optional are the types of members that exist only in kernels built with an option that
// the embedded targets' kernels do not have. The host decides.
var optional = map[string]string{
	"task_struct.scx": "struct sched_ext_entity", // CONFIG_SCHED_CLASS_EXT, since 6.12
	"rq.scx":          "struct scx_rq",
}

// OtherPaths returns the other paths, on some kernels or on all, of the value at a path of
// members of a kernel struct; nil for members that never change.
func OtherPaths(tag, path string) []string {
	for _, s := range spellings {
		if s.Tag == tag && slices.Contains(s.Paths, path) {
			return slices.DeleteFunc(slices.Clone(s.Paths), func(p string) bool { return p == path })
		}
	}
	return nil
}

// Encoding returns the flag bits that are not part of the value at a path of members, and the members
// that hold the value by a tag.
func Encoding(tag, path string) (flags uint64, tagged []TaggedMember) {
	for i := range spellings {
		if s := &spellings[i]; s.Tag == tag && s.Raw != path && slices.Contains(s.Paths, path) {
			return s.Flags, s.Tagged
		}
	}
	return 0, nil
}

// IsPathPrefix reports whether a path of members is a prefix, up to a "." or "->", of a path that
// OtherPaths knows.
func IsPathPrefix(tag, path string) bool {
	for _, s := range spellings {
		for _, p := range s.Paths {
			if rest, ok := strings.CutPrefix(p, path); ok && s.Tag == tag &&
				(strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "->")) {
				return true
			}
		}
	}
	return false
}

// Successors returns the paths, among those that this kernel has, of the values whose path
// began with the member of a struct.
func (typ *Type) Successors(member string) []string {
	var all []string
	for _, s := range spellings {
		for _, p := range s.Paths {
			if s.Tag != typ.Name ||
				p != member && !strings.HasPrefix(p, member+".") && !strings.HasPrefix(p, member+"->") {
				continue
			}
			for _, other := range s.Paths {
				if _, ok := typ.follow(other); ok && other != p && !slices.Contains(all, other) {
					all = append(all, other)
				}
			}
		}
	}
	return all
}

// Has reports whether this kernel's struct has a member of that name, or would have it if
// built with an option. Field also finds members that only other kernels have.
func (typ *Type) Has(name string) bool {
	_, ok := typ.own(name)
	return ok || optional[typ.Name+"."+name] != ""
}

func (typ *Type) own(name string) (f Field, ok bool) {
	if name == "" {
		return Field{}, false
	}
	missed := typ.Resolve().members(func(m Member, bit int, path []int) bool {
		if m.Name == name {
			f = locate(m, bit, slices.Clone(path))
		}
		return m.Name != name
	})
	return f, !missed
}

// follow resolves a path of members on this kernel. The offset is that in the struct, of
// the first pointer where one is followed.
func (typ *Type) follow(path string) (Field, bool) {
	first, rest, far := strings.Cut(path, "->")
	var at Field
	for i, name := range strings.Split(first, ".") {
		f, ok := typ.Resolve().own(name)
		if !ok {
			return Field{}, false
		}
		if i > 0 {
			f.Offset += at.Offset
		}
		at, typ = f, f.Type
	}
	if far {
		if typ.Resolve().Kind != Pointer {
			return Field{}, false
		}
		to := typ.Resolve().Elem().Resolve()
		if def, ok := typ.t.Struct(to.Name); ok && to.Kind == Forward {
			to = def
		}
		f, ok := to.follow(rest)
		at.Type = f.Type
		return at, ok
	}
	return at, true
}

// spelledMember makes a member that other kernels have from the one that this kernel has
// under another path: with its type, at an offset within the struct.
func (typ *Type) spelledMember(name string) (Field, bool) {
	if typ.Kind != Struct || typ.t == nil {
		return Field{}, false
	}
	for _, other := range OtherPaths(typ.Name, name) {
		if f, ok := typ.follow(other); ok {
			return Field{Name: name, Type: f.Type, Offset: f.Offset}, true
		}
	}
	text := intermediate[typ.Name+"."+name]
	if text == "" {
		text = optional[typ.Name+"."+name]
	}
	if text != "" {
		t, ok := typ.t.ParseType(text)
		return Field{Name: name, Type: t}, ok
	}
	return typ.wrapped(name)
}

// wrapped makes a member that on other kernels is a union around a member of this one.
func (typ *Type) wrapped(name string) (f Field, ok bool) {
	for _, s := range spellings {
		for _, p := range s.Paths {
			inner, fits := strings.CutPrefix(p, name+".")
			if !fits || s.Tag != typ.Name {
				continue
			}
			typ.members(func(m Member, bit int, path []int) bool {
				if slices.Contains(s.Paths, m.Name) {
					around := &Type{
						Kind:    Union,
						Size:    m.Type().Size,
						t:       typ.t,
						Members: []Member{{Name: inner, t: typ.t, ref: m.ref}},
					}
					f, ok = locate(m, bit, slices.Clone(path)), true
					f.Name, f.Type = name, around
				}
				return !ok
			})
		}
	}
	return f, ok
}

// otherMember makes a member that only other kernels have: under another path, or the
// member with the offset of a name that has moved after the record.
func (typ *Type) otherMember(name string) (Field, bool) {
	if f, ok := typ.spelledMember(name); ok {
		return f, true
	}
	if f, ok := typ.memberOnOthers(name); ok {
		return f, true
	}
	if f, ok := typ.recordMember(name); ok {
		return f, true
	}
	if typ.t == nil || !strings.HasPrefix(typ.Name, classPrefix) || !strings.HasPrefix(name, dataLocPrefix) {
		return Field{}, false
	}
	u32, ok := typ.t.Base("unsigned int")
	return Field{Name: name, Type: u32}, ok
}
