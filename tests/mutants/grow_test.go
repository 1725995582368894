// SPDX-License-Identifier: Apache-2.0

package mutants

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"

	"btc/internal/manifest"
	"btc/loader/diag"
	"btc/loader/object"
	"btc/loader/permit"
	"btc/loader/sites"
)

var grown = flag.Int("grown", 150, "how many manifests and objects to make that are much larger")

// meter checks what single steps allocate in all.
type meter struct {
	t     *testing.T
	what  string
	bar   uint64
	most  uint64
	stage string
}

func (c *meter) run(stage string, f func()) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := processTime()
	f()
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	if used > c.most {
		c.most, c.stage = used, stage
	}
	if used > c.bar {
		c.t.Errorf("%s: %s allocated %d MiB", c.what, stage, used>>20)
	}
	if took := processTime() - begin; took > maxTime {
		c.t.Errorf("%s: %s took %v", c.what, stage, took)
	}
}

// TestGrown checks the memory and time of each step with manifests and objects whose lists, tables and strings are
// long, up to the limits of their sizes.
func TestGrown(t *testing.T) {
	objects := bases(t)
	quiet(t)
	accepted, parsed, most, stage := 0, 0, uint64(0), ""
	for i := range *grown {
		n := *seed + uint64(i)
		r := rand.New(rand.NewPCG(n, 2))
		b := objects[r.IntN(len(objects))]
		c := &meter{t: t, what: fmt.Sprintf("seed %d", n), bar: maxMemory}
		ok, whole := tryGrown(c, b, r)
		if ok {
			accepted++
		}
		if whole {
			parsed++
		}
		if c.most > most {
			most, stage = c.most, c.what+", "+c.stage
		}
		if t.Failed() {
			return
		}
		if i%20 == 0 {
			debug.FreeOSMemory()
		}
	}
	t.Logf("%d tried, %d valid manifests, %d valid objects; at most %d MiB (%s)", *grown, accepted, parsed, most>>20, stage)
}

func tryGrown(c *meter, b base, r *rand.Rand) (accepted, whole bool) {
	defer func() {
		if p := recover(); p != nil {
			c.t.Errorf("%s: panic: %v\n%s", c.what, p, debug.Stack())
		}
	}()
	m, err := manifest.Parse(b.manifest)
	if err != nil {
		c.t.Fatal(err)
	}
	limit := 1 << (10 + r.IntN(14))
	data := b.object
	if r.IntN(4) == 0 {
		data = GrowObject(data, limit, r)
	} else {
		Grow(m, min(limit, 15<<20), r)
		if r.IntN(3) == 0 {
			Mutate(m, r)
		}
	}
	sum := sha256.Sum256(data)
	m.Object = manifest.Object{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(data))}
	text, err := json.Marshal(m.File())
	if err != nil {
		c.t.Fatal(err)
	}
	if len(text) > manifest.MaxBytes {
		return false, false
	}
	c.what += fmt.Sprintf(" (manifest %d KiB, object %d KiB)", len(text)>>10, len(data)>>10)
	c.run("Parse", func() { m, err = manifest.Parse(text) })
	if err != nil {
		return false, false
	}
	for range 3 {
		if n := len(m.Errors); n > 0 {
			e := &m.Errors[r.IntN(n)]
			f := diag.Error{Script: &m.Script, Pos: e.Pos, Chain: e.Chain, Text: e.Text}
			c.run("Error", func() { _ = f.Error() })
			c.run("Message", func() { _ = f.Message("ERROR") })
			c.run("Brief", func() { _ = f.Brief("WARNING") })
			c.run("Painted", func() { _ = f.Painted("warning") })
		}
	}
	one := *m
	for range 3 {
		if n := len(m.Events); n > 0 {
			k := r.IntN(n)
			one.Events = m.Events[k : k+1]
			c.run("event "+m.Events[k].Kind, func() { events(&one, r) })
		}
		if n := len(m.Maps); n > 0 {
			k := r.IntN(n)
			one.Maps = m.Maps[k : k+1]
			c.run("map "+m.Maps[k].Shape, func() { maps(&one, r) })
		}
	}
	var o *object.Object
	c.run("object", func() { o, err = object.Parse(data, m) })
	if err != nil {
		return true, false
	}
	c.run("description", func() {
		d := permit.Describe(o, 128)
		d.Print(io.Discard)
	})
	c.run("JSON", func() { permit.Describe(o, 128).JSON() })
	c.run("permissions", func() { new(permit.Grants).Check(o) })
	c.run("parameters", func() {
		params, named, err := manifest.MergeParams(m, []string{"1", "text"}, nil)
		if err != nil {
			return
		}
		values, err := manifest.ParseParams(m, params, named)
		if err == nil && sites.Substitute(m, params) == nil {
			manifest.SubstituteStrings(m, values)
		}
	})
	return true, true
}
