// SPDX-License-Identifier: Apache-2.0

package hardship

import (
	"archive/zip"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Bars of a command that reads a hostile file: its CPU time and its memory.
const (
	maxCPU    = 20 * time.Second
	maxMemory = 1 << 20 // kB; the Go runtime frees memory late
)

// cheap fails if a command that has ended used too much.
func (r *run) cheap() {
	r.t.Helper()
	usage := r.cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if cpu := r.cmd.ProcessState.UserTime() + r.cmd.ProcessState.SystemTime(); cpu > maxCPU || usage.Maxrss > maxMemory {
		r.t.Errorf("%v took %v of CPU time and %d kB", r.cmd.Args, cpu, usage.Maxrss)
	}
}

// apk returns an archive whose member is stored and starts at a page, as linkers need it.
func apk(t *testing.T, member string, content []byte, comment string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	pad := make([]byte, 4096-30-len(member))
	binary.LittleEndian.PutUint16(pad, 0xd935) // the extra field of zipalign
	binary.LittleEndian.PutUint16(pad[2:], uint16(len(pad)-4))
	f, err := w.CreateRaw(&zip.FileHeader{Name: member, Method: zip.Store, Extra: pad, CompressedSize64: uint64(len(content)), UncompressedSize64: uint64(len(content))})
	if err != nil {
		t.Fatal(err)
	}
	f.Write(content)
	w.SetComment(comment)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestHostileArchives checks probes of a library in a zip file: the honest one is attached, each hostile
// one is refused with one message, at little cost.
func TestHostileArchives(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	lib := filepath.Join(dir, "x.so")
	tinyProgram(t, lib, "alpha_fn", append(system(39, 0), system(60, 0)...))
	content, err := os.ReadFile(lib)
	if err != nil {
		t.Fatal(err)
	}
	good := apk(t, "lib/x.so", content, "")
	le := binary.LittleEndian
	end := bytes.LastIndex(good, []byte("PK\x05\x06"))
	at := int(le.Uint32(good[end+16:]))
	patch := func(off, size int, v uint64) []byte {
		b := bytes.Clone(good)
		for i := range size {
			b[off+i] = byte(v >> (8 * i))
		}
		return b
	}
	path := filepath.Join(dir, "app.apk")
	object := compileFor(t, path, good, "uprobe:"+path+"!/lib/x.so:alpha_fn { @n = count(); } interval:ms:1 { exit(); }")
	for _, c := range []struct {
		name string
		data []byte
		ok   bool
	}{
		{"honest", good, true},
		{"signature in the comment", apk(t, "lib/x.so", content, "PK\x05\x06 is the signature of the end"), true},
		{"directory points at itself", patch(end+16, 4, uint64(end)), false},
		{"directory past the end", patch(end+16, 4, 1<<31), false},
		{"directory of 4 GB", patch(end+12, 4, 1<<32-2), false},
		{"zip64 without a locator", patch(end+16, 4, 1<<32-1), false},
		{"entry of 4 GB", patch(at+20, 4, 1<<32-2), false},
		{"entry starts at the directory", patch(at+42, 4, uint64(at)), false},
		{"entry starts past the end", patch(at+42, 4, 1<<32-2), false},
		{"compressed", patch(at+10, 2, 8), false},
		{"encrypted", patch(at+8, 2, 1), false},
		{"name of 64 KB", patch(at+28, 2, 1<<16-1), false},
		{"no directory", good[:at], false},
		{"member is not there", apk(t, "../lib/x.so", content, ""), false},
		{"member is an archive", apk(t, "lib/x.so", good, ""), false},
		{"empty", nil, false},
		{"signatures only", bytes.Repeat([]byte("PK\x05\x06"), 1<<18), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(path, c.data, 0o644); err != nil {
				t.Fatal(err)
			}
			r := start(t, nil, program(t, "btrun"), object)
			switch status := r.wait(); {
			case c.ok && status != 0:
				t.Errorf("status %d: %s", status, &r.err)
			case !c.ok && status == 0 && c.name != "encrypted":
				t.Errorf("attached: %s%s", &r.out, &r.err)
			case status != 0:
				r.oneMessage()
			}
			r.cheap()
		})
	}
}

// compileFor writes a file and compiles a script that names it.
func compileFor(t *testing.T, path string, data []byte, script string) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return compile(t, script)
}

// bombs are sections that claim or repeat more than they hold.
func bombs() map[string][]section {
	le := binary.LittleEndian
	unitAt := func(abbrev uint32, body []byte) []byte { // DWARF 4, addresses of 8 bytes
		b := le.AppendUint32(nil, uint32(7+len(body)))
		b = le.AppendUint32(le.AppendUint16(b, 4), abbrev)
		return append(append(b, 8), body...)
	}
	unit := func(body []byte) []byte { return unitAt(0, body) }
	dwarf := func(info, abbrev []byte, more ...section) []section {
		return append([]section{{name: ".debug_info", kind: 1, data: info}, {name: ".debug_abbrev", kind: 1, data: abbrev}, {name: ".debug_str", kind: 1, data: []byte("alpha_fn\x00")}}, more...)
	}
	// 1: compile_unit with children; 2: subprogram alpha_fn with children; 3: parameter x of a type; 4: typedef of a type
	// 5: struct with children; 6: member of a type; 7: compile_unit with a line table; 8: array of a type; 9: dimension;
	// 10: function by a string; 11: typedef of an indirect form; 12: a pair of no attributes
	abbrev := []byte{1, 0x11, 1, 0, 0, 2, 0x2e, 1, 3, 0x0e, 0x11, 1, 0x12, 7, 0, 0, 3, 5, 0, 3, 8, 0x49, 0x13, 0, 0, 4, 0x16, 0, 0x49, 0x13, 0, 0, 5, 0x13, 1, 3, 8, 0x0b, 0x0f, 0, 0, 6, 0x0d, 0, 3, 8, 0x49, 0x13, 0, 0,
		7, 0x11, 1, 0x10, 0x17, 0x1b, 8, 0, 0, 8, 1, 1, 0x49, 0x13, 0, 0, 9, 0x21, 0, 0x37, 5, 0, 0, 10, 0x2e, 0, 3, 0x0e, 0, 0, 11, 0x16, 0, 0x49, 0x16, 0, 0, 12, 0x39, 1, 0, 0, 0}
	function := le.AppendUint64(le.AppendUint64(le.AppendUint32([]byte{1, 2}, 0), base+120), 10)
	param := func(typ uint32) []byte { return append(le.AppendUint32([]byte{3, 'x', 0}, typ), 0) }
	at := uint32(11 + len(function) + len(param(0))) // of the first type
	first := append(bytes.Clone(function), param(at)...)
	after := func(more ...[]byte) []byte { return append(bytes.Clone(first), bytes.Join(more, nil)...) }
	cycle := after(le.AppendUint32([]byte{4}, at+5), le.AppendUint32([]byte{4}, at), []byte{0})
	self := after([]byte{5, 's', 0, 8}, le.AppendUint32([]byte{6, 'm', 0}, at), []byte{0, 0})
	var deep []byte
	for i := range uint32(200000) {
		deep = le.AppendUint32(append(deep, 4), at+5*(i+1))
	}
	nested := append(after(), bytes.Repeat([]byte{12}, 8_000_000)...)
	many := append([]byte{1}, bytes.Repeat(append(append([]byte{}, function[1:]...), 0), 100000)...)
	dimensions := after(le.AppendUint32([]byte{8}, 0), bytes.Repeat([]byte{9, 2, 0}, 300000))
	wide := after(le.AppendUint32([]byte{8}, at+5+30), bytes.Repeat([]byte{9, 255, 255}, 10), []byte{0, 5, 's', 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	named := after()
	for i := range uint32(500_000) {
		named = le.AppendUint32(append(named, 10), 9+i)
	}
	long := append([]byte("alpha_fn\x00"), bytes.Repeat([]byte{'a'}, 1_000_000)...)
	attributes := append(bytes.Clone(abbrev[:len(abbrev)-1]), append([]byte{13, 0x34, 0}, append(bytes.Repeat([]byte{3, 0x19}, 200_000), 0, 0, 0)...)...)
	var overlapping, tables []byte
	for i := range uint32(50_000) {
		overlapping = append(overlapping, unitAt(7*i, []byte{1})...)
		tables = append(tables, byte(i)|0x80, byte(i>>7)|0x80, byte(i>>14)|1, 0x34, 0, 0, 0)
	}
	lines := func(header []byte, program ...byte) []byte {
		b := append([]byte{5, 0, 8, 0}, le.AppendUint32(nil, uint32(len(header)))...)
		b = append(append(b, header...), program...)
		return append(le.AppendUint32(nil, uint32(len(b))), b...)
	}
	opcodes := []byte{1, 1, 1, 0xfb, 14, 1}
	withLines := func(units int, comp string, line []byte) []section {
		var info []byte
		for i := range units {
			info = append(info, unit(append(le.AppendUint32([]byte{7}, uint32(i)), append([]byte(comp), 0, 0)...))...)
		}
		return dwarf(info, abbrev, section{name: ".debug_line", kind: 1, data: line}, section{name: ".debug_line_str", kind: 1, data: bytes.Repeat([]byte{'p'}, 1_000_000)})
	}
	leb := func(n uint64) []byte { return binary.AppendUvarint(nil, n) }
	paths := append(append(bytes.Clone(opcodes), 1, 1, 0x1f), leb(200_000)...)
	old := append([]byte{2, 0, 11, 0, 0, 0, 1, 1, 0xfb, 14, 1}, bytes.Repeat([]byte{'d', 0}, 500_000)...)
	old = append(append(old, 0), bytes.Repeat([]byte{'f', 0, 1, 0, 0}, 500_000)...)
	old = append(le.AppendUint32(nil, uint32(len(old)+1)), append(old, 0)...)
	cie := []byte{16, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0, 0, 0}
	fde := func(back uint32) []byte {
		return append(le.AppendUint32([]byte{16, 0, 0, 0}, back), make([]byte, 12)...)
	}
	var frames, far []byte
	for i := range uint32(200000) {
		frames = append(frames, fde(uint32(len(cie))+20*i+4)...)
		far = append(far, fde(8_000_000+20*i+4)...)
	}
	symbols := make([]byte, 24)
	for i := range uint32(300_000) {
		symbols = append(le.AppendUint32(symbols, 1+i), 0x12, 0, 1, 0)
		symbols = le.AppendUint64(le.AppendUint64(symbols, base+120), 1)
	}
	zdebug := func(claim uint64, data []byte) []byte {
		var b bytes.Buffer
		b.Write(binary.BigEndian.AppendUint64([]byte("ZLIB"), claim))
		w := zlib.NewWriter(&b)
		w.Write(data)
		w.Close()
		return b.Bytes()
	}
	zero := make([]byte, 100_000_000)
	const compressed = 0x800
	return map[string][]section{
		"typedefs in a cycle":                 dwarf(unit(cycle), abbrev),
		"struct that holds itself":            dwarf(unit(self), abbrev),
		"200,000 typedefs in a row":           dwarf(unit(after(deep)), abbrev),
		"8,000,000 nested entries":            dwarf(unit(nested), abbrev),
		"nested entries, compressed":          {{name: ".debug_info", kind: 1, data: deflated(unit(nested)), flags: compressed}, {name: ".debug_abbrev", kind: 1, data: abbrev}},
		"100,000 functions":                   dwarf(unit(append(many, 0)), abbrev),
		"300,000 dimensions":                  dwarf(unit(dimensions), abbrev),
		"array of 2^160 elements":             dwarf(unit(wide), abbrev),
		"unit of 4 GB":                        dwarf(append([]byte{0xef, 0xff, 0xff, 0xff}, unit(cycle)[4:]...), abbrev),
		"100,000 empty units":                 dwarf(bytes.Repeat(unit([]byte{0}), 100000), abbrev),
		"one string of 1 MB, 500,000 times":   {{name: ".debug_info", kind: 1, data: unit(named)}, {name: ".debug_abbrev", kind: 1, data: abbrev}, {name: ".debug_str", kind: 1, data: long}},
		"200,000 attributes, 1,000,000 times": dwarf(unit(append(after(), bytes.Repeat([]byte{13}, 1_000_000)...)), attributes),
		"50,000 tables in one another":        dwarf(overlapping, tables),
		"forms of no end":                     dwarf(unit(append(after([]byte{11}), bytes.Repeat([]byte{0x16}, 1<<20)...)), abbrev),
		"abbreviations of no end":             dwarf(unit(cycle), bytes.Repeat([]byte{0x81, 0x80, 0x80, 0x80, 0x10, 0x34, 1, 3, 8}, 200000)),
		"number of no end":                    dwarf(unit(append([]byte{1}, bytes.Repeat([]byte{0xff}, 1<<20)...)), abbrev),
		"1000-fold compression":               {{name: ".debug_info", kind: 1, data: deflated(zero), flags: compressed}, {name: ".debug_abbrev", kind: 1, data: abbrev}},
		"1000-fold compression, old":          {{name: ".zdebug_info", kind: 1, data: zdebug(100_000_000, zero)}, {name: ".debug_abbrev", kind: 1, data: abbrev}},
		"compression of 2^60 bytes":           {{name: ".zdebug_info", kind: 1, data: zdebug(1<<60, zero[:1000])}, {name: ".debug_abbrev", kind: 1, data: abbrev}},
		"2^34 directories":                    withLines(1, "/", lines(append(append(bytes.Clone(opcodes), 0), leb(1<<34)...))),
		"200,000 paths of 1 MB":               withLines(1, "/", lines(append(paths, make([]byte, 800_000)...))),
		"1,000,000 files in a long directory": withLines(1, strings.Repeat("d", 100_000), old),
		"1,000,000 files of old":              withLines(1, "/", old),
		"20,000 tables in one another":        withLines(20_000, "", bytes.Repeat([]byte{0, 1, 0, 0}, 20_000)),
		"one program, 10,000 times":           withLines(10_000, "", append(lines(append(bytes.Clone(opcodes), 0, 0, 0, 0), bytes.Repeat([]byte{0x20}, 2_000_000)...), make([]byte, 20_000)...)),
		"frames":                              {{name: ".eh_frame", kind: 1, data: append(bytes.Clone(cie), frames...)}},
		"frame of 4 GB":                       {{name: ".eh_frame", kind: 1, data: append(append(bytes.Clone(cie), 0xef, 0xff, 0xff, 0xff), fde(24)[4:]...)}},
		"frame of its own":                    {{name: ".eh_frame", kind: 1, data: fde(0)}},
		"frame before the start":              {{name: ".eh_frame", kind: 1, data: append(bytes.Clone(cie), fde(1<<31)...)}},
		"augmentation of no end":              {{name: ".eh_frame", kind: 1, data: append([]byte{0xf8, 0xff, 0xf, 0, 0, 0, 0, 0, 1}, bytes.Repeat([]byte{'z'}, 1<<20-9)...)}},
		"long augmentation, 200,000 times":    {{name: ".eh_frame", kind: 1, data: append(append(le.AppendUint32(nil, 7_999_996), append([]byte{0, 0, 0, 0, 1}, bytes.Repeat([]byte{'z'}, 7_999_991)...)...), far...)}},
		"long number, 200,000 times":          {{name: ".eh_frame", kind: 1, data: append(append(le.AppendUint32(nil, 7_999_996), append([]byte{0, 0, 0, 0, 1, 0}, bytes.Repeat([]byte{0x80}, 7_999_990)...)...), far...)}},
		"64-bit length":                       {{name: ".eh_frame", kind: 1, data: append([]byte{0xff, 0xff, 0xff, 0xff}, bytes.Repeat([]byte{0xff}, 64)...)}},
		"frames, compressed":                  {{name: ".eh_frame", kind: 1, data: deflated(zero), flags: compressed}},
		"300,000 symbols with a name of 1 MB": {{name: ".dynsym", kind: 11, data: symbols, link: 6, info: 1, entry: 24}, {name: ".other"}, {name: ".dynstr", kind: 3, data: append([]byte{0}, long...)}},
		"symbols, compressed":                 {{name: ".dynsym", kind: 11, data: deflated(zero), flags: compressed, link: 6, info: 1, entry: 24}, {name: ".other"}, {name: ".dynstr", kind: 3, data: deflated(zero), flags: compressed}},
		"names of sections, compressed":       {{name: ".shstrtab", kind: 3, data: zero, flags: compressed}},
		"names of sections of 1 MB":           append(slices.Repeat([]section{{name: strings.Repeat("n", 1000)}}, 2000), section{name: ".shstrtab", kind: 3, data: long}),
	}
}

// TestDebugInfoBombs checks that the compiler and the loader read hostile debug information, unwind tables and
// symbols in bounded time and memory, and that the function is found by its symbol all the same, or refused with a
// message.
func TestDebugInfoBombs(t *testing.T) {
	needRoot(t)
	for name, sections := range bombs() {
		t.Run(name, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "bomb") // t.TempDir has the name of the test: with commas in it, which attach points do not allow
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			path, object := filepath.Join(dir, "bomb"), filepath.Join(dir, "x.o")
			tinyProgram(t, path, "alpha_fn", append(system(39, 0), system(60, 0)...), sections...)
			for _, script := range []string{
				":alpha_fn { print(args.x); }", ":alpha_fn { print(args); }", "@a.c:1 { @ = count(); }", ":alpha* { @[args.x] = count(); }", ":alpha_fn { @ = sizeof(struct s); @b = *(struct s *)arg0; }",
			} {
				for _, args := range [][]string{{}, {"--untrusted"}} {
					r := start(t, nil, slices.Concat([]string{program(t, "btc"), "compile"}, args, []string{"-e", "uprobe:" + path + script, "-o", object})...)
					status := r.wait()
					r.cheap()
					if status != 0 && !strings.Contains(r.err.String(), "error") {
						t.Errorf("%s: status %d without a message: %s", script, status, &r.err)
					}
				}
			}
			object = compile(t, "uprobe:"+path+":alpha_fn { @n = count(); @[ustack, usym(reg(\"ip\"))] = count(); }")
			for _, args := range [][]string{{"-c", path, object}, {"--dry-run", object}, {"--dry-run", compile(t, "uprobe:"+path+":0x40007d { @ = count(); }")}, {"--list", "uprobe:" + path + ":*"}} {
				r := start(t, nil, append([]string{program(t, "btrun"), "-q"}, args...)...)
				status := r.wait()
				r.cheap()
				if status == 0 && args[0] == "-c" && number(r.out.String(), "@n: ") != 1 {
					t.Errorf("count is not 1: %s%s", &r.out, &r.err)
				} else if status != 0 {
					r.oneMessage()
				}
			}
		})
	}
}

// TestShortProcesses counts processes that live for microseconds, with their stacks: the count is exact or
// the loss reported, and the memory of the run does not grow. BTC_SOAK sets their number: 8600000 is a day of 100 a second.
func TestShortProcesses(t *testing.T) {
	needTracepoints(t)
	total, rounds := 20000, 10
	if n, err := strconv.Atoi(os.Getenv("BTC_SOAK")); err == nil {
		total = n
	}
	target := filepath.Join(t.TempDir(), "btcshort")
	le := binary.LittleEndian
	// push N ; loop: fork ; test eax, eax ; jz child ; wait4(-1, 0, 0, 0) ; dec qword [rsp] ; jnz loop ; exit(0) ; child: exit(0)
	code := le.AppendUint32([]byte{0x68}, uint32(max(total/rounds, 1)))
	loop := len(code)
	code = append(code, 0xb8, 57, 0, 0, 0, 0x0f, 0x05, 0x85, 0xc0, 0x74, 0)
	jump := len(code)
	code = append(code, 0x48, 0x83, 0xcf, 0xff, 0x31, 0xf6, 0x31, 0xd2, 0x4d, 0x31, 0xd2, 0xb8, 61, 0, 0, 0, 0x0f, 0x05, 0x48, 0xff, 0x0c, 0x24)
	code = append(code, 0x75, byte(loop-len(code)-2))
	code[jump-1] = byte(len(code) - jump)
	tinyProgram(t, target, "alpha_fn", append(code, system(60, 0)...))
	limit := hang + time.Duration(total)*20*time.Millisecond
	r := startFor(t, limit, nil, program(t, "btrun"), compile(t, `tracepoint:syscalls:sys_enter_exit /comm == "btcshort"/ { @n = count(); @[ustack(1), comm] = count(); }`))
	r.attached()
	var kB []int
	for range rounds {
		if out, err := exec.Command(target).CombinedOutput(); err != nil {
			t.Fatal(err, out)
		}
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(r.cmd.Process.Pid) + "/status")
		kB = append(kB, number(strings.ReplaceAll(strings.ReplaceAll(string(b), " ", ""), "\t", ""), "VmRSS:"))
	}
	r.cmd.Process.Signal(os.Interrupt)
	if status := r.wait(); status != 0 {
		t.Errorf("exit status %d: %s", status, &r.err)
	}
	t.Logf("memory in kB: %v", kB)
	want := (max(total/rounds, 1) + 1) * rounds
	if n := number(r.out.String(), "@n: "); n != want && !strings.Contains(strings.ToLower(r.err.String()), "lost") {
		t.Errorf("count = %d, want %d: %s", n, want, &r.err)
	}
	if first, last := kB[rounds/2], kB[rounds-1]; last > first*3/2 {
		t.Errorf("memory grew from %d kB to %d kB", first, last)
	}
}
