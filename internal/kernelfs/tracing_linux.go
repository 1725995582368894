// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// ownTracefs opens tracefs once, as a detached mount: it is in no mount namespace, child processes do not inherit it,
// and the kernel removes it when this process ends.
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

// detached mounts a file system of a type outside any mount namespace
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
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC,
		unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsmount", err)
	}
	return fd, nil
}
