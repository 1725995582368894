// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const description = `ahead-of-time compiler and loader for bpftrace scripts
btc compiles scripts in the bpftrace language to BPF objects, on any machine.
btrun attaches such an object on any Linux since 5.10 and reports as bpftrace
does. It needs no compiler, headers or script.`

// packages makes the packages of Debian and of RPM distributions.
func (r *release) packages() error {
	for _, p := range platforms {
		if p.os != "linux" {
			continue
		}
		for _, kind := range []string{"deb", "rpm"} {
			arch, packager := p.deb, nfpm.Packager(deb.Default)
			name := fmt.Sprintf("btc_%s_%s.deb", r.tag(), p.deb)
			if kind == "rpm" {
				arch, packager = p.rpm, rpm.DefaultRPM
				name = fmt.Sprintf("btc-%s-1.%s.rpm", r.tag(), p.rpm)
			}
			contents, err := r.contents(kind, p.arch)
			if err != nil {
				return err
			}
			info := &nfpm.Info{
				Name: "btc", Arch: arch, Platform: "linux", Version: r.number(), VersionSchema: "none", Release: "1",
				Section: "devel", Priority: "optional", Maintainer: r.maintainer, Description: description, License: "Apache-2.0",
				MTime: r.time, DisableGlobbing: true, Overridables: nfpm.Overridables{Contents: contents, RPM: nfpm.RPM{Packager: r.maintainer, BuildHost: "localhost", Summary: "ahead-of-time compiler and loader for bpftrace scripts"}},
			}
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
			if err := r.write(name, b.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// contents returns the files of a package, which are written to the work directory.
func (r *release) contents(kind, arch string) (files.Contents, error) {
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
	for _, program := range []string{"btc", "btrun"} {
		add("/usr/bin/"+program, r.binaries["linux/"+arch+"/"+program], 0o755)
	}
	for _, page := range r.man {
		data, err := gzipped(page.data)
		if err != nil {
			return nil, err
		}
		add("/usr/share/man/man"+page.name[len(page.name)-1:]+"/"+page.name+".gz", data, 0o644)
	}
	for _, c := range r.shells {
		shell, program := path.Split(c.name)
		to := map[string]string{"bash/": "/usr/share/bash-completion/completions/" + program, "fish/": "/usr/share/fish/vendor_completions.d/" + program + ".fish"}[shell]
		switch {
		case shell == "zsh/" && kind == "deb":
			to = "/usr/share/zsh/vendor-completions/_" + program
		case shell == "zsh/":
			to = "/usr/share/zsh/site-functions/_" + program
		}
		add(to, c.data, 0o644)
	}
	for _, u := range r.units {
		add("/usr/lib/systemd/system/"+u.name, u.data, 0o644)
	}
	all = append(all, &files.Content{
		Destination: "/etc/btrun", Type: files.TypeDir,
		FileInfo: &files.ContentFileInfo{Mode: 0o755, MTime: r.time, Owner: "root", Group: "root"},
	})
	for _, d := range r.docs {
		if d.name == "LICENSE" && kind == "deb" {
			d.name = "copyright"
		}
		add("/usr/share/doc/btc/"+d.name, d.data, 0o644)
	}
	return all, failed
}
