// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// MergeParams merges the parameters given at compile time with the user's. Those compiled into the code cannot change
// any more.
func MergeParams(m *Manifest, positional []string, named map[string]string) ([]string, map[string]string, error) {
	g := m.Given
	if g == nil {
		return positional, named, nil
	}
	params := slices.Clone(g.Values)
	if len(positional) > len(params) {
		params = append(params, positional[len(params):]...)
	}
	copy(params, positional)
	for _, n := range g.Fixed {
		if params[n-1] != g.Values[n-1] {
			return nil, nil, fmt.Errorf("parameter $%d was compiled in as %q and cannot be %q: compile the script again",
				n, g.Values[n-1], params[n-1])
		}
	}
	options := maps.Clone(g.Options)
	if options == nil {
		options = map[string]string{}
	}
	maps.Copy(options, named)
	for _, name := range g.FixedOptions {
		if options[name] != g.Options[name] {
			return nil, nil, fmt.Errorf("option --%s was compiled in as %q and cannot be %q: compile the script again",
				name, g.Options[name], options[name])
		}
		delete(options, name)
	}
	return params, options, nil
}

// SplitParams splits the words after "--" into positional parameters and values of options: --name=value, or --name value
// where takesValue reports that the option is not a bool. A bare --name has the value "true".
func SplitParams(words []string, takesValue func(name string) bool) (positional []string, named map[string]string) {
	named = map[string]string{}
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		name, isNamed := strings.CutPrefix(word, "--")
		if !isNamed {
			positional = append(positional, word)
			continue
		}
		name, value, given := strings.Cut(name, "=")
		switch {
		case given:
		case len(words) > 0 && !strings.HasPrefix(words[0], "--") && takesValue(name):
			value, words = words[0], words[1:]
		default:
			value = "true"
		}
		named[name] = value
	}
	return positional, named
}

// TakesValue reports whether the script has an option of that name that is not a bool.
func (m *Manifest) TakesValue(name string) bool {
	for i := range m.Params {
		if p := &m.Params[i]; p.Name == name {
			return p.Type != "bool"
		}
	}
	return false
}

// MissingParams returns the positional parameters without a value, without duplicates: those that the script reads as
// numbers, which are 0 (also if the value is empty), and those that it reads as strings, which are "", unless it also
// reads $#.
func MissingParams(m *Manifest, positional []string) []*Param {
	var out []*Param
	counts := slices.ContainsFunc(m.Params, func(p Param) bool { return p.Name == "$#" })
	for i := range m.Params {
		p := &m.Params[i]
		n := p.number()
		if n == 0 || p.Default != "" || slices.ContainsFunc(out, func(q *Param) bool { return q.Name == p.Name }) {
			continue
		}
		given := n <= len(positional)
		if p.Type == "int" && !(given && positional[n-1] != "") || p.Type == "string" && !given && !counts {
			out = append(out, p)
		}
	}
	return out
}

// UnusedParams returns the positional parameters, from the first on, that the script does not read.
func UnusedParams(m *Manifest, positional []string) []string {
	last := 0
	for i := range m.Params {
		if m.Params[i].Name == "$#" {
			return nil
		}
		last = max(last, m.Params[i].number())
	}
	if m.Given != nil {
		last = max(last, len(m.Given.Values)) // the compiler has warned
	}
	return positional[min(last, len(positional)):]
}

// NotRead returns the words of a warning about parameters that the script does not read.
func NotRead(unused []string) string {
	if len(unused) == 1 {
		return fmt.Sprintf("the script does not read the parameter %q", unused[0])
	}
	return fmt.Sprintf("the script does not read the last %d parameters, from %q on", len(unused), unused[0])
}

// number returns the number of a positional parameter; 0 for others.
func (p *Param) number() int {
	text, ok := strings.CutPrefix(p.Name, "$")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return 0
	}
	return n
}

// ParseParams checks the user's parameters against the manifest's: positional ones by
// number, named ones by name. It returns the bytes of each global. A bare name has the
// value "true".
func ParseParams(m *Manifest, positional []string, named map[string]string) (map[string][]byte, error) {
	known, out := map[string]bool{}, map[string][]byte{}
	for i := range m.Params {
		p := &m.Params[i]
		text, given := "", false
		switch {
		case p.Name == "$#":
			text, given = strconv.Itoa(len(positional)), true
		case strings.HasPrefix(p.Name, "$"):
			n, err := strconv.Atoi(p.Name[1:])
			if err == nil && n >= 1 && n <= len(positional) {
				text = positional[n-1]
				given = text != "" || p.Type != "int" // an empty number is 0
			}
		default:
			known[p.Name] = true
			text, given = named[p.Name], hasKey(named, p.Name)
		}
		if !given {
			if p.Default == "" && p.Type != "ipv4" {
				continue // the object's default is 0 or ""
			}
			text = p.Default
		}
		b, err := paramBytes(p, text)
		if err != nil {
			return nil, err
		}
		out[p.Global] = b
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !known[name] {
			return nil, unexpected(m, known, named)
		}
	}
	return out, nil
}

// unexpected returns the error for options that the script does not have; it lists those that it has.
func unexpected(m *Manifest, known map[string]bool, named map[string]string) error {
	var wrong, have []string
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if !known[name] && name != "help" {
			wrong = append(wrong, "--"+name)
		}
	}
	if wrong != nil {
		for _, name := range slices.Sorted(maps.Keys(known)) {
			have = append(have, "--"+name)
		}
		if have == nil {
			//lint:ignore ST1005 bpftrace's words
			return fmt.Errorf("unexpected program command line options: %s\nHINT: no custom program options defined.",
				strings.Join(wrong, ", "))
		}
		return fmt.Errorf("unexpected program command line options: %s\nHINT: expected program options: %s",
			strings.Join(wrong, ", "), strings.Join(have, ", "))
	}
	text := "HINT: expected program options:"
	for i := range m.Params {
		if p := &m.Params[i]; known[p.Name] {
			text += "\n    --" + p.Name
			if p.Help != "" {
				text += ": " + strings.ReplaceAll(p.Help, "\n", " ")
			}
		}
	}
	return errors.New(text)
}

func hasKey(m map[string]string, k string) bool { _, ok := m[k]; return ok }

// parseIPv4 reads the dotted-decimal form of inet_pton(3). (net/netip would add 16 KB to btrun.)
func parseIPv4(text string) ([]byte, bool) {
	parts := strings.Split(text, ".")
	addr := make([]byte, 0, 4)
	for _, part := range parts {
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil || strconv.FormatUint(n, 10) != part { // no sign, no leading zero
			return nil, false
		}
		addr = append(addr, byte(n))
	}
	return addr, len(addr) == 4
}

func paramBytes(p *Param, text string) ([]byte, error) {
	switch p.Type {
	case "int":
		v, err := parseInt(text)
		if err != nil && p.Name[0] != '$' {
			return nil, fmt.Errorf("program command line option --%s invalid integer (value: %s)", p.Name, text)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %q is not a number", p.Name, text)
		}
		return Number(v, p.Size), nil
	case "sign": // 1 for a negative number
		if strings.HasPrefix(text, "-") {
			return Number(1, p.Size), nil
		}
		return Number(0, p.Size), nil
	case "ipv4":
		addr, ok := parseIPv4(text)
		if !ok {
			return nil, fmt.Errorf("parameter %s: %q is not an IPv4 address; for an IPv6 address, give the value when compiling the script",
				p.Name, text)
		}
		return addr, nil
	case "bool":
		switch strings.ToLower(text) {
		case "true", "1", "on", "yes", "":
			return Number(1, p.Size), nil
		case "false", "0", "off", "no":
			return Number(0, p.Size), nil
		}
		return nil, fmt.Errorf("program command line option --%s invalid boolean (value: %s)", p.Name, text)
	}
	if len(text) >= p.Size {
		return nil, fmt.Errorf("parameter %s: string too long: %d bytes (max %d)", p.Name, len(text), p.Size-1)
	}
	return append([]byte(text), make([]byte, p.Size-len(text))...), nil
}

// suffixes are the language's units of integers.
var suffixes = []struct {
	text  string
	scale uint64
}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}, {"d", 86400e9}}

// parseInt parses an integer in the language's syntax: decimal, 0x, 0b, octal with a leading 0, "_" between digits,
// exponent form 1e6, unit of time; a sign is allowed.
func parseInt(text string) (uint64, error) {
	s, negative := strings.CutPrefix(text, "-")
	if strings.ContainsAny(s, "+-") || s == "" || s[0] == '_' {
		return 0, strconv.ErrSyntax
	}
	v, err := parseUnsigned(s)
	if err != nil {
		return 0, err
	}
	if negative {
		if v > 1<<63 {
			return 0, strconv.ErrRange
		}
		v = -v
	}
	return v, nil
}

func parseUnsigned(s string) (uint64, error) {
	hex := strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X")
	scale := uint64(1)
	if !hex {
		for _, x := range suffixes {
			if head, ok := strings.CutSuffix(s, x.text); ok && head != "" && head[len(head)-1] >= '0' &&
				head[len(head)-1] <= '9' {
				s, scale = head, x.scale
				break
			}
		}
	}
	if mant, exp, ok := strings.Cut(s, "e"); ok && !hex {
		return parseExponent(mant, exp, scale)
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err != nil {
		return 0, err
	}
	return multiply(v, scale)
}

func parseExponent(mant, exp string, scale uint64) (uint64, error) {
	v, err := strconv.ParseUint(strings.ReplaceAll(mant, "_", ""), 10, 64)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(exp, 10, 8)
	if err != nil || n > 19 {
		return 0, strconv.ErrRange
	}
	for range n {
		if v, err = multiply(v, 10); err != nil {
			return 0, err
		}
	}
	return multiply(v, scale)
}

func multiply(a, b uint64) (uint64, error) {
	hi, lo := bits.Mul64(a, b)
	if hi != 0 {
		return 0, strconv.ErrRange
	}
	return lo, nil
}

// Number encodes a constant of size bytes as in the object.
func Number(v uint64, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, v)
	if size < 8 {
		return binary.LittleEndian.AppendUint32(nil, uint32(v))[:size]
	}
	return append(b, make([]byte, size-8)...)
}
