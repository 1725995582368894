// SPDX-License-Identifier: Apache-2.0

package ehframe

import (
	"bufio"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"btc/internal/elffile"
	"btc/internal/unwind"
)

// registers are the names that readelf has for the registers that rows know.
var registers = map[elf.Machine]struct{ sp, fp string }{
	elf.EM_X86_64:  {"rsp", "rbp"},
	elf.EM_AARCH64: {"sp", "x29"},
	elf.EM_RISCV:   {"sp", "s0"},
}

// installed are files whose tables are compared; those that a machine does not have are skipped.
var installed = []string{
	"libc.so.6", "libstdc++.so.6", "libcrypto.so.3", "libgcc_s.so.1", "libm.so.6", "ld-linux-x86-64.so.2", "bash", "python3", "perl", "git", "gdb",
	"/usr/aarch64-linux-gnu/lib/libc.so.6", "/usr/aarch64-linux-gnu/lib/libstdc++.so.6", "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1",
	"/usr/riscv64-linux-gnu/lib/libc.so.6", "/usr/riscv64-linux-gnu/lib/libstdc++.so.6", "/usr/riscv64-linux-gnu/lib/ld-linux-riscv64-lp64d.so.1",
}

// inRegister matches a value that is in another register: "r5 (rdi)".
var inRegister = regexp.MustCompile(`(r\d+) \(\S+\)`)

// TestReadelf compares every row that readelf finds in .eh_frame with the table.
func TestReadelf(t *testing.T) {
	if _, err := exec.LookPath("readelf"); err != nil {
		t.Skip("skipped: no readelf (binutils)")
	}
	for _, name := range installed {
		t.Run(filepath.Base(name)+suffix(name), func(t *testing.T) {
			path, ok := elffile.Find(name)
			if !ok {
				t.Skip("skipped: not installed")
			}
			if path, _ = filepath.EvalSymlinks(path); name == "python3" && !elffile.IsELF(path) { // a script that selects a version
				path, _ = filepath.EvalSymlinks("/usr/bin/python3")
			}
			compare(t, path)
		})
	}
}

func suffix(name string) string {
	if dir, _, ok := strings.Cut(strings.TrimPrefix(name, "/usr/"), "-"); ok && strings.HasPrefix(name, "/usr/") {
		return "-" + dir
	}
	return ""
}

func build(t testing.TB, path string) (*elf.File, *unwind.Table) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Skip("skipped: ", err)
	}
	t.Cleanup(func() { f.Close() })
	table, err := Build(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, table
}

func compare(t *testing.T, path string) {
	f, table := build(t, path)
	cmd := exec.Command("readelf", "--debug-dump=frames-interp", "--wide", path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	names := registers[f.Machine]
	var columns []string
	var locs []uint64
	var rows [][]string
	from, end, rowsSeen, unknown, bad := uint64(0), uint64(0), 0, 0, 0
	check := func() {
		for i, row := range rows {
			next := end
			if i+1 < len(rows) {
				next = locs[i+1]
			}
			if locs[i] >= next {
				continue
			}
			rowsSeen++
			for _, pc := range []uint64{locs[i], next - 1} {
				got := table.Lookup(uint32(pc - table.Base))
				if got.Kind == unwind.KindUnknown {
					unknown++
				}
				if got.Kind == unwind.KindEnd && from == f.Entry {
					continue
				}
				if why := differs(got, columns, row, names.sp, names.fp, pc); why != "" {
					if bad++; bad < 20 {
						t.Errorf("%#x: %+v, readelf: %s %s: %s", pc, got, columns, row, why)
					}
				}
			}
		}
		rows, locs = nil, nil
	}
	in := bufio.NewScanner(out)
	common := map[string]string{} // augmentations
	for in.Scan() {
		line := in.Text()
		words := strings.Fields(inRegister.ReplaceAllString(line, "$1"))
		switch {
		case strings.HasPrefix(line, "Contents of the .debug_frame"):
			check()
			goto done
		case strings.Contains(line, " CIE "):
			check()
			columns, end = nil, 0
			common[words[0]] = words[4] + words[7]
		case strings.Contains(line, " FDE cie="):
			check()
			columns = nil
			fmt.Sscanf(words[5], "pc=%x..%x", &from, &end)
			of := common[strings.TrimPrefix(words[4], "cie=")]
			if strings.HasSuffix(of, "ra=15") { // assembly of glibc 2.36 for arm64: not a return address
				end = 0
			}
			if strings.Contains(of, "S") {
				if got := table.Lookup(uint32(from + 1 - table.Base)); got.Kind != unwind.KindSignal {
					t.Errorf("%#x: %+v for a signal frame", from, got)
				}
				end = 0
			}
		case len(words) > 1 && words[0] == "LOC":
			columns = words[1:]
		case columns != nil && len(words) == len(columns)+1 && end != 0:
			loc, err := strconv.ParseUint(words[0], 16, 64)
			if err != nil {
				t.Fatal(line)
			}
			locs, rows = append(locs, loc), append(rows, words[1:])
		}
	}
done:
	check()
	if rowsSeen == 0 {
		t.Fatal("readelf has printed no rows")
	}
	t.Logf("%s: %d rows of readelf, %d rows in the table, %d bytes; %d addresses unknown", path, rowsSeen, len(table.Rows), len(table.Rows)*unwind.RowSize, unknown)
}

// differs says what is different between a row and one of readelf.
func differs(got unwind.Row, columns, want []string, sp, fp string, pc uint64) string {
	column := func(name string) string {
		for i, c := range columns {
			if c == name || name == "ra" && (c == "x30" || c == "lr") {
				return want[i]
			}
		}
		return ""
	}
	cfa, ra := column("CFA"), column("ra")
	if ra == "" && fp == "rbp" {
		return "no return address"
	}
	if got.Kind == unwind.KindEnd {
		if ra != "u" {
			return "an end"
		}
		return ""
	}
	if got.Kind == unwind.KindUnknown { // the caller counts it; the CFA is one that rows cannot represent
		if reg, off, ok := strings.Cut(cfa, "+"); ok && (reg == sp || reg == fp) && strings.HasPrefix(ra, "c") {
			if n, _ := strconv.Atoi(off); n%8 == 0 && n < 1<<18 {
				return "not represented"
			}
		}
		return ""
	}
	if want := "exp"; cfa == want {
		switch got.Kind {
		case unwind.KindPLT, unwind.KindDerefFP, unwind.KindDerefSP:
		default:
			return "not an expression"
		}
	} else {
		i := max(strings.IndexAny(cfa, "+-"), 0)
		reg := cfa[:i]
		n, err := strconv.Atoi(cfa[i:])
		switch {
		case err != nil || int(got.CFA)*8 != n:
			return "CFA"
		case got.Kind == unwind.KindSP && reg == sp, got.Kind == unwind.KindFP && reg == fp:
		case got.Kind >= unwind.KindReg && reg != sp && reg != fp:
		default:
			return "register of the CFA"
		}
	}
	offset := func(n int16) string { return fmt.Sprintf("c%+d", int(n)*8) }
	switch got.Flags & unwind.RAMask {
	case unwind.RASaved:
		if ra != offset(got.RA) {
			return "return address"
		}
	case unwind.RALink:
		if ra != "" && ra != "u" && ra != "s" || fp == "rbp" {
			return "return address"
		}
	}
	at := column(fp)
	switch got.Flags & unwind.FPMask {
	case unwind.FPSame:
		if at != "" && at != "u" && at != "s" {
			return "frame pointer"
		}
	case unwind.FPSaved:
		if at != offset(got.FP) {
			return "frame pointer"
		}
	case unwind.FPAtFP:
		if at != "exp" {
			return "frame pointer"
		}
	case unwind.FPLost:
		if at == "" || strings.HasPrefix(at, "c") {
			return "frame pointer"
		}
	}
	return ""
}
