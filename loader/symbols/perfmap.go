package symbols

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"btc/loader/order"
)

// perfMap holds the functions that a process's just-in-time compiler has named in
// the file /tmp/perf-PID.map: a line "START SIZE NAME" for each, in hex.
type perfMap struct {
	path  string
	syms  fileSyms // by address
	size  int64
	tried time.Time
}

const (
	maxPerfMap   = 256 << 20   // bytes of a file that are read
	perfMapPause = time.Second // between two readings of a file that grows
)

// perfMapped finds the function at an address that lies in no file.
func (t *Table) perfMapped(addr uint64, tgid uint32) (name, file string, off uint64) {
	p := t.perfMaps[tgid]
	if p == nil {
		p = &perfMap{}
		t.perfMaps[tgid] = p
	}
	name, off, ok := p.syms.lookup(addr)
	if !ok {
		p.refresh(tgid)
		name, off, ok = p.syms.lookup(addr)
	}
	if !ok {
		return "", "", 0
	}
	return t.show(name), p.path, off
}

// refresh reads the file when there is more in it than before.
func (p *perfMap) refresh(tgid uint32) {
	if !p.tried.IsZero() && time.Since(p.tried) < perfMapPause {
		return
	}
	p.tried = time.Now()
	for _, c := range perfMapNames(tgid) {
		f, err := os.OpenFile(c.open, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
		if err != nil {
			continue
		}
		fi, err := f.Stat()
		if err == nil && fi.Mode().IsRegular() && fi.Size() != p.size {
			p.path, p.size = c.name, fi.Size()
			p.syms = readPerfMap(io.LimitReader(f, maxPerfMap))
		}
		f.Close()
		return
	}
}

type perfMapName struct{ open, name string }

// perfMapNames are the files that may be a process's: it names them by its process
// ID in its own namespace, in its own /tmp.
func perfMapNames(tgid uint32) []perfMapName {
	name := func(pid string) string { return "/tmp/perf-" + pid + ".map" }
	outer := strconv.FormatUint(uint64(tgid), 10)
	root := "/proc/" + outer + "/root"
	var out []perfMapName
	if b, err := os.ReadFile("/proc/" + outer + "/status"); err == nil {
		for line := range strings.Lines(string(b)) {
			if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
				if f := strings.Fields(ids); len(f) > 1 {
					inner := name(f[len(f)-1])
					out = append(out, perfMapName{root + inner, inner})
				}
			}
		}
	}
	return append(out, perfMapName{root + name(outer), name(outer)}, perfMapName{name(outer), name(outer)})
}

// readPerfMap reads the lines that are right. A later function takes the place of
// an earlier one at the same address.
func readPerfMap(r io.Reader) fileSyms {
	var s fileSyms
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 64<<10), 1<<20)
	for scan.Scan() {
		start, rest, _ := strings.Cut(scan.Text(), " ")
		size, name, _ := strings.Cut(rest, " ")
		from, err1 := strconv.ParseUint(strings.TrimPrefix(start, "0x"), 16, 64)
		n, err2 := strconv.ParseUint(strings.TrimPrefix(size, "0x"), 16, 64)
		if err1 == nil && err2 == nil && n > 0 && name != "" {
			s.syms = append(s.syms, fileSym{from, n, name})
		}
	}
	order.By(s.syms, func(a, b fileSym) int {
		switch {
		case a.off < b.off:
			return -1
		case a.off > b.off:
			return 1
		}
		return 0
	})
	return s
}

// rootsOf are the folders below which a process's files are looked for.
func rootsOf(tgid uint32) []string {
	root := fmt.Sprintf("/proc/%d/root", tgid)
	if _, err := os.Stat(root + "/"); err != nil {
		return []string{""}
	}
	return []string{root, ""}
}

// The folder of a mapped file, as the process names it.
func cleanPath(path string) string {
	return filepath.Clean(strings.TrimSuffix(path, " (deleted)"))
}
