package attach

import "testing"

func TestWrapperName(t *testing.T) {
	for _, c := range [][3]string{
		{"__x64_sys_openat", "arm64", "__arm64_sys_openat"},
		{"__x64_sys_openat", "amd64", "__x64_sys_openat"},
		{"__arm64_sys_*", "amd64", "__x64_sys_*"},
		{"__x64_sys_openat", "riscv64", "__x64_sys_openat"},
		{"vfs_read", "arm64", "vfs_read"},
		{"__ia32_sys_openat", "arm64", "__ia32_sys_openat"},
	} {
		if got := wrapperName(c[0], c[1]); got != c[2] {
			t.Errorf("%s on %s: %s, want %s", c[0], c[1], got, c[2])
		}
	}
}

func TestForeignSyscall(t *testing.T) {
	for event, want := range map[string]bool{"sys_enter_openat": false, "sys_enter_nosuch": false, "sys_exit_read": false, "openat": false} {
		if got := foreignSyscall(event); got != want {
			t.Errorf("%s: %v", event, got)
		}
	}
}
