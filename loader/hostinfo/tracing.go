package hostinfo

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// mountedTracefs are the directories where tracefs is usually mounted; the second
// one is mounted by debugfs when it is first entered.
var mountedTracefs = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// ErrNoTracefs is that tracefs is not mounted and this process may not open it.
var ErrNoTracefs = errors.New("tracefs is not mounted at " + mountedTracefs[0] + " or " + mountedTracefs[1] +
	": mount -t tracefs tracefs " + mountedTracefs[0])

// ErrClosedTracefs is that this user may not read tracefs.
var ErrClosedTracefs = errors.New("tracefs may not be read by this user: run as root or with CAP_DAC_READ_SEARCH, or mount it with the option gid= of a group of yours")

// Tracefs returns a directory of this process in which tracefs is: where it is
// mounted, or else a mount that only this process has. The error is, or wraps,
// ErrNoTracefs or ErrClosedTracefs.
func Tracefs() (string, error) {
	result := error(nil)
	for _, dir := range mountedTracefs {
		switch err := isTracefs(dir); {
		case err == nil:
			return dir, nil
		case errors.Is(err, fs.ErrPermission):
			result = ErrClosedTracefs
		}
	}
	if result != nil {
		return "", result
	}
	return ownTracefs()
}

func isTracefs(dir string) error {
	_, err := os.Stat(dir + "/events")
	return err
}

// ownTracefs opens tracefs once, as a detached mount: no mount namespace has it,
// and the kernel removes it when this process ends. Programs that this process
// starts do not inherit it.
var ownTracefs = sync.OnceValues(func() (string, error) {
	fd, err := detached("tracefs")
	switch {
	case errors.Is(err, unix.ENODEV):
		return "", errors.New("this kernel has no tracefs (CONFIG_TRACING)")
	case errors.Is(err, unix.EPERM):
		return "", fmt.Errorf("%w (btrun opens it by itself with CAP_SYS_ADMIN)", ErrNoTracefs)
	case err != nil: // before 5.2, or a seccomp filter that does not know the calls
		return "", fmt.Errorf("%w (%w)", ErrNoTracefs, err)
	}
	dir := "/proc/self/fd/" + strconv.Itoa(fd)
	if err := isTracefs(dir); err != nil {
		unix.Close(fd)
		if errors.Is(err, fs.ErrPermission) {
			return "", ErrClosedTracefs
		}
		return "", fmt.Errorf("%w (%w)", ErrNoTracefs, err)
	}
	return dir, nil
})

// detached mounts a file system of a type without a place in any mount namespace
// (fsmount, 5.2; mount_namespaces(7)) and returns the descriptor of its root.
func detached(fstype string) (int, error) {
	ctx, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, os.NewSyscallError("fsconfig", err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsmount", err)
	}
	return fd, nil
}
