// SPDX-License-Identifier: Apache-2.0

package export

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"btc/internal/arch"
	"btc/internal/manifest"
)

// TestGadgetPrograms checks that programs that Inspektor Gadget cannot attach are disabled, and that
// programs on the clock have a frequency.
func TestGadgetPrograms(t *testing.T) {
	m := &manifest.Manifest{Programs: []manifest.Program{
		{Name: "a", Kind: "kprobe", Section: "kprobe/vfs_read"},
		{Name: "b", Kind: "kprobe", Section: "kprobe", Attach: manifest.Attach{Text: "kprobe:vfs_*"}},
		{Name: "c", Kind: "begin", Section: "raw_tp", Attach: manifest.Attach{Text: "begin"}},
		{Name: "d", Kind: "profile", Section: "perf_event/d", Attach: manifest.Attach{Text: "profile:ms:10", Unit: "ms", Count: 10}},
		{Name: "e", Kind: "profile", Section: "perf_event", Attach: manifest.Attach{Text: "profile:s:3", Unit: "s", Count: 3}},
		{Name: "f", Kind: "rawtracepoint", Section: "tp_btf/sched_switch"},
	}}
	text, left := gadgetPrograms(m, nil)
	const want = `  b:
    attach_to: gadget_program_disabled
  c:
    attach_to: gadget_program_disabled
  d:
    perf:
      type: software
      config: count_sw_cpu_clock
      sampleType: sample_raw
    sampler:
      frequency: 100
  e:
    attach_to: gadget_program_disabled
`
	if text != want || len(left) != 3 {
		t.Errorf("%s\n%q", text, left)
	}
	open := manifest.Program{Name: "g", Kind: "tracepoint", Section: "tracepoint/syscalls/sys_enter_open",
		Attach: manifest.Attach{Text: "tracepoint:syscalls:sys_enter_open", Target: "syscalls", Name: "sys_enter_open"}}
	m.Programs = []manifest.Program{open}
	for name, off := range map[string]bool{"x86_64": false, "arm64": true} {
		text, left := gadgetPrograms(m, arch.ByName(name))
		if (text != "") != off || (len(left) > 0) != off {
			t.Errorf("%s: %s\n%q", name, text, left)
		}
	}
}

// TestGadgetImage checks that each digest in an image belongs to exactly one of its files, and that the
// output is reproducible.
func TestGadgetImage(t *testing.T) {
	var before []byte
	for range 2 {
		files, err := GadgetImage([]byte("program"), []ArchMetadata{
			{"amd64", []byte("name: amd64")}, {"arm64", []byte("name: arm64")}}, "x", "host/x:1")
		if err != nil {
			t.Fatal(err)
		}
		archive, err := Tar(files)
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(before, archive) {
			t.Error("writing the image twice gives different bytes")
		}
		before = archive
	}
	content := map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(before))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if content[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if digest, ok := strings.CutPrefix(h.Name, "blobs/sha256/"); ok {
			if sum := sha256.Sum256(content[h.Name]); hex.EncodeToString(sum[:]) != digest {
				t.Errorf("%s: wrong digest", h.Name)
			}
		}
	}
	var index, image ociManifest
	read := func(name string, into *ociManifest) {
		t.Helper()
		if err := json.Unmarshal(content[name], into); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	blob := func(d descriptor) string {
		return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:")
	}
	read("index.json", &index)
	if ref := index.Manifests[0].Annotations["org.opencontainers.image.ref.name"]; ref != "host/x:1" {
		t.Errorf("name of the image = %q", ref)
	}
	read(blob(index.Manifests[0]), &index)
	var arches []string
	for _, m := range index.Manifests {
		arches = append(arches, m.Platform.Architecture)
		image = ociManifest{}
		read(blob(m), &image)
		if string(content[blob(image.Layers[0])]) != "program" ||
			string(content[blob(*image.Config)]) != "name: "+m.Platform.Architecture {
			t.Errorf("image for %s = %+v", m.Platform.Architecture, image)
		}
	}
	if !slices.Equal(arches, []string{"amd64", "arm64"}) {
		t.Errorf("architectures %q", arches)
	}
}

// TestGadgetParams checks that parameters have the values in the object.
func TestGadgetParams(t *testing.T) {
	m := &manifest.Manifest{
		Params: []manifest.Param{
			{Name: "$1", Type: "int", Global: "param_1"}, {Name: "$1", Type: "string", Global: "param_1_str"},
			{Name: "$2", Type: "int", Global: "param_2"}, {Name: "x", Type: "int", Global: "opt_x", Default: "4", Help: "how many"},
			{Name: "$#", Type: "int", Global: "param_count"},
		},
		Given: &manifest.Given{Values: []string{"7"}},
	}
	for _, p := range m.Params[:4] {
		m.Globals = append(m.Globals, manifest.Global{Name: "gadget_param_" + p.Global})
	}
	text := gadgetParams(m)
	for _, want := range []string{
		"param_1:\n      key: \"param1\"\n      defaultValue: \"7\"\n", "key: \"param1-string\"\n      defaultValue: \"7\"\n",
		"key: \"param2\"\n      defaultValue: \"0\"\n", "key: \"x\"\n      defaultValue: \"4\"\n      description: \"how many\"\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q not found in\n%s", want, text)
		}
	}
	if strings.Contains(text, "count") {
		t.Errorf("number of parameters exported as a parameter:\n%s", text)
	}
}

// TestHostValues checks that values that a loader must look up on the host are named: other loaders
// leave them 0.
func TestHostValues(t *testing.T) {
	m := &manifest.Manifest{
		Params: []manifest.Param{{Name: "$1", Type: "string", Global: "param_1_str"}},
		Globals: []manifest.Global{
			{Name: "a", Host: "cgroupid", TextFrom: "param_1_str"}, {Name: "b", Host: "kaddr", Text: "jiffies"},
			{Name: "c", Host: "kaddr_or_0", Text: "jiffies_64"}, {Name: "d"},
		},
	}
	const tail = `: it is 0, because only btrun and btrace look it up on the host`
	if have := hostValues(m); len(have) != 2 || have[0] != `cgroupid("$1")`+tail || have[1] != `kaddr("jiffies")`+tail {
		t.Errorf("HostValues = %q", have)
	}
}
