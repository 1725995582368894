// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"math"
	"strconv"
	"strings"

	"btc/internal/kernelfs"
	"btc/targets/targetfile"
)

// fields converts a parsed format file into records, without the common fields.
func fields(format *kernelfs.Format) []targetfile.Field {
	var all []targetfile.Field
	for _, f := range format.Fields {
		if !f.Common() {
			all = append(all,
				targetfile.Field{Name: f.Name, CType: f.CType, Offset: f.Offset, Size: f.Size, Signed: f.Signed})
		}
	}
	return all
}

// classes finds, for a tracepoint, the BTF struct that its record is made from. Events that share a
// DECLARE_EVENT_CLASS have a struct named after the class, but nothing in tracefs or BTF says which event belongs to
// which class. BTF has each class's struct, and its probe function, whose parameters are the event's.
type classes struct {
	btf     *btf
	byShape map[string][]string // layout of the record -> names of classes
	protos  map[string]string   // class -> parameter types
	events  map[string]string   // event -> parameter types
}

const (
	classStruct = "trace_event_raw_"       // struct of a class
	classProbe  = "trace_event_raw_event_" // function of a class
	eventProto  = "btf_trace_"             // typedef of an event's probe
)

func newClasses(b *btf) *classes {
	c := &classes{b, map[string][]string{}, map[string]string{}, map[string]string{}}
	for id := range b.types {
		t := &b.types[id]
		switch t.kind {
		case btfStruct:
			if name, ok := strings.CutPrefix(t.name, classStruct); ok {
				shape := c.shape(t)
				c.byShape[shape] = append(c.byShape[shape], name)
			}
		case btfFunc:
			if name, ok := strings.CutPrefix(t.name, classProbe); ok {
				c.protos[name] = c.proto(t.link)
			}
		case btfTypedef:
			if name, ok := strings.CutPrefix(t.name, eventProto); ok {
				c.events[name] = c.proto(b.at(b.strip(t.link)).link)
			}
		}
	}
	return c
}

// shape describes a class struct's own members as shapeOf does a format's.
func (c *classes) shape(t *btfType) string {
	var s shape
	for i := range t.vlen {
		name, typ, bit, _ := c.btf.member(t, i)
		if name != "ent" && name != "__data" {
			s.add(name, bit/8, c.btf.size(typ, 0))
		}
	}
	return s.String()
}

type shape struct{ strings.Builder }

func (s *shape) add(name string, offset, size int) {
	s.WriteString(name + "@" + strconv.Itoa(offset) + "+" + strconv.Itoa(size) + " ")
}

func shapeOf(fields []targetfile.Field) string {
	var s shape
	for _, f := range fields {
		s.add(targetfile.MemberName(f.Name, f.CType), f.Offset, f.Size)
	}
	return s.String()
}

// proto describes a prototype's parameter types, as BTF ids without qualifiers.
func (c *classes) proto(id uint32) string {
	t := c.btf.at(c.btf.strip(id))
	if t.kind != btfFuncProto {
		return ""
	}
	var s strings.Builder
	for i := range t.vlen {
		_, typ := c.btf.param(t, i)
		stars := 0
		for stars < 8 {
			typ = c.btf.strip(typ)
			if p := c.btf.at(typ); p.kind == btfPtr {
				stars++
				typ = p.link
				continue
			}
			break
		}
		s.WriteString(strconv.Itoa(int(typ)) + strings.Repeat("*", stars) + ",")
	}
	return s.String()
}

// find returns the name of the struct of an event's record, "" if BTF has none.
func (c *classes) find(event string, fields []targetfile.Field) string {
	best, bestRank := "", math.MinInt
	for _, class := range c.byShape[shapeOf(fields)] {
		rank := 0
		if want, have := c.events[event], c.protos[class]; want != "" && want == have {
			rank += 1 << 20
		}
		switch class {
		case event:
			rank += 1 << 21
		case event + "_template", event + "_class":
			rank += 1 << 16
		}
		if _, other := c.events[class]; other && class != event {
			rank -= 1 << 14 // more likely to belong to that event alone (TRACE_EVENT)
		}
		rank += common(event, class)
		if rank > bestRank || rank == bestRank && class < best {
			best, bestRank = class, rank
		}
	}
	if best == "" {
		return ""
	}
	return classStruct + best
}

// common returns the length of the common prefix of two names, first in words between underscores, then in letters.
func common(a, b string) int {
	n, parts := 0, 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		if a[n] == '_' {
			parts++
		}
		n++
	}
	return parts<<8 | n
}
