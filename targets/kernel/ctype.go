// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"
	"strconv"
	"strings"

	"btc/targets/targetfile"
)

// ParseType finds the type that a C type name without a declarator name means
// in the target's kernel: "struct sock *", "const char *", "unsigned long",
// "u32", "char[16]", "pid_t[2]". Qualifiers are ignored. ok is false for a name
// the target does not have and for text that is not such a type.
func (t *Target) ParseType(text string) (typ *Type, ok bool) {
	text = strings.TrimSpace(text)
	var dims []int
	for strings.HasSuffix(text, "]") {
		open := strings.LastIndexByte(text, '[')
		if open < 0 {
			return nil, false
		}
		n := 0
		if digits := strings.TrimSpace(text[open+1 : len(text)-1]); digits != "" {
			var err error
			if n, err = strconv.Atoi(digits); err != nil || n < 0 || n > 1<<20 {
				return nil, false
			}
		}
		dims = append(dims, n)
		text = strings.TrimSpace(text[:open])
	}
	stars := strings.Count(text, "*")
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' || r == '*' })
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(qualifiers[:], w) })
	typ, ok = t.baseType(words)
	if !ok {
		return nil, false
	}
	for range stars {
		typ = PointerTo(typ)
	}
	for _, n := range dims { // the last dimension is innermost
		typ = ArrayOf(typ, n)
	}
	return typ, true
}

var qualifiers = [...]string{"const", "volatile", "restrict", "__restrict", "__user", "__kernel", "__rcu", "__percpu"}

func (t *Target) baseType(words []string) (*Type, bool) {
	switch {
	case len(words) == 0:
		return nil, false
	case len(words) == 2 && words[0] == "struct":
		return t.Struct(words[1])
	case len(words) == 2 && words[0] == "union":
		return t.Union(words[1])
	case len(words) == 2 && words[0] == "enum":
		return t.Enum(words[1])
	case len(words) == 1 && words[0] == "void":
		return t.ref(0), true
	case len(words) == 1 && words[0] == "bool":
		return t.Base("_Bool")
	}
	if name, ok := intName(words); ok {
		return t.Base(name)
	}
	if len(words) == 1 {
		if typ, ok := t.Typedef(words[0]); ok {
			return typ, true
		}
		return t.Base(words[0])
	}
	return nil, false
}

// intName converts the words of a C integer type, in any order, to its name in BTF (DWARF).
func intName(words []string) (string, bool) {
	count := map[string]int{}
	for _, w := range words {
		count[w]++
	}
	for _, w := range words {
		switch w {
		case "signed", "unsigned", "char", "short", "int", "long":
		default:
			return "", false
		}
	}
	unsigned := count["unsigned"] > 0
	pick := func(signed, other string) (string, bool) {
		if unsigned {
			return other, true
		}
		return signed, true
	}
	switch {
	case count["char"] > 0 && count["signed"] > 0:
		return "signed char", true
	case count["char"] > 0:
		return pick("char", "unsigned char")
	case count["short"] > 0:
		return pick("short int", "short unsigned int")
	case count["long"] > 1:
		return pick("long long int", "long long unsigned int")
	case count["long"] == 1:
		return pick("long int", "long unsigned int")
	}
	return pick("int", "unsigned int")
}

// TypeName finds the type that a bare name means in a cast; it tries, in this order:
// typedef, base type, struct, union, enum.
func (t *Target) TypeName(name string) (*Type, bool) {
	if typ, ok := t.baseType([]string{name}); ok {
		return typ, true
	}
	for _, k := range []targetfile.Kind{targetfile.Struct, targetfile.Union, targetfile.Enum} {
		if typ, ok := t.first(k, name); ok {
			return typ, true
		}
	}
	return nil, false
}
