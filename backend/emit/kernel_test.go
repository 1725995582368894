// SPDX-License-Identifier: Apache-2.0

//go:build linux

package emit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"btc/ir"
)

// This file runs emitted code in the kernel without the object writer and the loader: with raw bpf(2)
// calls, functions joined and calls resolved by hand.

const (
	cmdMapCreate = 0
	cmdProgLoad  = 5
	cmdTestRun   = 10
	rawTP        = 17 // BPF_PROG_TYPE_RAW_TRACEPOINT
)

func bpf(cmd int, attr unsafe.Pointer, size uintptr) (int, error) {
	r, _, errno := unix.Syscall(unix.SYS_BPF, uintptr(cmd), uintptr(attr), size)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// newArray creates an array map with one 8-byte element and returns its descriptor.
func newArray(t testing.TB) int {
	attr := struct{ typ, key, value, entries, flags uint32 }{2, 4, 8, 1, 0}
	fd, err := bpf(cmdMapCreate, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	if err != nil {
		skipOrFail(t, err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func skipOrFail(t testing.TB, err error) {
	t.Helper()
	if err == unix.EPERM || os.Geteuid() != 0 {
		t.Skip("skipped: running BPF programs needs root: ", err)
	}
	t.Fatal(err)
}

// link joins funcs, resolves calls and replaces every map by the descriptor fd.
func link(funcs []*Func, fd int) []byte {
	start := map[string]int{}
	at := 0
	for _, f := range funcs {
		start[f.Name] = at
		at += f.NumInsns()
	}
	var code []byte
	for _, f := range funcs {
		p := bytes.Clone(f.Insns)
		for _, r := range f.Relocs {
			imm := int32(fd)
			if r.Kind == Call {
				imm = int32(start[r.Sym] - start[f.Name] - r.Insn - 1)
			}
			binary.LittleEndian.PutUint32(p[8*r.Insn+4:], uint32(imm))
		}
		code = append(code, p...)
	}
	return code
}

// load loads the program into the kernel. It returns its descriptor, or the error and the verifier
// log.
func load(code []byte) (int, string, error) {
	fd, err := loadWith(code, nil)
	if err == nil {
		return fd, "", nil
	}
	log := make([]byte, 1<<22)
	_, _ = loadWith(code, log)
	text, _, _ := bytes.Cut(log, []byte{0})
	return fd, string(text), err
}

func loadWith(code, log []byte) (int, error) {
	license := []byte("GPL\x00")
	attr := struct {
		typ, count        uint32
		insns, license    uint64
		logLevel, logSize uint32
		logBuf            uint64
		version, flags    uint32
	}{typ: rawTP, count: uint32(len(code) / 8), insns: addr(code), license: addr(license)}
	if len(log) > 0 {
		// log level 2: every instruction that the verifier processes
		attr.logLevel, attr.logSize, attr.logBuf = 2, uint32(len(log)), addr(log)
	}
	fd, err := bpf(cmdProgLoad, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	// A signal to the thread, such as one from the Go scheduler, interrupts the verification.
	for errors.Is(err, unix.EAGAIN) {
		fd, err = bpf(cmdProgLoad, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	}
	runtime.KeepAlive(code)
	runtime.KeepAlive(log)
	runtime.KeepAlive(license)
	return fd, err
}

func addr(p []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&p[0]))) }

// run loads funcs, the first of which is the program, runs it on a context of 8-byte words and
// returns the low 32 bits of its result.
func run(t testing.TB, funcs []*Func, ctx []uint64) uint32 {
	t.Helper()
	fd := 0
	for _, f := range funcs {
		for _, r := range f.Relocs {
			if r.Kind == Map && fd == 0 {
				fd = newArray(t)
			}
		}
	}
	prog, log, err := load(link(funcs, fd))
	if err == unix.EPERM && os.Geteuid() != 0 {
		t.Skip("skipped: running BPF programs needs root")
	}
	if err != nil {
		var asm strings.Builder
		for _, f := range funcs {
			if f.NumInsns() < 5000 {
				asm.WriteString(listing(f))
			}
		}
		t.Fatalf("load: %v\n%s\n%s", err, asm.String(), tail(log))
	}
	defer unix.Close(prog)
	data := make([]byte, 0, 8*12)
	for _, w := range ctx {
		data = binary.LittleEndian.AppendUint64(data, w)
	}
	data = data[:cap(data)]
	attr := struct {
		fd, retval, inSize, outSize uint32
		in, out                     uint64
		repeat, duration            uint32
		ctxInSize, ctxOutSize       uint32
		ctxIn, ctxOut               uint64
		flags, cpu                  uint32
	}{fd: uint32(prog), ctxInSize: uint32(len(data)), ctxIn: addr(data)}
	_, err = bpf(cmdTestRun, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	runtime.KeepAlive(data)
	if err != nil {
		t.Fatal("test run: ", err)
	}
	return attr.retval
}

func tail(log string) string {
	lines := strings.Split(log, "\n")
	return strings.Join(lines[max(0, len(lines)-30):], "\n")
}

const progHead = "module m file \"m.bt\"\nmap (name @x, shape plain)\nfunc @f prog (kind self, section \"raw_tp\") !1:1 {\n"

func TestArithmeticInTheKernel(t *testing.T) {
	var a, b uint64 = 0x8123456789abcdef, 10
	for _, c := range []struct {
		body string
		want uint64
	}{
		{"v3:i64 = add v1, v2", (a + b)},
		{"v3:i64 = sub v1, 0x123456789a", a - 0x123456789a},
		{"v3:i64 = sub 5, v2", 1<<64 - 5},
		{"v3:i64 = mul v1, 24", a * 24},
		{"v3:i64 = udiv v1, v2", a / b},
		{"v3:i64 = udiv v1, 0", 0},
		{"v3:i64 = udiv v1, 1024", a / 1024},
		{"v3:i64 = umod v1, v2", a % b},
		{"v3:i64 = umod v1, 0", a},
		{"v3:i64 = umod v1, 0x1000000000", a % 0x1000000000},
		{"v3:i64 = and v1, 0xffffffff", a & 0xffffffff},
		{"v3:i64 = or 0x100000000, v2", 0x100000000 | b},
		{"v3:i64 = xor v1, -1", ^a},
		{"v3:i64 = shl v1, v2", a << b},
		{"v3:i64 = lshr v1, 66", a >> 2},
		{"v3:i64 = ashr v1, v2", uint64(int64(a) >> b)},
		{"v3:i64 = bswap.u16 v1", 0xefcd},
		{"v3:i64 = bswap.u32 v1", 0xefcdab89},
		{"v3:i64 = bswap.u64 v1", 0xefcdab8967452381},
		{"v3:i64 = zext.u8 v1", 0xef},
		{"v3:i64 = zext.u16 v1", 0xcdef},
		{"v3:i64 = zext.u32 v1", 0x89abcdef},
		{"v3:i64 = sext.s8 v1", 1<<64 - 0x11},
		{"v3:i64 = sext.s16 v1", 1<<64 - 0x3211},
		{"v3:i64 = sext.s32 v1", 0xffffffff89abcdef},
		{"v4:i1 = icmp slt v1, v2\n v3:i64 = boolint v4", 1},
		{"v4:i1 = icmp ult v1, v2\n v3:i64 = boolint v4", 0},
		{"v4:i1 = icmp ugt 11, v2\n v3:i64 = select v4, v1, 7", a},
		{"v4:i1 = icmp eq v1, 0x8123456789abcdef\n v3:i64 = select v4, 7, v2", 7},
		{"v4:i1 = icmp ule v2, 9\n v3:i64 = select v4, v2, 0x123456789ab", 0x123456789ab},
		{"store.u64 [s0+0], v1\n v3:i64 = load.s16 [s0+2]", 1<<64 - 0x7655},
		{"store.u64 [s0+0], -1\n store.u8 [s0+3], 0x1ff\n store.u16 [s0+4], v2\n v3:i64 = load.u64 [s0+0]", 0xffff000affffffff},
		{"store.u64 [s0+0], 0xfffffffff\n atomicadd.u64 [s0+0], v2\n v3:i64 = load.u64 [s0+0]", 0xfffffffff + b},
		{"v3:i64 = callsub g(v1, 3)", (a - 3) * 3},
		{"v3:i64 = attachid #9", 9},
	} {
		t.Run(c.body, func(t *testing.T) {
			source := progHead + `slot s0 "x" 8 align 8 frame -8
b0(v0:ctx):
  v1:i64 = load.u64 [v0+8]
  v2:i64 = load.u64 [v0+16]
  ` + c.body + `
  v100:i64 = lshr v3, 32
  v101:i64 = mul v100, 31
  v102:i64 = xor v101, v3
  ret v102
}
func @g(i64, i64) {
b0(v0:i64, v1:i64):
  v2:i64 = sub v0, v1
  v3:i64 = mul v2, v1
  ret v3
}
`
			funcs := compile(t, source)
			if !strings.Contains(c.body, "callsub") {
				funcs = funcs[:1] // the kernel rejects unused functions
			}
			want := uint32(c.want>>32)*31 ^ uint32(c.want)
			if got := run(t, funcs, []uint64{0, a, b}); got != want {
				t.Errorf("got %#x, want %#x\n%s", got, want, listing(funcs[0]))
			}
		})
	}
}

// TestSpillingInTheKernel keeps more values live across calls than there are registers, including
// pointers and checked map values.
func TestSpillingInTheKernel(t *testing.T) {
	var s strings.Builder
	s.WriteString(progHead + "slot s0 \"key\" 4 align 4 frame -4\nb0(v0:ctx):\n store.u32 [s0+0], 0\n")
	const n = 24
	for i := range n {
		fmt.Fprintf(&s, " v%d:i64 = load.u64 [v0+%d]\n v%d:i64 = mul v%d, %d\n", 100+i, 8*(i%4), 200+i, 100+i, i+1)
	}
	s.WriteString(` v1:mapval(@x)? = call map_lookup_elem(@x, s0+0)
 v2:i1 = icmp eq v1, null
 br v2, b1, b2
b1 cold:
 ret 0
b2:
 v3:mapval(@x) = nonnull v1
`)
	for i := range n {
		fmt.Fprintf(&s, " v%d:i64 = call get_prandom_u32()\n store.u64 [v3+0], v%d\n", 300+i, 300+i)
	}
	want := uint32(0)
	last := "0"
	for i := range n {
		fmt.Fprintf(&s, " v%d:i64 = mul %s, 7\n v%d:i64 = add v%d, v%d\n", 400+i, last, 500+i, 400+i, 200+i)
		last = fmt.Sprintf("v%d", 500+i)
		want = want*7 + uint32((i%4+1)*11*(i+1))
	}
	fmt.Fprintf(&s, " store.u64 [v3+0], %s\n v600:i64 = load.u64 [v3+0]\n ret v600\n}\n", last)
	funcs := compile(t, s.String())
	if funcs[0].StackSize < 8*12 {
		t.Errorf("frame is %d bytes: nothing was spilled", funcs[0].StackSize)
	}
	if got := run(t, funcs, []uint64{11, 22, 33, 44}); got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
}

// TestFarJumps places more code in an if and a loop than the 16-bit offset of a jump can skip.
func TestFarJumps(t *testing.T) {
	const n = 45000
	var s strings.Builder
	s.WriteString(progHead + `b0(v0:ctx):
 v1:i64 = load.u64 [v0+0]
 v2:i64 = load.u64 [v0+8]
 v3:i1 = icmp eq v2, 1
 br v3, b1(v1, 0), b3(v1)
b1(v10:i64, v11:i64):
`)
	last := "v10"
	for i := range n {
		fmt.Fprintf(&s, " v%d:i64 = add %s, v1\n", 1000+i, last)
		last = fmt.Sprintf("v%d", 1000+i)
	}
	fmt.Fprintf(&s, ` v20:i64 = add v11, 1
 v21:i1 = icmp ult v20, 3
 br v21, b1(%s, v20), b2
b2:
 jump b3(%s)
b3(v30:i64):
 ret v30
}
`, last, last)
	funcs := compile(t, s.String())
	for _, c := range []struct{ taken, want uint64 }{{0, 5}, {1, 5 + 3*n*5}} {
		if got := run(t, funcs, []uint64{5, c.taken}); got != uint32(c.want) {
			t.Errorf("with %d: got %d, want %d", c.taken, got, c.want)
		}
	}
}

// TestPatchedJumps has a jump over divisions that is in range until the verifier inserts its check
// of the divisor before each of them.
func TestPatchedJumps(t *testing.T) {
	const n = 8300
	var s strings.Builder
	s.WriteString(progHead + `b0(v0:ctx):
 v1:i64 = load.u64 [v0+0]
 v2:i64 = load.u64 [v0+8]
 v3:i1 = icmp eq v2, 1
 br v3, b1, b2(v1)
b1:
`)
	last := "v1"
	for i := range n {
		fmt.Fprintf(&s, " v%d:i64 = udiv %s, v2\n", 1000+i, last)
		last = fmt.Sprintf("v%d", 1000+i)
	}
	fmt.Fprintf(&s, " v4:i64 = add %s, 7\n jump b2(v4)\nb2(v5:i64):\n ret v5\n}\n", last)
	funcs := compile(t, s.String())
	if size := len(funcs[0].Insns) / 8; size > 1<<15 {
		t.Fatalf("%d instructions: the jump is out of range even without the verifier's patches", size)
	}
	for _, c := range []struct{ taken, want uint64 }{{0, 5}, {1, 12}} {
		if got := run(t, funcs, []uint64{5, c.taken}); got != uint32(c.want) {
			t.Errorf("with %d: got %d, want %d", c.taken, got, c.want)
		}
	}
}

// TestColdStaysInReach has cold blocks in more code than a 16-bit jump can skip: each one follows
// the code that leads to it and needs no island.
func TestColdStaysInReach(t *testing.T) {
	const adds = 20
	source := func(n int) string {
		var s strings.Builder
		s.WriteString(progHead + "b0(v0:ctx):\n v1:i64 = load.u64 [v0+0]\n v2:i64 = load.u64 [v0+8]\n jump b1(0)\n")
		for i := 1; i <= n; i++ {
			b, v := 2*i-1, 50*i
			fmt.Fprintf(&s, "b%d(v%d:i64):\n", b, v)
			for range adds {
				fmt.Fprintf(&s, " v%d:i64 = add v%d, v2\n", v+1, v)
				v++
			}
			fmt.Fprintf(&s, " v%d:i1 = icmp eq v1, %d\n br v%d, b%d, b%d(v%d)\n", v+1, i, v+1, b+1, b+2, v)
			fmt.Fprintf(&s, "b%d cold:\n v%d:i64 = mul v1, %d\n v%d:i64 = add v%d, v%d\n jump b%d(v%d)\n", b+1, v+2, i+2, v+3, v+2, v, b+2, v+3)
		}
		fmt.Fprintf(&s, "b%d(v5:i64):\n ret v5\n}\n", 2*n+1)
		return s.String()
	}
	const n = 2000
	near, far := compile(t, source(n/4)), compile(t, source(n))
	most := 4*len(near[0].Insns) + 100*8
	if size := len(far[0].Insns); size < 1<<15*8 || size > most {
		t.Errorf("%d bytes of code, want more than the range of a jump and at most %d", size, most)
	}
	for _, arg := range []uint64{0, 1, 1001, n} {
		want := uint64(adds * n * 3)
		if arg > 0 {
			want += arg * (arg + 2)
		}
		if got := run(t, far, []uint64{arg, 3}); got != uint32(want) {
			t.Errorf("with %d: got %d, want %d", arg, got, want)
		}
	}
}

// TestSyntaxIsTheKernels compares our listing with the kernel verifier's log.
func TestSyntaxIsTheKernels(t *testing.T) {
	source := progHead + ` slot s0 "" 16 align 8 frame -16
b0(v0:ctx):
 v1:i64 = load.u64 [v0+8]
 store.u32 [s0+0], 0
 store.u64 [s0+8], v1
 v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
 v3:i1 = icmp eq v2, null
 br v3, b1, b2
b1:
 ret 0
b2:
 v4:mapval(@x) = nonnull v2
 v5:i64 = load.s8 [s0+9]
 atomicadd.u64 [v4+0], v5
 v6:i64 = bswap.u32 v1
 v7:i64 = zext.u32 v6
 v8:i64 = udiv v7, 10
 v9:i64 = xor v8, v1
 v10:i1 = icmp sgt v9, -7
 v11:i64 = select v10, v9, 0x123456789a
 ret v11
}
`
	funcs := compile(t, source)
	code := link(funcs, newArray(t))
	log := make([]byte, 1<<20)
	fd, err := loadWith(code, log)
	if err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	unix.Close(fd)
	ours := map[string]bool{}
	for _, line := range strings.Split(funcs[0].String(), "\n") {
		ours[strings.TrimSpace(line)] = true
	}
	text, _, _ := bytes.Cut(log, []byte{0})
	seen := 0
	for _, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, ";")
		line = strings.TrimSpace(line)
		var slot int
		var op string
		if n, _ := fmt.Sscanf(line, "%d: (%2s)", &slot, &op); n < 2 || op == "18" {
			continue // states, and the address of the map
		}
		seen++
		if !ours[line] {
			t.Errorf("kernel prints %q\n%s", line, funcs[0])
		}
	}
	if seen < 15 {
		t.Errorf("only %d instructions in the log:\n%s", seen, text)
	}
}

// TestCheckedBoundsSurvive checks an index by a branch and by a select, keeps it across calls under
// register pressure, and uses it as an offset into a map value. Kernels forget the bounds of values
// that are not in a register.
func TestCheckedBoundsSurvive(t *testing.T) {
	var s strings.Builder
	s.WriteString(progHead + ` slot s0 "" 4 align 4 frame -4
b0(v0:ctx):
 store.u32 [s0+0], 0
 v1:i64 = load.u64 [v0+8]
 v2:mapval(@x)? = call map_lookup_elem(@x, s0+0)
 v3:i1 = icmp eq v2, null
 br v3, b1, b2
b1:
 ret 1
b2:
 v4:mapval(@x) = nonnull v2
 v5:i1 = icmp ugt v1, 7
 br v5, b1, b3
b3:
`)
	for i := range 8 { // eight values that are live to the end
		fmt.Fprintf(&s, " v%d:i64 = load.u64 [v0+%d]\n v%d:i64 = call get_prandom_u32()\n", 100+i, 8*i, 200+i)
	}
	s.WriteString(` v6:mapval(@x) = add v4, v1
 store.u8 [v6+0], 3
 v7:i64 = load.u64 [v0+16]
 v8:i1 = icmp ule v7, 7
 v9:i64 = select v8, v7, 7
 v10:i64 = call get_prandom_u32()
 v11:mapval(@x) = add v4, v9
 store.u8 [v11+0], 1
 v12:i64 = load.u64 [v4+0]
`)
	last := "v12"
	for i := range 8 {
		fmt.Fprintf(&s, " v%d:i64 = add %s, v%d\n", 300+i, last, 100+i)
		last = fmt.Sprintf("v%d", 300+i)
	}
	fmt.Fprintf(&s, " ret %s\n}\n", last)
	funcs := compile(t, s.String())
	if got := run(t, funcs, []uint64{0, 2, 99}); got != 3<<16+101 {
		t.Errorf("got %#x\n%s", got, listing(funcs[0]))
	}
}

func BenchmarkModule(b *testing.B) {
	for _, seed := range []uint64{4, 23, 47} {
		m, err := ir.Parse(randomText(seed))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(seed), func(b *testing.B) {
			insns := 0
			for b.Loop() {
				if funcs, err := Module(m, Options{}); err == nil {
					insns = funcs[0].NumInsns()
				}
			}
			b.ReportMetric(float64(insns), "insns")
		})
	}
}
