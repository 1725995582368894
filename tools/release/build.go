// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// goCommand runs the Go command in the tree.
func (r *release) goCommand(env []string, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = r.root
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOAMD64=v1"), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", args[0], err, stderr.String())
	}
	return out, nil
}

// noInline returns the compiler's flags for the packages that are not inlined, as in the Makefile.
func (r *release) noInline() ([]string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "tools/noinline.txt"))
	if err != nil {
		return nil, err
	}
	options, err := os.ReadFile(filepath.Join(r.root, "tools/noinline.flags"))
	var flags []string
	for _, pattern := range strings.Fields(string(text)) {
		flags = append(flags, "-gcflags="+pattern+"="+strings.TrimSpace(string(options)))
	}
	return flags, err
}

// linkFlags are the linker's flags for a platform, as in the Makefile.
func (r *release) linkFlags(p platform) (string, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "tools/ldflags."+p.os+"-"+p.arch))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return "-s -w -buildid= " + strings.TrimSpace(string(text)), err
}

// buildAll builds the programs of each platform: btrun first, because btc contains it.
func (r *release) buildAll() error {
	overlay := map[string]string{} // files of the tree that exist for the build of btc alone
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		tags, err := os.ReadFile(filepath.Join(r.root, "tools/btrun.tags"))
		if err != nil {
			return err
		}
		if err := r.build(p, "btrun", "-tags", strings.TrimSpace(string(tags))); err != nil {
			return err
		}
		name := "btrun-" + p.arch + ".gz"
		packed, err := compressed(r.binaries[p.os+"/"+p.arch+"/btrun"])
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(r.work, name), packed, 0o644); err != nil {
			return err
		}
		overlay[filepath.Join(r.root, "cmd/btc/loaders", name)] = filepath.Join(r.work, name)
	}
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return err
	}
	file := filepath.Join(r.work, "overlay.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return err
	}
	for _, p := range platforms {
		if err := r.build(p, "btc", "-tags", "loaders", "-overlay", file); err != nil {
			return err
		}
	}
	return nil
}

// build builds a program for a platform.
func (r *release) build(p platform, name string, options ...string) error {
	flags, err := r.noInline()
	if err != nil {
		return err
	}
	link, err := r.linkFlags(p)
	if err != nil {
		return err
	}
	out := filepath.Join(r.work, name)
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-o", out,
		"-ldflags", link + " -X main.version=" + strings.TrimPrefix(r.version, "v"),
	}
	args = append(append(append(args, options...), flags...), "./cmd/"+name)
	if _, err := r.goCommand([]string{"GOOS=" + p.os, "GOARCH=" + p.arch}, args...); err != nil {
		return err
	}
	data, err := os.ReadFile(out)
	r.binaries[p.os+"/"+p.arch+"/"+name] = data
	return err
}

// compressed returns data in gzip's format, without a name or a time.
func compressed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	return b.Bytes(), err
}

// module is a module as go list prints it.
type module struct {
	Path, Version, Dir, Sum string
	Main                    bool
}

// modules returns the modules that the programs are built from.
func (r *release) modules() ([]module, error) {
	seen := map[string]module{}
	for _, p := range platforms {
		out, err := r.goCommand([]string{"GOOS=" + p.os, "GOARCH=" + p.arch}, "list", "-deps", "-json=Module",
			"./cmd/btc", "./cmd/btrun")
		if err != nil && p.os == "linux" {
			return nil, err
		}
		dec := json.NewDecoder(bytes.NewReader(out))
		for {
			var pkg struct{ Module *module }
			if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if pkg.Module != nil && !pkg.Module.Main {
				seen[pkg.Module.Path] = *pkg.Module
			}
		}
	}
	var all []module
	for _, m := range seen {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// licenseNames are the names of license and notice files.
var licenseNames = []string{
	"LICENSE", "LICENSE.txt", "LICENSE.md", "LICENCE", "COPYING", "NOTICE", "NOTICE.txt", "AUTHORS",
}

// notices collects the licenses of all modules and of Go's standard library.
func (r *release) notices() error {
	all, err := r.modules()
	if err != nil {
		return err
	}
	root, err := r.goCommand(nil, "env", "GOROOT", "GOVERSION")
	if err != nil {
		return err
	}
	words := strings.Fields(string(root))
	all = append([]module{{Path: "Go standard library", Version: words[1], Dir: words[0]}}, all...)
	var text bytes.Buffer
	text.WriteString("The programs of btc contain code of these projects, under their licenses.\n")
	for _, m := range all {
		found := false
		for _, name := range licenseNames {
			data, err := os.ReadFile(filepath.Join(m.Dir, name))
			if err != nil {
				continue
			}
			found = found || !strings.HasPrefix(name, "AUTHORS")
			fmt.Fprintf(&text, "\n%s\n%s %s: %s\n%s\n\n%s\n", strings.Repeat("=", 80), m.Path, m.Version, name,
				strings.Repeat("=", 80), bytes.TrimSpace(data))
		}
		if !found {
			return fmt.Errorf("module %s has no file with a license", m.Path)
		}
	}
	for _, name := range []string{"LICENSE", "NOTICE", "README.md", "CHANGELOG.md", "SECURITY.md"} {
		data, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return err
		}
		r.docs = append(r.docs, file{name, data, 0o644})
	}
	const unit = "btrun@.service"
	data, err := os.ReadFile(filepath.Join(r.root, "tools/release", unit))
	if err != nil {
		return err
	}
	r.units = append(r.units, file{unit, data, 0o644})
	r.docs = append(r.docs, file{"THIRD-PARTY-NOTICES", text.Bytes(), 0o644})
	return r.write("THIRD-PARTY-NOTICES", text.Bytes())
}

// manual runs the btc built for this machine, which writes the manual pages and the completions.
func (r *release) manual() error {
	data := r.binaries[host()+"/btc"]
	if data == nil {
		return fmt.Errorf("%s is not a platform of the release, and btc must run to print its manual", host())
	}
	btc := filepath.Join(r.work, "btc-host")
	if err := os.WriteFile(btc, data, 0o755); err != nil {
		return err
	}
	dir := filepath.Join(r.work, "man")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if out, err := exec.Command(btc, "man", "--output-dir", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("btc man: %w\n%s", err, out)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, p := range pages {
		data, err := os.ReadFile(filepath.Join(dir, p.Name()))
		if err != nil {
			return err
		}
		r.man = append(r.man, file{p.Name(), data, 0o644})
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		for _, program := range []string{"btc", "btrun"} {
			out, err := exec.Command(btc, "completion", shell, "--program", program).Output()
			if err != nil {
				return fmt.Errorf("btc completion %s: %w", shell, err)
			}
			r.shells = append(r.shells, file{shell + "/" + program, out, 0o644})
		}
	}
	return nil
}

// toolArches are the architectures that the objects of the tools run on: those that btc compiles for by default (arch.Defaults),
// of which one object is for all; others are not among them.
var toolArches = []string{"amd64", "arm64"}

// compileTools compiles the tools, which are the examples that have a page in docs/tools, and writes their index.
func (r *release) compileTools() error {
	pages, err := filepath.Glob(filepath.Join(r.root, "docs/tools/*.md"))
	if err != nil {
		return err
	}
	dir := filepath.Join(r.work, "tools")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	var index bytes.Buffer
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if name == "README" {
			continue
		}
		script, err := os.ReadFile(filepath.Join(r.root, "examples", name+".bt"))
		if err != nil {
			return err
		}
		head, _, _ := strings.Cut(string(script), "\n")
		about, ok := strings.CutPrefix(head, "// "+name+": ")
		if !ok {
			return fmt.Errorf("%s.bt does not begin with // %s: and what it shows", name, name)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".bt"), script, 0o644); err != nil {
			return err
		}
		cmd := exec.Command(filepath.Join(r.work, "btc-host"), "compile", "--no-manifest", "--no-warnings", name+".bt")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("btc compile %s.bt: %w\n%s", name, err, out)
		}
		object, err := os.ReadFile(filepath.Join(dir, name+".o"))
		if err != nil {
			return err
		}
		fmt.Fprintf(&index, "%-15s %s\n", name, strings.TrimSuffix(about, "."))
		r.scripts = append(r.scripts, file{name + ".bt", script, 0o644})
		r.objects = append(r.objects, file{name + ".o", object, 0o644})
	}
	r.scripts = append(r.scripts, file{"index", index.Bytes(), 0o644})
	return nil
}

// tools returns the files of the tools for a platform.
func (r *release) tools(p platform) []file {
	if p.os == "linux" && slices.Contains(toolArches, p.arch) {
		return append(r.scripts[:len(r.scripts):len(r.scripts)], r.objects...)
	}
	return r.scripts
}
