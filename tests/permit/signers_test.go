// SPDX-License-Identifier: Apache-2.0

package permit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSigners runs signed and unsigned objects under a policy that demands a signer, and with --verify.
func TestSigners(t *testing.T) {
	h := newPolicyHost(t)
	keys, err := filepath.Abs("../../cmd/btc/sign/testdata")
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := filepath.Abs("../../internal/signature/testdata")
	if err != nil {
		t.Fatal(err)
	}
	plain, ssh := filepath.Join(trusted, "plain.pub"), filepath.Join(h.dir, "allowed_signers")
	public, err := os.ReadFile(filepath.Join(trusted, "ssh.ed25519.pub"))
	if err != nil {
		t.Fatal(err)
	}
	line := "ann@example.com " + strings.Join(strings.Fields(string(public))[:2], " ")
	if err := os.WriteFile(ssh, []byte(line+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	object := func(script string, keyFiles ...string) string {
		t.Helper()
		path := h.object(t, script)
		for _, key := range keyFiles {
			if out, err := exec.Command(h.btc, "sign", "--key", filepath.Join(keys, key), path).CombinedOutput(); err != nil {
				t.Fatalf("%s: %s", key, out)
			}
		}
		return path
	}
	const hello = `begin { printf("hello\n"); exit(); }`
	unsigned, byMinisign, bySSH := object(hello), object(hello, "plain.key"), object(hello, "ssh.ed25519")
	both := object(hello, "plain.key", "ssh.ed25519")
	swapped := object(`begin { printf("other\n"); exit(); }`)
	signature, err := os.ReadFile(byMinisign + ".minisig")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(swapped+".minisig", signature, 0o644); err != nil {
		t.Fatal(err)
	}
	demands := "{\n \"signers\": [\"RWSM1hI4eCxdpGD6fOMy5QCEoZJZ378YKgwTZeaJjJIdXxCd9sxMapU7\"]\n}"
	for _, c := range []struct {
		policy string
		says   string // "": it prints hello
		args   []string
	}{
		{`{}`, "", []string{unsigned}},
		{demands, "not signed: sign it: btc sign --key FILE " + unsigned + " (/etc/btrun/policy.json:2 demands a signature)", []string{unsigned}},
		{demands, "", []string{byMinisign}},
		{demands, "", []string{"--verify", plain, byMinisign}},
		{demands, "signed by an unknown signer: SHA256:", []string{bySSH}},
		{demands, "signed by an unknown signer: SHA256:", []string{both}}, // each signature counts
		{demands, "", []string{"--verify", ssh, both}},
		{demands, "not signed by everyone who must: minisign:", []string{"--verify", ssh, byMinisign}},
		{demands, "signed by everyone who must: ann@example.com (SHA256:", []string{"--verify", ssh, bySSH}},
		{demands, "a signature of another object, or " + swapped + " was altered", []string{swapped}},
		{`{"signers": []}`, "signed by an unknown signer: minisign:", []string{byMinisign}},
		{`{}`, "", []string{"--verify", plain, byMinisign}},
		{`{}`, "", []string{"--verify", plain, "--verify", ssh, both}},
		{`{}`, "not signed", []string{"--verify", plain, unsigned}},
		{`{}`, "--verify: open /none: no such file", []string{"--verify", "/none", byMinisign}},
		{`{}`, "invalid content, which is not shown", []string{"--verify", byMinisign, byMinisign}},
	} {
		for _, mode := range []string{"", "--dry-run", "stream"} {
			args := append([]string{h.btrun}, c.args...)
			says := c.says
			switch {
			case mode == "--dry-run":
				args = append(args, mode)
			case mode == "stream" && strings.HasPrefix(c.says, "--verify: ") || mode == "stream" && strings.Contains(c.says, "no file has") || c.args[len(c.args)-1] == swapped && mode == "stream":
				continue // the message names the file
			case mode == "stream":
				says = strings.Replace(says, "sign it: btc sign --key FILE "+unsigned, "send its signature before it", 1)
				path := c.args[len(c.args)-1]
				args = append([]string{"sh", "-c", `cat $(ls -r "$0".minisig "$0".sig "$0" 2>/dev/null) | "$@" -`, path, h.btrun}, c.args[:len(c.args)-1]...)
			}
			out, err := h.run(t, c.policy, "", args...)
			if strings.Contains(out, "Operation not permitted") {
				t.Skip("skipped: this machine does not let root load programs: ", out)
			}
			if ran := strings.Contains(out, "hello\n"); ran != (c.says == "" && mode != "--dry-run") || (err == nil) != (c.says == "") || !strings.Contains(out, says) {
				t.Errorf("%s %q: error = %v, want %q, got:\n%s", c.policy, args, err, says, out)
			}
		}
	}
	out, err := h.run(t, demands, "", h.btrun, "--inspect", unsigned)
	if err != nil || !strings.Contains(out, "refuses it: "+unsigned+": not signed") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = h.run(t, demands, "", h.btrun, "--inspect", byMinisign)
	if err != nil || !strings.Contains(out, byMinisign+".minisig: minisign:A45D2C783812D68C, verified") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = h.run(t, `{}`, "", h.btrun, "--inspect", "--verify", ssh, "-f", "json", bySSH)
	if err != nil || !strings.Contains(out, `"name": "ann@example.com"`) || !strings.Contains(out, `"state": "verified"`) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = h.run(t, `{}`, "", h.btrun, "--inspect", "--verify", ssh, unsigned); err == nil || !strings.Contains(out, "not signed") {
		t.Errorf("%v\n%s", err, out)
	}

	// btc decides in the same way, and each changed byte of the object is refused.
	if out, err := exec.Command(h.btc, "verify", "--keys", plain, byMinisign).CombinedOutput(); err != nil || string(out) != byMinisign+": signed by minisign:A45D2C783812D68C\n" {
		t.Errorf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(byMinisign)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(data); i += len(data)/20 + 1 { // loader/object tries every byte
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if err := os.WriteFile(byMinisign, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(h.btc, "verify", "--keys", plain, byMinisign).CombinedOutput(); err == nil {
			t.Errorf("byte %d: %s", i, out)
		}
	}
}
