// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestSystemd runs Debian 12 with systemd in namespaces on this kernel, installs the package in it and uses the unit as
// an operator would (testdata/service.sh): it starts an object as a service, restarts it when it is killed or stuck,
// reloads it, and ends it with its maps printed.
func TestSystemd(t *testing.T) {
	deb, loader := one(t, "btc_*_"+runtime.GOARCH+".deb"), one(t, "btrun_*_"+runtime.GOARCH+".deb")
	needs(t, "debootstrap", "unshare", "mount", "pivot_root")
	root := systemdRoot(t)
	share := t.TempDir()
	for from, to := range map[string]string{deb: "btc.deb", loader: "btrun.deb", "testdata/service.sh": "service.sh"} {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(share, to), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(share, "top"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	args := []string{"--mount", "--pid", "--fork", "--kill-child", "--cgroup", "--uts", "--ipc", "sh", "testdata/systemd.sh"}
	log, err := exec.CommandContext(ctx, "unshare", append(args, root, share)...).CombinedOutput()
	result, readErr := os.ReadFile(filepath.Join(share, "result"))
	if readErr != nil {
		t.Fatalf("systemd did not run the script: %v\n%s", err, log)
	}
	for _, want := range []string{
		"enabled: enabled\n", `btc_execs_execs_total{object="execs",comm="sh"} `, "NoNewPrivs:\t1\n", "restarts: 1\n",
		"maps after the stop: yes\n", "after the reload: active The object was read again.\n",
		"after a reload that failed: active The last reload failed.\n", "watchdog: restarted\n", "broken.o: the object is damaged", "refused: exit-code\n", "\nexit 0\n",
	} {
		if !strings.Contains(string(result), want) {
			t.Errorf("%q is not in\n%s", want, result)
		}
	}
}

// systemdRoot returns a directory with a minimal Debian 12 whose init is systemd.
func systemdRoot(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(*roots, "systemd")
	if _, err := os.Stat(filepath.Join(dir, "usr/lib/systemd/systemd")); err == nil {
		return dir
	}
	args := []string{"--variant=minbase", "--include=systemd,systemd-sysv", "bookworm", dir}
	if out, err := exec.Command("debootstrap", args...).CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		t.Skipf("skipped: debootstrap: %v: %s", err, bytes.TrimSpace(out[max(0, len(out)-200):]))
	}
	return dir
}
