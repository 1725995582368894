// SPDX-License-Identifier: Apache-2.0

package cpp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/frontend/diag"
	"btc/internal/safefile"
)

// Limits on headers.
const (
	MaxFile    = 4 << 20  // bytes per header
	maxBytes   = 64 << 20 // bytes of all headers
	maxOpened  = 10_000   // files read
	maxInclude = 100      // depth of nested includes
)

// ReadFile reads a regular file of at most MaxFile bytes. It opens nothing else.
func ReadFile(path string) (string, error) {
	b, err := safefile.Read(path, MaxFile)
	switch {
	case errors.Is(err, safefile.ErrTooLarge):
		return "", fmt.Errorf("file too large (max %d bytes)", MaxFile)
	case errors.Is(err, safefile.ErrNotRegular):
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return "", errors.New("is a directory")
		}
		return "", errors.New("is not a regular file")
	}
	return string(b), err
}

// includeLine reads the name after #include.
func (r *reader) includeLine(rest, directive diag.Span) {
	name, form, ok := headerName(rest.Text())
	if !ok {
		name, form, ok = r.computed(rest)
	}
	if !ok {
		r.fail(directive, "#include needs <file> or \"file\"")
		return
	}
	r.include(name, form, directive)
}

// headerName reads <name> or "name"; form is '<' or '"'.
func headerName(s string) (name string, form byte, ok bool) {
	s = strings.TrimLeft(s, " \t")
	for strings.HasPrefix(s, "/*") {
		_, s, _ = strings.Cut(s[2:], "*/")
		s = strings.TrimLeft(s, " \t")
	}
	if len(s) < 3 {
		return "", 0, false
	}
	shut := map[byte]string{'<': ">", '"': `"`}[s[0]]
	if shut == "" {
		return "", 0, false
	}
	name, _, ok = strings.Cut(s[1:], shut)
	return name, s[0], ok && name != "" && !strings.ContainsAny(name, "\x00\n")
}

// computed reads a header name produced by macros.
func (r *reader) computed(rest diag.Span) (string, byte, bool) {
	all, err := Lex(rest)
	if err != nil {
		return "", 0, false
	}
	x := &expansion{macros: r.unit.macros, limit: maxWork, work: &r.unit.work, report: r.tooLarge}
	return headerName(spelled(x.expand(all)))
}

// spelled concatenates tokens without spaces, as a header name.
func spelled(all []Token) string {
	var b strings.Builder
	for _, t := range all {
		b.WriteString(t.Text)
	}
	return b.String()
}

// include reads a header; system headers are skipped, because the target has their types.
func (r *reader) include(name string, form byte, at diag.Span) {
	path, text, err := r.find(name, form)
	switch {
	case err != nil:
		r.l.Add(diag.BadInclude, at, "cannot read %s: %v", path, cause(err))
	case path != "":
		r.file(path, text, at)
	case IsSystem(name, form == '<'):
	default:
		d := r.l.Add(diag.BadInclude, at, "'%s' file not found", name)
		if form == '"' {
			d.Hint("headers are searched next to the file that includes them, and in the directories given with -I DIR")
		} else {
			d.Hint("headers are searched in the directories given with -I DIR; kernel types need no header")
		}
	}
}

// option reads a file of --include: relative to the current directory, or one that
// #include would find.
func (r *reader) option(name string) {
	path := name
	text, err := r.read(path)
	if errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(name) {
		var found string
		if found, text, err = r.find(name, '<'); found != "" {
			path = found
		}
		if found == "" && err == nil {
			if IsSystem(name, true) {
				return
			}
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		r.l.Add(diag.BadInclude, diag.Span{}, "--include %s: %v", name, cause(err))
		return
	}
	r.file(path, text, diag.Span{})
}

// file reads a header's text.
func (r *reader) file(path, text string, at diag.Span) {
	id := identity(path)
	switch {
	case r.once[id]:
		return
	case len(r.files) >= maxInclude:
		r.l.Add(diag.BadInclude, at, "%s: headers are nested too deeply (max %d)", path, maxInclude).
			Hint("start each header with #pragma once")
		return
	case r.opened >= maxOpened, r.bytes+len(text) > maxBytes:
		if r.opened <= maxOpened { // reported once
			r.l.Add(diag.BadInclude, at, "%s: too many headers, or headers too large", path)
		}
		r.opened = maxOpened + 1
		return
	}
	r.opened++
	r.bytes += len(text)
	src := diag.NewSource(path, text)
	src.Private = at.Valid() && !r.trusted(id)
	if at.Valid() {
		src.IncludedAt(at)
	}
	if i := strings.IndexByte(text, 0); i >= 0 {
		r.l.Add(diag.NotText, src.Span(i, i+1), "the header contains a NUL byte: it is not a text file")
		return
	}
	r.flush()
	r.files = append(r.files, file{path, id})
	r.source(src)
	r.files = r.files[:len(r.files)-1]
}

// trusted reports whether messages may show a file: one below a directory of -I, or below the directory of the
// script. id is the path with symbolic links resolved.
func (r *reader) trusted(id string) bool {
	below := func(dir string) bool {
		rel, err := filepath.Rel(identity(dir), id)
		return err == nil && filepath.IsLocal(rel)
	}
	return slices.ContainsFunc(r.opt.Dirs, below) || strings.HasSuffix(id, ".h") && below(r.dir)
}

// identity returns a string that is the same for all names of a file.
func identity(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (r *reader) read(path string) (string, error) {
	if r.opt.ReadFile == nil {
		return "", fs.ErrNotExist
	}
	return r.opt.ReadFile(path)
}

// file is a header that is being read.
type file struct{ path, id string }

// find searches for a header: next to the file that includes it if its name is in quotes, then in the directories of
// -I. The path is empty if it is not found.
func (r *reader) find(name string, form byte) (path, text string, err error) {
	var dirs []string
	if form == '"' {
		dirs = append(dirs, r.here())
	}
	dirs = append(dirs, r.opt.Dirs...)
	if form != '"' {
		dirs = append(dirs, r.dir)
	}
	if filepath.IsAbs(name) {
		dirs = []string{""}
	}
	for _, dir := range dirs {
		if IsSystem(name, true) && (dir == r.dir && form != '"' || r.systemDir(dir)) {
			continue
		}
		path = filepath.Join(dir, name)
		if filepath.IsAbs(name) {
			path = name
		}
		text, err = r.read(path)
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !isNotDir(err) {
			return path, text, err
		}
	}
	return "", "", nil
}

func isNotDir(err error) bool { return strings.Contains(err.Error(), "not a directory") }

// systemDir reports whether a directory is one of the kernel's or the C library's headers.
func (r *reader) systemDir(dir string) bool {
	if known, ok := r.system[dir]; ok {
		return known
	}
	found := r.looksSystem(dir)
	r.system[dir] = found
	return found
}

func (r *reader) looksSystem(dir string) bool {
	for _, known := range []string{"linux/types.h", "linux/kernel.h", "stdint.h"} {
		if _, err := r.read(filepath.Join(dir, known)); err == nil {
			return true
		}
	}
	return false
}

// here returns the directory of the file that is being read.
func (r *reader) here() string {
	if n := len(r.files); n > 0 {
		return filepath.Dir(r.files[n-1].path)
	}
	return r.dir
}

func (r *reader) hasInclude(inside []Token, at diag.Span) bool {
	if len(inside) == 0 {
		return false
	}
	name, form, ok := headerName(spelled(inside))
	if !ok {
		x := &expansion{macros: r.unit.macros, limit: maxWork, work: &r.unit.work, report: r.tooLarge}
		if name, form, ok = headerName(spelled(x.expand(inside))); !ok {
			return false
		}
	}
	path, _, err := r.find(name, form)
	return err == nil && (path != "" || IsSystem(name, form == '<'))
}

// cause strips the path, which the message already has, from an error.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("no such file")
	}
	return err
}

// IsSystem reports whether a header name is one of the kernel, the C library or libbpf; angle means the form <name>.
func IsSystem(name string, angle bool) bool {
	name = strings.TrimPrefix(name, "./")
	for strings.HasPrefix(name, "../") { // "../fs/mount.h": from within a kernel tree
		name = name[3:]
		angle = true
	}
	dir, _, deep := strings.Cut(name, "/")
	if deep {
		return slices.Contains(systemDirs, dir) || angle && slices.Contains(kernelDirs, dir)
	}
	return angle && slices.Contains(systemHeaders, strings.TrimSuffix(name, ".h")) || name == "vmlinux.h"
}

// systemDirs are the directories of a system's user-space headers and of the kernel's own headers.
var systemDirs = strings.Fields(
	"linux net uapi asm asm-generic sys netinet arpa bits trace scsi rdma drm sound video xen misc mtd kvm " +
		"crypto acpi media netpacket netax25 netrom netipx netiucv neteconet netash nfs protocols rpc rpcsvc gnu net-snmp bpf soc target ras pcmcia keys math-emu generated vdso cxl ufs",
)

// kernelDirs are further directories of the kernel source tree.
var kernelDirs = strings.Fields("arch block certs drivers fs include init io_uring ipc kernel lib mm samples security tools usr virt")

// systemHeaders are the headers of the C library, without their ".h".
var systemHeaders = strings.Fields(
	"aio aliases alloca ar argp argz assert byteswap complex cpio crypt ctype dirent dlfcn elf endian envz err errno error " +
		"execinfo fcntl features fenv float fmtmsg fnmatch fstab fts ftw gconv getopt glob grp gshadow iconv ifaddrs inttypes iso646 " +
		"langinfo libgen libintl limits link locale malloc math mcheck memory mntent monetary mqueue netdb nl_types nss obstack " +
		"paths poll printf pthread pty pwd re_comp regex regexp resolv sched search semaphore setjmp sgtty shadow signal spawn stab " +
		"stdalign stdarg stdatomic stdbool stddef stdint stdio stdio_ext stdlib stdnoreturn string strings stropts syscall sysexits syslog tar termio " +
		"termios tgmath threads time ttyent uchar ucontext ulimit unistd utime utmp utmpx values wait wchar wctype wordexp vmlinux __stddef_max_align_t",
)
