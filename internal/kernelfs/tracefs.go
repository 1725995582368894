// SPDX-License-Identifier: Apache-2.0

package kernelfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Format is the content of a tracepoint's format file.
type Format struct {
	Name   string
	ID     int // the number for perf_event_open; differs between boots
	Fields []FormatField
}

// FormatField is one line of a format file.
type FormatField struct {
	Name   string
	CType  string // without the name: "char[16]", "__data_loc char[]", "const char *"
	Offset int    // bytes
	Size   int    // bytes
	Signed bool
}

// Common reports whether the field is one of those that all events have, which BPF programs cannot read.
func (f FormatField) Common() bool { return strings.HasPrefix(f.Name, "common_") }

// Tracepoint reads the format file of a tracepoint of the running kernel. The
// error is ErrNoTracefs, or fs.ErrNotExist wrapped if there is no such event.
func Tracepoint(category, event string) (*Format, error) {
	b, err := eventFile(category, event, "format")
	if err != nil {
		return nil, err
	}
	return ParseFormat(b)
}

// TracepointID reads the number of a tracepoint; errors as for Tracepoint.
func TracepointID(category, event string) (int, error) {
	b, err := eventFile(category, event, "id")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(b)))
}

func eventFile(category, event, file string) ([]byte, error) {
	if strings.ContainsAny(category+event, "/\x00") || category == "" || event == "" || category == ".." ||
		event == ".." {
		return nil, fmt.Errorf("tracepoint %s:%s: %w", category, event, fs.ErrNotExist)
	}
	dir, err := Tracefs()
	if err != nil {
		return nil, err
	}
	b, err := os.ReadFile(dir + "/events/" + category + "/" + event + "/" + file)
	var path *fs.PathError
	if errors.As(err, &path) { // the path may be valid only in this process
		return nil, fmt.Errorf("tracepoint %s:%s: %w", category, event, path.Err)
	}
	return b, err
}

// ParseFormat parses a format file. Unknown lines are skipped, an invalid field line is an
// error.
func ParseFormat(text []byte) (*Format, error) {
	f := &Format{}
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(string(line))
		switch {
		case strings.HasPrefix(s, "name:"):
			f.Name = strings.TrimSpace(s[len("name:"):])
		case strings.HasPrefix(s, "ID:"):
			f.ID, _ = strconv.Atoi(strings.TrimSpace(s[len("ID:"):]))
		case strings.HasPrefix(s, "field:"):
			field, err := parseField(s)
			if err != nil {
				return nil, err
			}
			f.Fields = append(f.Fields, field)
		}
	}
	return f, nil
}

// parseField reads "field:char comm[16];	offset:8;	size:16;	signed:0;".
func parseField(line string) (FormatField, error) {
	var f FormatField
	for part := range strings.SplitSeq(line, ";") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), ":")
		var err error
		switch key {
		case "field":
			f.Name, f.CType = splitDeclaration(value)
		case "offset":
			f.Offset, err = strconv.Atoi(value)
		case "size":
			f.Size, err = strconv.Atoi(value)
		case "signed":
			f.Signed = value != "0"
		}
		if err != nil {
			return f, fmt.Errorf("format line %q: %w", line, err)
		}
	}
	if f.Name == "" || f.Offset < 0 || f.Size < 0 {
		return f, fmt.Errorf("format line %q has no field", line)
	}
	return f, nil
}

// splitDeclaration splits "const char * name", "char comm[16]" or "__data_loc char[] name".
func splitDeclaration(decl string) (name, ctype string) {
	decl = strings.TrimSpace(decl)
	dims := ""
	if i := strings.IndexByte(decl, '['); i >= 0 && strings.HasSuffix(decl, "]") {
		decl, dims = strings.TrimSpace(decl[:i]), decl[i:]
	}
	i := strings.LastIndexAny(decl, " *\t")
	return decl[i+1:], strings.TrimSpace(decl[:i+1]) + dims
}
