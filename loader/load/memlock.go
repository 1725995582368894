package load

import (
	"golang.org/x/sys/unix"

	"btc/loader/hostinfo"
)

// raiseMemlock lifts the process's limit of locked memory where the kernel counts
// the memory of maps and programs by it: before 5.11, and 64 KiB are usual. An
// error matters only when the kernel then refuses something: distributions have
// kernels that count otherwise and call themselves older.
func raiseMemlock() error {
	release, err := hostinfo.Release()
	if err != nil || !countsMemlock(release) {
		return err
	}
	all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	return unix.Prlimit(0, unix.RLIMIT_MEMLOCK, &all, nil)
}

// countsMemlock tells whether a kernel of a release may count BPF memory by the
// limit of locked memory; since 5.11 that of the control group counts.
func countsMemlock(release string) bool { return !kernelFrom(release, [2]int{5, 11}) }
