// SPDX-License-Identifier: Apache-2.0

// Release makes what a release of btc consists of: static programs, archives, Debian and RPM
// packages, a container image, manual pages, completions, the notices of all modules, a bill of
// materials and checksums.
//
// It takes the version, the time of the commit and the directory of the tree, writes to an empty
// directory, and publishes nothing. The same tree and Go toolchain give the same bytes: all times
// are that of the commit, and nothing of the machine or of the directory is in the files.
//
// It is a separate module, so that the main module does not depend on what packaging needs.
package main

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"log"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// release is one release.
type release struct {
	root, out, work string
	version         string // as git describes it
	time            time.Time
	docs            []file // license, notices, README
	man             []file // manual pages
	shells          []file // completions, as bash/btc
	units           []file // units of systemd
	scripts         []file // scripts of the tools, and their index
	objects         []file // objects of the tools
	maintainer      string // maintainer of the packages: Name <address>
	binaries        map[string][]byte
}

// file is a file of an archive or package.
type file struct {
	name string
	data []byte
	mode int64
}

// platform is what programs are built for; deb and rpm are what packages call its architecture.
type platform struct{ os, arch, deb, rpm string }

// platforms are those of the release; btrun runs on Linux alone.
var platforms = []platform{
	{"linux", "amd64", "amd64", "x86_64"}, {"linux", "arm64", "arm64", "aarch64"}, {"linux", "riscv64", "riscv64", "riscv64"},
	{"darwin", "amd64", "", ""}, {"darwin", "arm64", "", ""}, {"windows", "amd64", "", ""}, {"windows", "arm64", "", ""},
}

func main() {
	log.SetFlags(0)
	r := &release{binaries: map[string][]byte{}}
	var seconds int64
	flag.StringVar(&r.root, "root", ".", "directory of the tree")
	flag.StringVar(&r.out, "out", "dist", "directory to write; what is in it is removed")
	flag.StringVar(&r.version, "version", "", "version, as git describe gives it")
	flag.Int64Var(&seconds, "time", 0, "time of the commit, in seconds since 1970")
	flag.StringVar(&r.maintainer, "maintainer", "", "maintainer of the packages, as Name <address>")
	only := flag.String("platforms", "",
		"make those of these platforms alone, such as linux/amd64, separated by commas; default: all")
	flag.Parse()
	if r.version == "" || seconds == 0 || flag.NArg() > 0 {
		log.Fatal("release: give -version and -time")
	}
	if err := r.checkMaintainer(); err != nil {
		log.Fatal("release: ", err)
	}
	if *only != "" {
		platforms = slices.DeleteFunc(platforms,
			func(p platform) bool { return !slices.Contains(strings.Split(*only, ","), p.os+"/"+p.arch) })
	}
	r.time = time.Unix(seconds, 0).UTC()
	if err := r.make(); err != nil {
		log.Fatalf("release: %v", err)
	}
}

func (r *release) make() (err error) {
	if r.root, err = filepath.Abs(r.root); err != nil {
		return err
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "btc-release"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"programs", r.buildAll}, {"notices", r.notices}, {"manual and completions", r.manual}, {"tools", r.compileTools}, {"archives", r.archives},
		{"packages", r.packages}, {"image", r.image}, {"bill of materials", r.materials}, {"checksums", r.checksums},
	} {
		begin := time.Now()
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		log.Printf("release: %s (%.1f s)", step.name, time.Since(begin).Seconds())
	}
	return nil
}

// checkMaintainer returns an error if the packages' maintainer has no mail address.
func (r *release) checkMaintainer() error {
	const how = "set MAINTAINER='Name <address>', or user.name and user.email of git"
	a, err := mail.ParseAddress(r.maintainer)
	if err != nil || a.Name == "" {
		return fmt.Errorf("the packages' maintainer is %q: %s", r.maintainer, how)
	}
	_, host, _ := strings.Cut(a.Address, "@")
	if !strings.Contains(host, ".") {
		return fmt.Errorf("the packages' maintainer %s has no address that others can write to: %s", r.maintainer, how)
	}
	r.maintainer = fmt.Sprintf("%s <%s>", a.Name, a.Address)
	return nil
}

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// number makes a package version from the output of git describe: 1.2.3 for a tag, and
// 1.2.3+4.gabc for a later commit. It begins with a digit, and later commits sort after earlier
// ones.
func (r *release) number() string {
	v := strings.TrimPrefix(r.version, "v")
	dirty := strings.HasSuffix(v, "-dirty")
	v = strings.TrimSuffix(v, "-dirty")
	if m := regexp.MustCompile(`^(\d.*)-(\d+)-(g[0-9a-f]+)$`).FindStringSubmatch(v); m != nil {
		v = m[1] + "+" + m[2] + "." + m[3]
	}
	if !regexp.MustCompile(`^\d+\.`).MatchString(v) { // a commit, without a tag before it
		v = "0.0.0~" + r.time.Format("20060102") + ".g" + v
	}
	if dirty {
		v += "+dirty"
	}
	return strings.ReplaceAll(v, "-", "~")
}

// tag returns the version in names of files and of the image.
func (r *release) tag() string { return strings.ReplaceAll(r.number(), "~", "-") }

func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines []string
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf("%x  %s\n", sha256.Sum256(data), e.Name()))
	}
	slices.Sort(lines)
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return r.write("SHA256SUMS", []byte(strings.Join(lines, "")))
}

// host returns the platform of this machine, whose btc prints manual pages and completions.
func host() string { return runtime.GOOS + "/" + runtime.GOARCH }
