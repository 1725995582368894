// SPDX-License-Identifier: Apache-2.0

package safefile

import (
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// caller is the user on whose behalf queries find files; uid -1: this process's user, with its capabilities.
var caller = struct{ uid, gid int }{-1, -1}

// AsCaller calls f, in which files are found and opened with no more rights than the user who called this program:
// the one that sudo or pkexec names, or the real user of a program with file capabilities. For root itself it just
// calls f. For others it must not be called concurrently, nor while other goroutines open files.
func AsCaller(f func()) {
	uid, gid := callerIDs()
	if uid == 0 {
		f()
		return
	}
	caller.uid, caller.gid = uid, gid
	asCaller(f)
	caller.uid = -1
}

// HasCaller reports whether AsCaller opens files with the rights of another user.
func HasCaller() bool {
	uid, _ := callerIDs()
	return uid != 0
}

// callerIDs returns the user who called this program, and the group; 0: root itself.
func callerIDs() (uid, gid int) {
	uid, gid = os.Getuid(), os.Getgid()
	if uid != 0 {
		return uid, gid
	}
	for _, by := range []string{"SUDO_UID", "PKEXEC_UID"} {
		if n, err := strconv.ParseUint(os.Getenv(by), 10, 31); err == nil {
			uid, gid = int(n), int(n)
			if n, err := strconv.ParseUint(os.Getenv("SUDO_GID"), 10, 31); err == nil {
				gid = int(n)
			}
			break
		}
	}
	return uid, gid
}

// CallerHome returns the home directory of the user who called this program, "" if it is root itself, or not known.
func CallerHome() (home string) {
	if uid, _ := callerIDs(); uid != 0 {
		lines(userFiles+"/passwd", func(f []string) {
			if len(f) > 5 && f[2] == strconv.Itoa(uid) {
				home = f[5]
			}
		})
	}
	return home
}

// OfCaller reports whether nobody but root and the user who called this program can change a file, or which file is at its
// path.
func OfCaller(f *os.File) bool {
	path, err := PathOf(f)
	return err == nil && OfRootOrCaller(path)
}

// OfRootOrCaller is like OfRoot, for root and the user who called this program.
func OfRootOrCaller(path string) bool {
	uid, _ := callerIDs()
	return ofUsers(path, 0, uint32(uid))
}

// asCaller calls f in a thread with the caller's rights. Go has no call for the credentials of one thread.
func asCaller(f func()) {
	if caller.uid < 0 {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var old, less [2]unix.CapUserData
		groups, err := unix.Getgroups()
		if err != nil || unix.Capget(&head, &old[0]) != nil {
			return // f is not called, and the thread ends
		}
		if less = old; os.Getuid() == 0 {
			if unix.Setgroups(groupsOf(caller.uid)) != nil {
				return
			}
			unix.SetfsgidRetGid(caller.gid)
			unix.SetfsuidRetUid(caller.uid)
		}
		less[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_SYS_PTRACE
		if unix.Capset(&head, &less[0]) != nil {
			return
		}
		f()
		unix.SetfsuidRetUid(os.Geteuid())
		unix.SetfsgidRetGid(os.Getegid())
		if err = unix.Capset(&head, &old[0]); err == nil && os.Getuid() == 0 {
			err = unix.Setgroups(groups)
		}
		if err == nil {
			runtime.UnlockOSThread()
		}
	}()
	<-done
}

// groupsOf returns the supplementary groups of a user of this host's files (passwd(5), group(5)); users of other databases
// have none here. Package os/user is 20 KB.
func groupsOf(uid int) (groups []int) {
	name := ""
	lines(userFiles+"/passwd", func(f []string) {
		if n, err := strconv.Atoi(f[2]); err == nil && n == uid {
			name = f[0]
		}
	})
	lines(userFiles+"/group", func(f []string) {
		gid, err := strconv.Atoi(f[2])
		if name != "" && err == nil && slices.Contains(strings.Split(f[3], ","), name) && len(groups) < 1<<16 {
			groups = append(groups, gid)
		}
	})
	return groups
}

// lines calls visit with the fields of each line of a file of users.
func lines(path string, visit func(f []string)) {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) > 3 {
			visit(f)
		}
	}
}

// userFiles is a variable for tests.
var userFiles = "/etc"
