// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"btc/internal/bundle"
	"btc/internal/manifest"
	"btc/loader/diag"
)

// Bundle returns what follows the loader in the running executable; nil if that is the loader alone.
func Bundle() (*bundle.Contents, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, unreadable(err, ownName())
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return bundle.Read(f, fi.Size())
}

// unreadable returns the error for an executable that cannot read itself, and was called by a name. Its user may execute but not
// read it (chmod 711), and whether it is a bundle cannot be known: a bundle would have another command line than its help says.
// The name decides: btrun, btrun-arm64 and so on are the loader alone, which needs nothing of the file. Without /proc, the loader
// reports what it needs.
func unreadable(err error, name string) error {
	if errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(name, "btrun") {
		return nil
	}
	return fmt.Errorf("cannot read this executable, which may contain an object: %w: chmod a+r it (or name it btrun if it is the loader alone)", err)
}

// ownName returns the name of the running executable.
func ownName() string { return filepath.Base(os.Args[0]) }

// complete prints the completions of a bundle.
func complete(c *bundle.Contents, args []string, stdout, stderr io.Writer) int {
	_, shell, attached := strings.Cut(args[0], "=")
	if !attached && len(args) > 1 {
		shell = args[1]
	}
	i := slices.Index(bundle.Shells[:], shell)
	if i < 0 {
		fmt.Fprintf(stderr, "btrun: no completions for %q: expected bash, zsh or fish\n", shell)
		return 1
	}
	stdout.Write(c.Completions[i])
	return 0
}

// bundleUsage prints the head of a bundle's help: what the script says about itself, and how to call it.
func bundleUsage(stdout io.Writer, m *manifest.Manifest) {
	if text := description(m.Script.Source); text != "" {
		fmt.Fprintf(stdout, "%s\n\n", text)
	}
	fmt.Fprintf(stdout, "usage: %s [options] [parameter ...] [-- --name=value ...]\n\n", diag.Printable(ownName()))
}

// description returns the first paragraph of the comment at the beginning of a script, after a #! line and a license.
func description(source string) string {
	var lines []string
	inside := false // of /* */
	for line := range strings.Lines(source) {
		text := strings.TrimSpace(line)
		switch {
		case inside && !strings.HasPrefix(text, "*/"):
			text = strings.TrimPrefix(text, "*")
		case inside:
		case strings.HasPrefix(text, "//"):
			text = text[2:]
		case strings.HasPrefix(text, "/*"):
			inside, text = true, strings.TrimLeft(text[2:], "*")
		case strings.HasPrefix(text, "#!") && len(lines) == 0, text == "" && len(lines) == 0:
			continue
		default:
			return strings.Join(lines, "\n")
		}
		if inside {
			before, _, ends := strings.Cut(text, "*/")
			inside, text = !ends, before
		}
		text = strings.TrimSpace(text)
		switch {
		case strings.HasPrefix(text, "SPDX-"), strings.HasPrefix(text, "Copyright"), text == "" && len(lines) == 0:
		case text == "":
			return strings.Join(lines, "\n")
		default:
			lines = append(lines, diag.Printable(text))
		}
	}
	return strings.Join(lines, "\n")
}
