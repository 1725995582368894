// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServiceOptions checks that a policy keeps the options of services, which read and write files and send signals, from
// users who run btrun with sudo, and the file of --reload from other places than those of the policy.
func TestServiceOptions(t *testing.T) {
	h := newPolicyHost(t)
	hello := h.object(t, `begin { printf("hello %s\n", str($1)); exit(); }`)
	secret := filepath.Join(h.dir, "secret.conf")
	if err := os.WriteFile(secret, []byte("PARAMETERS=secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(h.dir, "target")
	const services, run = "are for services", "mkdir -p /run/btrun/x;"
	for _, c := range []struct {
		policy, setup, says string
		args                []string
	}{
		{`{}`, "export SUDO_UID=1234;", services, []string{"--reload=" + target, hello}},
		{`{}`, "export SUDO_UID=1234;", services, []string{"--reload", hello}},
		{`{}`, "export SUDO_UID=1234;", services, []string{"--request-reload=1", "--reload=" + target}},
		{`{}`, "export SUDO_UID=1234;", services, []string{"--parameters=" + secret, hello}},
		{`{"allow": []}`, "", "writing " + target + " is not permitted on this host", []string{"--reload=" + target, hello, "a"}},
		{`{"allow": []}`, run, "hello a\n", []string{"--reload=/run/btrun/x/result", hello, "a"}},
		{`{"allow": []}`, run + "ln -s " + h.dir + " /run/btrun/link;", "is not permitted on this host", []string{"--reload=/run/btrun/link/result", hello, "a"}},
		{`{}`, "", "hello secret\n", []string{"--parameters=" + secret, hello}},
	} {
		setup := c.setup
		if strings.Contains(setup, "/run") {
			setup = "mount -t tmpfs -o mode=755 none /run && " + setup
		}
		out, err := h.run(t, c.policy, setup, append([]string{h.btrun}, c.args...)...)
		if strings.Contains(out, "Operation not permitted") {
			t.Skip("skipped: this machine does not let root load programs: ", out)
		}
		if !strings.Contains(out, c.says) || (err == nil) != strings.HasPrefix(c.says, "hello") || err != nil && strings.Contains(out, "hello ") {
			t.Errorf("%s %q: error = %v, want %q, got:\n%s", c.policy, c.args, err, c.says, out)
		}
		if _, err := os.Lstat(target); err == nil {
			t.Fatalf("%q wrote the file", c.args)
		}
	}
}
