// SPDX-License-Identifier: Apache-2.0

//go:build linux

package safefile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const fuseContent = "content of the file"

// fuse mounts a file system of a server in this process, with the file "file". The server answers requests of the given
// operations (include/uapi/linux/fuse.h) and ignores all others.
func fuse(t *testing.T, answered func(op uint32) bool) string {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("skipped: no FUSE: ", err)
	}
	dir := t.TempDir()
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", fd, os.Getuid(), os.Getgid())
	if err := unix.Mount("test", dir, "fuse.test", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		t.Skip("skipped: cannot mount FUSE: ", err)
	}
	t.Cleanup(func() {
		unix.Unmount(dir, unix.MNT_DETACH)
		unix.Close(fd) // ends the connection, and all requests with it
	})
	go func() {
		b := make([]byte, 1<<17)
		for {
			n, err := unix.Read(fd, b)
			if err == unix.EINTR || err == unix.ENOENT {
				continue
			}
			if err != nil || n < 40 {
				return
			}
			op, unique, node := binary.NativeEndian.Uint32(b[4:]), binary.NativeEndian.Uint64(b[8:]), binary.NativeEndian.Uint64(b[16:])
			if answered(op) {
				reply(fd, op, unique, node, string(b[40:n]))
			}
		}
	}()
	return dir
}

const (
	opLookup, opGetattr, opOpen, opRead, opStatfs, opRelease, opFlush, opInit, opOpendir = 1, 3, 14, 15, 17, 18, 25, 26, 27
)

func reply(fd int, op uint32, unique, node uint64, body string) {
	ne := binary.NativeEndian
	attr := func(node uint64) []byte {
		b := make([]byte, 88)
		ne.PutUint64(b, node)
		ne.PutUint64(b[8:], uint64(len(fuseContent)))
		ne.PutUint32(b[60:], unix.S_IFREG|0o444)
		if node == 1 {
			ne.PutUint32(b[60:], unix.S_IFDIR|0o755)
		}
		ne.PutUint32(b[64:], 1)
		return b
	}
	var out []byte
	failure := int32(0)
	switch op {
	case opInit:
		out = make([]byte, 64)
		ne.PutUint32(out, 7)
		ne.PutUint32(out[4:], 31)
		ne.PutUint32(out[20:], 1<<16)
	case opLookup:
		if strings.TrimRight(body, "\x00") != "file" {
			failure = -int32(unix.ENOENT)
			break
		}
		out = append(append(ne.AppendUint64(nil, 2), make([]byte, 32)...), attr(2)...)
	case opGetattr:
		out = append(make([]byte, 16), attr(node)...)
	case opOpen, opOpendir:
		out = make([]byte, 16)
	case opRead:
		if ne.Uint64([]byte(body)[8:]) == 0 {
			out = []byte(fuseContent)
		}
	case opStatfs:
		out = make([]byte, 80)
	case opFlush, opRelease:
	default:
		failure = -int32(unix.ENOSYS)
	}
	head := ne.AppendUint32(nil, uint32(16+len(out)))
	head = ne.AppendUint32(head, uint32(failure))
	unix.Write(fd, append(ne.AppendUint64(head, unique), out...))
}

// again forgets that file systems did not respond.
func again() {
	helper.mu.Lock()
	helper.resume, helper.pause = time.Time{}, 0
	helper.mu.Unlock()
}

// Files of FUSE are not refused: the helper process copies them.
func TestFUSE(t *testing.T) {
	dir := fuse(t, func(uint32) bool { return true })
	f, err := Open(dir + "/file")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if b, err := io.ReadAll(f); string(b) != fuseContent || err != nil {
		t.Errorf("content %q, %v", b, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil || fs.Type == 0x65735546 {
		t.Errorf("the file itself was returned: reading or closing it may wait")
	}
	for _, c := range []struct{ root, path string }{{dir, "file"}, {"", "/proc/self/root" + dir + "/file"}} {
		if f, err := OpenSame(c.root, c.path, 2); err != nil {
			t.Errorf("%s: %v", c.path, err)
		} else {
			f.Close()
		}
	}
	if f, err := OpenSame("", dir+"/file", 3); err == nil {
		t.Error("a file with another inode number was opened")
		f.Close()
	}
	if _, err := Open(dir + "/none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if !Exists(dir+"/file") || Exists(dir+"/none") {
		t.Error("Exists")
	}
	if path, err := Resolve("/", dir+"/file"); err != nil || path != dir+"/file" {
		t.Errorf("Resolve: %s, %v", path, err)
	}
}

// A server that stops to respond at any operation delays a query until the deadline, the next ones less.
func TestFUSEThatHangs(t *testing.T) {
	defer func(d time.Duration) { answerTime = d }(answerTime)
	answerTime = time.Second
	for _, at := range []struct {
		name string
		op   uint32
	}{{"lookup", opLookup}, {"getattr", opGetattr}, {"open", opOpen}, {"read", opRead}, {"flush", opFlush}} {
		again()
		dir := fuse(t, func(op uint32) bool { return op != at.op })
		start := time.Now()
		f, err := Open(dir + "/file")
		if at.name == "getattr" && err == nil { // the kernel has the attributes from the lookup
			f.Close()
			continue
		}
		if !errors.Is(err, ErrNoAnswer) {
			t.Errorf("%s: error = %v", at.name, err)
			f.Close()
		}
		if d := time.Since(start); d > 10*answerTime {
			t.Errorf("%s: took %v", at.name, d)
		}
		start = time.Now()
		if _, err := OpenIn(dir, "file"); !errors.Is(err, ErrNoAnswer) || time.Since(start) > answerTime*9/10 {
			t.Errorf("%s: the second time: %v after %v", at.name, err, time.Since(start))
		}
		if f, err := Open("/proc/self/exe"); err != nil { // other file systems are not affected
			t.Errorf("%s: another file: %v", at.name, err)
		} else {
			f.Close()
		}
	}
	again()
}
