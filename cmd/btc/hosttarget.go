// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"btc/compile"
	"btc/frontend/diag"
	"btc/targets/capture"
	"btc/targets/kernel"
)

// hostOrDefault is the name of a target: this host's if it can be captured, else the embedded
// one of its architecture.
const hostOrDefault = "host or default"

// hostTarget returns the target of the running kernel. Capturing it takes a second, so it is cached in the user's
// cache directory until the kernel, its modules, the user or btc changes.
func hostTarget() (*kernel.Target, error) {
	path := hostCache()
	if path != "" && ownFile(path) {
		if t, err := kernel.Open(path); err == nil {
			return t, nil
		}
	}
	b, err := capture.HostFile()
	if err != nil {
		return nil, fmt.Errorf("cannot capture this host: %w", err)
	}
	if path != "" { // it is fine if the cache cannot be written
		dir := filepath.Dir(path)
		old, _ := filepath.Glob(filepath.Join(dir, "host-*.target"))
		if err := os.MkdirAll(dir, 0o700); err == nil && writeFiles(newFile{path, b}) == nil {
			for _, o := range old {
				if o != path {
					os.Remove(o)
				}
			}
		}
	}
	return kernel.New(b)
}

// hostCache returns the path of the cached target of this host; "" if it cannot be cached.
func hostCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	h := sha256.New()
	for _, file := range []string{"/proc/sys/kernel/version", "/proc/sys/kernel/osrelease"} {
		b, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		h.Write(b)
	}
	modules, _ := os.ReadFile("/proc/modules")
	for line := range strings.Lines(string(modules)) {
		name, _, _ := strings.Cut(line, " ")
		fmt.Fprintln(h, name)
	}
	_, tracefs := os.Stat("/sys/kernel/tracing/events")
	fmt.Fprintln(h, os.Geteuid(), tracefs == nil, version, program())
	return filepath.Join(dir, "btc", fmt.Sprintf("host-%x.target", h.Sum(nil)[:12]))
}

// program distinguishes builds of btc with the same version.
func program() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	fi, err := os.Stat(self)
	if err != nil {
		return ""
	}
	return fmt.Sprint(fi.Size(), fi.ModTime().UnixNano())
}

// withHost compiles a script that failed with the embedded types again with those of the running kernel, if they may
// be the reason. It returns the better result, and reports it.
func (s *scriptFlags) withHost(name, text string, out *compile.Output, diags *diag.List,
	quiet bool) (*compile.Output, *diag.List) {
	if out != nil || s.targets.given() || s.untrusted || !namesOfKernel(diags) {
		return out, diags
	}
	own := *s
	own.targets.files = []string{"host"}
	again, said, err := own.build(name, text)
	if err != nil || again == nil && errorsOf(said) >= errorsOf(diags) {
		return out, diags
	}
	if t, _, err := s.targets.open(); err == nil && again != nil && !quiet {
		fmt.Fprintf(os.Stderr,
			"btc: note: compiled with the types of this kernel: the embedded types of Linux %s lack names that the script uses\n",
			t.Release())
	}
	return again, said
}

func errorsOf(l *diag.List) int {
	n := 0
	for _, d := range l.Sorted() {
		if d.Severity() == diag.Error {
			n++
		}
	}
	return n
}

// namesOfKernel reports whether an error may be due to a name that the target lacks.
func namesOfKernel(l *diag.List) bool {
	for _, d := range l.Sorted() {
		switch d.Code {
		case diag.UnknownName,
			diag.UnknownType,
			diag.UnknownField,
			diag.BadAccess,
			diag.OutOfBounds,
			diag.BadCast,
			diag.NoArgs,
			diag.BadAttachPoint,
			diag.BadTarget,
			diag.TargetUnsupported:
			return true
		}
	}
	return false
}
