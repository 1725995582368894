// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"errors"
	"io/fs"
	"os"
)

// mountedTracefs are the directories where tracefs is usually mounted; the second
// one is mounted by debugfs when it is first entered.
var mountedTracefs = []string{"/sys/kernel/tracing", "/sys/kernel/debug/tracing"}

// ErrNoTracefs means that tracefs is not mounted and this process may not open it.
var ErrNoTracefs = errors.New("tracefs is not mounted at " + mountedTracefs[0] + " or " + mountedTracefs[1] +
	": mount -t tracefs tracefs " + mountedTracefs[0])

// ErrClosedTracefs means that this user may not read tracefs.
var ErrClosedTracefs = errors.New("tracefs may not be read by this user: run as root or with CAP_DAC_READ_SEARCH, or mount it with the option gid= and one of your groups")

// Tracefs returns a directory with tracefs: where it is mounted, or else a mount that is private to this process. The
// error is, or wraps, ErrNoTracefs or ErrClosedTracefs.
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
