// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"path"
	"slices"
)

// archives makes an archive of each platform.
func (r *release) archives() error {
	for _, p := range platforms {
		top := fmt.Sprintf("btc-%s-%s-%s", r.tag(), p.os, p.arch)
		var files []file
		add := func(dir string, list []file) {
			for _, f := range list {
				f.name = path.Join(top, dir, f.name)
				files = append(files, f)
			}
		}
		suffix := ""
		if p.os == "windows" {
			suffix = ".exe"
		}
		add("", []file{{"btc" + suffix, r.binaries[p.os+"/"+p.arch+"/btc"], 0o755}})
		if data := r.binaries[p.os+"/"+p.arch+"/btrun"]; data != nil {
			add("", []file{{"btrun", data, 0o755}})
			add("systemd", r.units)
		}
		add("tools", r.tools(p))
		add("", r.docs)
		add("man", r.man)
		add("completions", r.shells)
		pack, name := tarGz, top+".tar.gz"
		if p.os == "windows" {
			pack, name = zipped, top+".zip"
		}
		data, err := pack(r, files)
		if err != nil {
			return err
		}
		if err := r.write(name, data); err != nil {
			return err
		}
	}
	return nil
}

// tarGz packs files, with directories before what is in them.
func tarGz(r *release, files []file) ([]byte, error) {
	plain, err := tarOf(r, files)
	if err != nil {
		return nil, err
	}
	return gzipped(plain)
}

func tarOf(r *release, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	seen := map[string]bool{".": true, "/": true}
	for _, f := range files {
		var dirs []string
		for d := path.Dir(f.name); !seen[d]; d = path.Dir(d) {
			seen[d] = true
			dirs = append(dirs, d)
		}
		slices.Reverse(dirs)
		for _, d := range dirs {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: 0o755, ModTime: r.time, Format: tar.FormatUSTAR}); err != nil {
				return nil, err
			}
		}
		h := &tar.Header{
			Typeflag: tar.TypeReg,
			Name:     f.name,
			Mode:     f.mode,
			Size:     int64(len(f.data)),
			ModTime:  r.time,
			Format:   tar.FormatUSTAR,
		}
		if f.data == nil {
			h.Typeflag, h.Name = tar.TypeDir, f.name+"/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// gzipped compresses without a name or time of its own.
func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func zipped(r *release, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		part, err := w.CreateHeader(&zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: r.time})
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
