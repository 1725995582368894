// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"btc/cmd/btc/sign"
	"btc/internal/option"
	"btc/internal/signature"
	"btc/loader/diag"
	"btc/loader/object"
)

// maxKeyFile bounds files with secret keys and passwords.
const maxKeyFile = 64 << 10

func signCommand() *command {
	var o sign.Options
	var key, password string
	return &command{
		name: "sign", operands: "OBJECT.o ...", summary: "sign objects", files: []string{"o"},
		about: "The signature is over the object's file, and is written next to it: OBJECT.o.minisig with a key of minisign, and " +
			"OBJECT.o.sig with one of OpenSSH. minisign -V and ssh-keygen -Y verify accept it, and btrun --verify and a host's policy demand it.",
		options: option.Table{
			{Name: "key", Short: "k", Value: "FILE", To: &key,
				Help: "the secret key: of minisign, or an ed25519 key of OpenSSH; with a public key of OpenSSH, ssh-agent signs"},
			{Name: "password-file", Value: "FILE", To: &password,
				Help: "read the key's password from the first line of FILE, or of standard input (-); default: ask on the terminal"},
			{Name: "expires", Value: "TIME", To: &o.Expires,
				Help: "refuse the signature from TIME on (minisign only): 2030-12-31, 2030-12-31T12:00:00Z or seconds since 1970"},
			{Name: "comment", Value: "TEXT", To: &o.Comment, Help: "add TEXT to the trusted comment (minisign only)"},
		},
		examples: []example{
			{"btc sign --key ~/.minisign/minisign.key reads.o", "write reads.o.minisig"},
			{"btc sign --key ~/.ssh/id_ed25519 reads.o", "write reads.o.sig"},
		},
		run: func(line *option.Line) int {
			if err := signFiles(line.All(), key, password, o); err != nil {
				return fail("%s", diag.Printable(err.Error()))
			}
			return 0
		},
	}
}

// signFiles signs objects, all or none.
func signFiles(paths []string, key, password string, o sign.Options) error {
	switch {
	case key == "":
		return errors.New("no key: --key FILE")
	case len(paths) == 0:
		return errors.New("no object to sign")
	}
	text, err := readBounded(key, maxKeyFile)
	if err != nil {
		return err
	}
	k, err := sign.ParseKey(text, func() ([]byte, error) { return readPassword(key, password) }, os.Getenv("SSH_AUTH_SOCK"))
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	trusted, err := signature.ParseKeys(k.Trusted())
	if err != nil {
		return err
	}
	var written []newFile
	for _, path := range paths {
		files, err := object.ReadFiles(path)
		if err != nil {
			return err
		}
		if _, err := files.Parse(); err != nil {
			return err
		}
		if !files.Joined() {
			return fmt.Errorf("%s: its manifest is a file of its own, which a signature would not cover: compile it again", path)
		}
		o.File, o.Now = filepath.Base(path), time.Now()
		text, err := k.Sign(files.Data, o)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		own := signature.File{Path: path + k.Extension, Text: text}
		if _, err := signature.Verify(path, files.Data, []signature.File{own}, [][]signature.Key{trusted}, o.Now); err != nil {
			return fmt.Errorf("the new signature is not valid; the key may be damaged: %w", err)
		}
		written = append(written, newFile{own.Path, text})
	}
	return writeFiles(written...)
}

// readPassword reads the password of a key, from a file or on the terminal.
func readPassword(key, path string) ([]byte, error) {
	if path != "" {
		text, err := []byte(nil), error(nil)
		if path == "-" {
			text, err = readAll(os.Stdin, "standard input", maxKeyFile)
		} else {
			text, err = readBounded(path, maxKeyFile)
		}
		line, _, _ := bytes.Cut(text, []byte("\n"))
		return bytes.TrimSuffix(line, []byte("\r")), err
	}
	in := int(os.Stdin.Fd())
	if !term.IsTerminal(in) {
		return nil, errors.New("the key is encrypted: name a file with its password, or - for standard input: --password-file FILE")
	}
	fmt.Fprintf(os.Stderr, "password of %s: ", key)
	defer fmt.Fprintln(os.Stderr)
	return term.ReadPassword(in)
}

// readBounded reads the file at path.
func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, path, limit)
}

// readAll reads what has a name in messages.
func readAll(r io.Reader, name string, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: larger than %d bytes", name, limit)
	}
	return data, err
}

func verifyCommand() *command {
	var keys []string
	return &command{
		name: "verify", operands: "OBJECT.o ...", summary: "verify the signatures of objects", files: []string{"o"},
		about: "It decides as btrun --verify does, on any machine: each signature file of an object, OBJECT.o.minisig and OBJECT.o.sig, must be valid, and there must be one.",
		options: option.Table{
			{Name: "keys", Short: "k", Value: "FILE", Repeat: true, To: &keys,
				Help: "trusted keys: a minisign public key, or OpenSSH's allowed_signers; may be repeated"},
		},
		examples: []example{{"btc verify --keys release.pub reads.o", "verify reads.o with reads.o.minisig"}},
		run: func(line *option.Line) int {
			trusted, err := trustedKeys(keys)
			if err != nil {
				return fail("%s", diag.Printable(err.Error()))
			}
			if len(line.All()) == 0 {
				return fail("no object to verify")
			}
			status := 0
			for _, path := range line.All() {
				var signers []signature.Signer
				o, err := object.Read(path)
				if err == nil {
					signers, err = o.Verify([][]signature.Key{trusted})
				}
				if err != nil {
					status = fail("%s", diag.Printable(err.Error()))
				}
				for i := range signers {
					fmt.Println(diag.Printable(path + ": signed by " + signers[i].String()))
				}
			}
			return status
		},
	}
}

// trustedKeys reads files with trusted keys.
func trustedKeys(paths []string) (all []signature.Key, err error) {
	if len(paths) == 0 {
		return nil, errors.New("no keys: --keys FILE")
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		keys, err := signature.ParseKeys(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", path, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}
