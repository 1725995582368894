// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// programPackages are the packages: one for each program.
var programPackages = []struct{ name, section, summary, description string }{
	{"btc", "devel", "ahead-of-time compiler for bpftrace scripts", `
btc compiles scripts in the bpftrace language to BPF objects, on any machine.
The package btrun runs them.`},
	{"btrun", "utils", "loader for bpftrace scripts that btc compiled", `
btrun attaches a compiled script on any Linux since 5.10 and reports as bpftrace
does. It needs no compiler, headers or script. On x86_64 and arm64, it has
tools: "btrun --tools" lists them, and "btrun opensnoop" runs one.`},
}

// packages makes the packages of Debian and of RPM distributions.
func (r *release) packages() error {
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		for _, kind := range []string{"deb", "rpm"} {
			for i := range programPackages {
				if err := r.program(kind, p, i); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// program makes the package of a program.
func (r *release) program(kind string, p platform, number int) error {
	about := programPackages[number]
	arch, packager := p.deb, nfpm.Packager(deb.Default)
	name := fmt.Sprintf("%s_%s_%s.deb", about.name, r.tag(), p.deb)
	if kind == "rpm" {
		arch, packager = p.rpm, rpm.DefaultRPM
		name = fmt.Sprintf("%s-%s-1.%s.rpm", about.name, r.tag(), p.rpm)
	}
	contents, err := r.contents(kind, about.name, p)
	if err != nil {
		return err
	}
	info := &nfpm.Info{
		Name: about.name, Arch: arch, Platform: "linux", Version: r.number(), VersionSchema: "none", Release: "1",
		Section: about.section, Priority: "optional", Maintainer: r.maintainer, Description: about.summary + about.description, License: "Apache-2.0",
		MTime: r.time, DisableGlobbing: true, Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{Packager: r.maintainer, BuildHost: "localhost", Summary: about.summary}},
	}
	r.relate(kind, info)
	if kind == "deb" {
		info.Release = ""
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, kind); err != nil {
		return err
	}
	var b bytes.Buffer
	if err := packager.Package(info, &b); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return r.write(name, b.Bytes())
}

// relate sets the relations of a package: btc needs btrun of its version, and the files of btrun were in the package btc before.
func (r *release) relate(kind string, info *nfpm.Info) {
	switch o := &info.Overridables; {
	case info.Name == "btc" && kind == "deb":
		o.Depends = []string{"btrun (= " + r.number() + ")"}
	case info.Name == "btc":
		o.Depends = []string{"btrun = " + r.number() + "-1"}
	case kind == "deb":
		older := []string{"btc (<< " + r.number() + ")"}
		o.Replaces, o.Deb.Breaks = older, older
	default:
		o.Conflicts = []string{"btc < " + r.number() + "-1"}
	}
}

// contents returns the files of a program's package, which are written to the work directory.
func (r *release) contents(kind, program string, p platform) (files.Contents, error) {
	var all files.Contents
	dir, err := os.MkdirTemp(r.work, "contents")
	if err != nil {
		return nil, err
	}
	var failed error
	add := func(to string, data []byte, mode os.FileMode) {
		from := filepath.Join(dir, fmt.Sprint(len(all)))
		if err := os.WriteFile(from, data, 0o644); err != nil {
			failed = err
		}
		all = append(all, &files.Content{
			Source: from, Destination: to,
			FileInfo: &files.ContentFileInfo{Mode: mode, MTime: r.time, Owner: "root", Group: "root"},
		})
	}
	add("/usr/bin/"+program, r.binaries["linux/"+p.arch+"/"+program], 0o755)
	for _, page := range r.man {
		if strings.HasPrefix(page.name, "btrun") != (program == "btrun") {
			continue
		}
		data, err := gzipped(page.data)
		if err != nil {
			return nil, err
		}
		add("/usr/share/man/man"+page.name[len(page.name)-1:]+"/"+page.name+".gz", data, 0o644)
	}
	for _, c := range r.shells {
		shell, of := path.Split(c.name)
		if of != program {
			continue
		}
		to := map[string]string{"bash/": "/usr/share/bash-completion/completions/" + program, "fish/": "/usr/share/fish/vendor_completions.d/" + program + ".fish"}[shell]
		switch {
		case shell == "zsh/" && kind == "deb":
			to = "/usr/share/zsh/vendor-completions/_" + program
		case shell == "zsh/":
			to = "/usr/share/zsh/site-functions/_" + program
		}
		add(to, c.data, 0o644)
	}
	if program == "btrun" {
		for _, u := range r.units {
			add("/usr/lib/systemd/system/"+u.name, u.data, 0o644)
		}
		for _, f := range r.tools(p) {
			add("/usr/share/btc/tools/"+f.name, f.data, 0o644)
		}
		all = append(all, &files.Content{
			Destination: "/etc/btrun", Type: files.TypeDir,
			FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.time, Owner: "root", Group: "root"},
		})
	}
	for _, d := range r.docs {
		if d.name == "LICENSE" && kind == "deb" {
			d.name = "copyright"
		}
		add("/usr/share/doc/"+program+"/"+d.name, d.data, 0o644)
	}
	return all, failed
}
