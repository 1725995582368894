// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"btc/internal/signature"
	"btc/loader/object"
)

const (
	minisignKey = "RWSM1hI4eCxdpGD6fOMy5QCEoZJZ378YKgwTZeaJjJIdXxCd9sxMapU7"
	sshKey      = "ann@example.com ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICcDvELR8vKhO+lKagxYsmpZJIxwnfmUXa3zmqfzW5Bf"
)

// Keys are in the policy itself, or in files that only root can change.
func TestSigners(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("skipped: needs root")
	}
	dir, err := os.MkdirTemp("/root", "signers-") // all directories in the path must be root's
	if err != nil {
		t.Skip("skipped: ", err)
	}
	defer os.RemoveAll(dir)
	file := func(name, text string, mode os.FileMode, uid int) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), mode), os.Chmod(path, mode), os.Chown(path, uid, 0)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	both := file("keys", "untrusted comment: minisign public key\n"+minisignKey+"\n"+sshKey+"\n", 0o644, 0)
	for _, c := range []struct {
		entries []string
		keys    int
		says    string
	}{
		{[]string{}, 0, ""},
		{[]string{minisignKey}, 1, ""},
		{[]string{sshKey, minisignKey}, 2, ""},
		{[]string{strings.Replace(sshKey, " ", ` namespaces="btc",valid-before="20991231Z" `, 1)}, 1, ""},
		{[]string{both}, 2, ""},
		{[]string{both, sshKey}, 3, ""},
		{[]string{minisignKey + "\n" + sshKey}, 0, `:1: signers: expected one key, or the absolute path of a file with keys`},
		{[]string{"release.pub"}, 0, ":1: signers: \"release.pub\": not a public key of minisign, nor a line of OpenSSH's allowed_signers: NAME [OPTIONS] ssh-ed25519 KEY, or the absolute path of a file with keys"},
		{[]string{""}, 0, ":1: signers: no public keys, or the absolute path"},
		{[]string{"* cert-authority " + strings.SplitN(sshKey, " ", 2)[1]}, 0, "cert-authority is not supported"},
		{[]string{filepath.Join(dir, "none")}, 0, "no such file"},
		{[]string{file("bad", "\nxyz\n", 0o644, 0)}, 0, `/bad:2: "xyz": not a public key`},
		{[]string{file("group", minisignKey, 0o664, 0)}, 0, "can be written by others"},
		{[]string{file("user", minisignKey, 0o644, 5)}, 0, "belongs to user 5"},
		{[]string{dir}, 0, "is not a regular file"},
	} {
		text, _ := json.Marshal(map[string]any{"signers": c.entries})
		p, err := parse(text)
		switch {
		case c.says == "" && (err != nil || !p.Signed() || len(p.signers) != c.keys):
			t.Errorf("%q: %v, %v", c.entries, p, err)
		case c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), Path)):
			t.Errorf("%q: %v", c.entries, err)
		}
	}
}

// An object without a signature is refused by a policy with the key, even an empty one, and by keys of the caller, and neither
// lifts the other.
func TestDemands(t *testing.T) {
	keys, err := signature.ParseKeys(minisignKey)
	if err != nil {
		t.Fatal(err)
	}
	parsed := func(text string) *Policy {
		p, err := parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	o := &object.Object{Path: "x.o"}
	for _, c := range []struct {
		policy *Policy
		keys   []signature.Key
		says   string
	}{
		{nil, nil, ""},
		{parsed(`{}`), nil, ""},
		{parsed(`{}`), keys, "x.o: not signed"},
		{nil, []signature.Key{}, "x.o: not signed"},
		{parsed("{\n\"signers\": []}"), nil, "(/etc/btrun/policy.json:2 demands a signature)"},
		{parsed(fmt.Sprintf("{\"signers\": [%q]}", minisignKey)), nil, "(/etc/btrun/policy.json:1 demands a signature)"},
		{parsed(fmt.Sprintf("{\"signers\": [%q]}", minisignKey)), keys, "demands a signature"},
	} {
		_, err := c.policy.Verify(o, c.keys)
		var e *signature.Error
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !errors.As(err, &e) || e.Reason != signature.Unsigned) {
			t.Errorf("%+v, %d keys: %v", c.policy, len(c.keys), err)
		}
	}
}
