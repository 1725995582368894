// SPDX-License-Identifier: Apache-2.0

package conformance

import "strconv"

// value is the value of an expression in a test, as far as it is known.
type value struct {
	kind valueKind
	text string  // valueString, valueName: the name; valueTagged: the tag
	of   string  // valueName: the qualifier before the last ::
	list []value // valueList, valueTagged: the values in the braces
}

type valueKind uint8

const (
	valueUnknown valueKind = iota
	valueString
	valueNumber // as written in the source
	valueName   // a name, qualified or not
	valueList   // { a, b }
	valueTagged // Tag{ a, b }
)

func (v value) isString() bool { return v.kind == valueString }

// evaluator interprets the statements of one test. It tracks strings, lists of strings, and loops over
// them, and ignores everything else.
type evaluator struct {
	toks  []token
	vars  map[string]value
	calls map[string]bool // functions whose calls are reported
	found func(call)
}

// call is one call of a reported function.
type call struct {
	name string
	line int
	args []value
}

// block interprets the statements from i to end.
func (e *evaluator) block(i, end int) {
	for i < end {
		next := e.statement(i, end)
		if next <= i {
			next = i + 1
		}
		i = next
	}
}

// statement interprets one statement and returns the index after it.
func (e *evaluator) statement(i, end int) int {
	t := e.toks[i]
	switch {
	case t.is("{"):
		close := e.match(i)
		e.block(i+1, close)
		return close + 1
	case t.is("for") && e.toks[i+1].is("("):
		return e.loop(i)
	}
	stop := e.stop(i, end)
	e.declaration(i, stop)
	for j := i; j < stop; j++ {
		if e.toks[j].kind != tokenName || !e.calls[e.toks[j].text] || !e.toks[j+1].is("(") {
			continue
		}
		if j > i && e.toks[j-1].is("::") {
			continue
		}
		close := e.match(j + 1)
		e.found(call{e.toks[j].text, e.toks[j].line, e.list(j+2, close)})
		j = close
	}
	return stop + 1
}

// stop returns the index of the semicolon or the opening brace that ends the statement at i.
func (e *evaluator) stop(i, end int) int {
	for ; i < end; i++ {
		switch {
		case e.toks[i].is(";"):
			return i
		case e.toks[i].is("("), e.toks[i].is("["):
			i = e.match(i)
			if i+1 < end && e.toks[i+1].is("{") && e.toks[i].is(")") {
				return i // the body of an if or while
			}
		case e.toks[i].is("{"):
			i = e.match(i)
		}
	}
	return end
}

// match returns the index of the bracket that closes the one at i.
func (e *evaluator) match(i int) int {
	depth := 0
	for j := i; j < len(e.toks); j++ {
		switch t := e.toks[j]; {
		case t.is("("), t.is("{"), t.is("["):
			depth++
		case t.is(")"), t.is("}"), t.is("]"):
			if depth--; depth == 0 {
				return j
			}
		}
	}
	return len(e.toks) - 1
}

// declaration records `type name = value;`, `type name{ value };` and `name += value;`.
func (e *evaluator) declaration(i, stop int) {
	for j := i; j < stop; j++ {
		t := e.toks[j]
		switch {
		case t.is("=") && j > i && e.toks[j-1].kind == tokenName && !e.toks[j+1].is("="):
			e.vars[e.toks[j-1].text] = e.expr(j+1, stop)
			return
		case t.is("+") && j > i && e.toks[j+1].is("=") && e.toks[j-1].kind == tokenName:
			name := e.toks[j-1].text
			e.vars[name] = concat(e.vars[name], e.expr(j+2, stop))
			return
		case t.is("{") && j > i+1 && e.toks[j-1].kind == tokenName && e.match(j) == stop-1:
			if l := e.list(j+1, stop-1); len(l) == 1 {
				e.vars[e.toks[j-1].text] = l[0]
			}
			return
		case t.is("("), t.is("{"):
			return
		}
	}
}

// loop interprets `for (auto x : list) body`. The bodies of other loops are interpreted once.
func (e *evaluator) loop(i int) int {
	close := e.match(i + 1)
	body, after := close+1, e.stop(close+1, len(e.toks))
	if e.toks[body].is("{") {
		after = e.match(body)
	}
	colon := i + 2
	for colon < close && !e.toks[colon].is(":") {
		colon++
	}
	elements := []value{{}}
	var names []string
	if colon < close {
		names = loopNames(e.toks[i+2 : colon])
		if l := e.expr(colon+1, close); l.kind == valueList || l.kind == valueTagged {
			elements = l.list
		}
	}
	for _, v := range elements {
		for n, name := range names {
			e.vars[name] = part(v, n, len(names))
		}
		e.block(body, after+1)
	}
	return after + 1
}

// loopNames returns the variables of a range loop: one, or those of [a, b].
func loopNames(toks []token) []string {
	var names []string
	binding := false
	for _, t := range toks {
		if t.is("[") {
			binding, names = true, nil
		}
		if t.kind == tokenName {
			if !binding {
				names = nil
			}
			names = append(names, t.text)
		}
	}
	return names
}

func part(v value, n, of int) value {
	if of == 1 {
		return v
	}
	if (v.kind == valueList || v.kind == valueTagged) && n < len(v.list) {
		return v.list[n]
	}
	return value{}
}

// list evaluates expressions separated by commas.
func (e *evaluator) list(i, end int) []value {
	var out []value
	start := i
	for ; i < end; i++ {
		switch t := e.toks[i]; {
		case t.is("("), t.is("{"), t.is("["):
			i = e.match(i)
		case t.is(","):
			out = append(out, e.expr(start, i))
			start = i + 1
		}
	}
	if start < end {
		out = append(out, e.expr(start, end))
	}
	return out
}

// expr evaluates one expression: terms joined by +.
func (e *evaluator) expr(i, end int) value {
	v, i := e.term(i, end)
	for i < end && e.toks[i].is("+") {
		var w value
		w, i = e.term(i+1, end)
		v = concat(v, w)
	}
	if i != end {
		return value{}
	}
	return v
}

// term evaluates one term and returns the index after it.
func (e *evaluator) term(i, end int) (value, int) {
	if i >= end {
		return value{}, end
	}
	switch t := e.toks[i]; {
	case t.kind == tokenString:
		v := value{kind: valueString}
		for ; i < end && e.toks[i].kind == tokenString; i++ {
			v.text += e.toks[i].text
		}
		if i < end && e.toks[i].is("s") { // "..."s
			i++
		}
		return v, i
	case t.kind == tokenNumber:
		return value{kind: valueNumber, text: t.text}, i + 1
	case t.is("{"):
		close := e.match(i)
		return value{kind: valueList, list: e.list(i+1, close)}, close + 1
	case t.is("("):
		close := e.match(i)
		return e.expr(i+1, close), close + 1
	case t.kind == tokenName:
		return e.named(i, end)
	}
	return value{}, end
}

// named evaluates a variable, an enumerator, a tagged list or a call.
func (e *evaluator) named(i, end int) (value, int) {
	name, of := e.toks[i].text, ""
	for i++; i+1 < end && e.toks[i].is("::"); i += 2 {
		name, of = e.toks[i+1].text, name
	}
	if i < end && e.toks[i].is("<") { // std::vector<std::string>
		for i < end && !e.toks[i].is(">") {
			i++
		}
		i++
	}
	switch {
	case i < end && e.toks[i].is("{"):
		close := e.match(i)
		return value{kind: valueTagged, text: name, list: e.list(i+1, close)}, close + 1
	case i < end && e.toks[i].is("("):
		close := e.match(i)
		args := e.list(i+1, close)
		if len(args) == 1 && (name == "string" || name == "string_view" || name == "to_string") && (args[0].kind == valueString || args[0].kind == valueNumber) {
			return value{kind: valueString, text: args[0].text}, close + 1
		}
		return value{kind: valueTagged, text: name, list: args}, close + 1
	}
	if v, ok := e.vars[name]; ok {
		return v, i
	}
	return value{kind: valueName, text: name, of: of}, i
}

// concat returns a + b: a string if both are known strings.
func concat(a, b value) value {
	if a.kind == valueString && b.kind == valueString {
		return value{kind: valueString, text: a.text + b.text}
	}
	return value{}
}

// number returns the value of a number, or of true and false.
func (v value) number() (n int64, ok bool) {
	switch {
	case v.kind == valueName && v.text == "true":
		return 1, true
	case v.kind == valueName && v.text == "false":
		return 0, true
	case v.kind == valueNumber:
		n, err := strconv.ParseInt(v.text, 0, 64)
		return n, err == nil
	}
	return 0, false
}
