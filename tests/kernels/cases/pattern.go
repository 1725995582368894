// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"regexp"
	"strings"
)

// Pattern turns one line of an expectation into a regular expression that matches a whole line. Text
// outside of {{ and }} matches itself. Between {{ and }} may be
//
//	{{int}} {{int NAME}}     a decimal integer, captured as NAME for "where:"
//	{{hex}}                  0x and lower-case hexadecimal digits
//	{{word}}                 one or more characters other than white space
//	{{any}}                  any text, also none
//	{{=KEY}}                 the value of KEY in the workload's report
//	{{/REGEXP/}}             a regular expression
//
// The line "..." matches any number of lines, also none. "{{=KEY}}" is left as a placeholder in the
// result, see fill.
func Pattern(line string) (string, error) {
	var re strings.Builder
	re.WriteString("^")
	for rest := line; rest != ""; {
		text, after, found := strings.Cut(rest, "{{")
		re.WriteString(regexp.QuoteMeta(text))
		if !found {
			break
		}
		item, tail, closed := strings.Cut(after, "}}")
		// Closing braces at the end belong to the regular expression: {{/a{2}/}}.
		for strings.HasPrefix(item, "/") && closed && !strings.HasSuffix(item, "/") {
			more, next, ok := strings.Cut(tail, "}}")
			item, tail, closed = item+"}}"+more, next, ok
		}
		if !closed {
			return "", fmt.Errorf("%q: {{ not closed by }}", line)
		}
		part, err := patternItem(item)
		if err != nil {
			return "", fmt.Errorf("%q: %w", line, err)
		}
		re.WriteString(part)
		rest = tail
	}
	re.WriteString("$")
	if _, err := regexp.Compile(re.String()); err != nil {
		return "", fmt.Errorf("%q: %w", line, err)
	}
	return re.String(), nil
}

func patternItem(item string) (string, error) {
	kind, name, named := strings.Cut(item, " ")
	switch {
	case item == "int":
		return `-?[0-9]+`, nil
	case kind == "int" && named:
		return fmt.Sprintf(`(?P<%s>-?[0-9]+)`, name), nil
	case item == "hex":
		return `0x[0-9a-f]+`, nil
	case item == "word":
		return `\S+`, nil
	case item == "any":
		return `.*`, nil
	case strings.HasPrefix(item, "=") && len(item) > 1:
		return mark(item[1:]), nil
	case len(item) > 2 && strings.HasPrefix(item, "/") && strings.HasSuffix(item, "/"):
		return "(?:" + item[1:len(item)-1] + ")", nil
	}
	return "", fmt.Errorf("unknown pattern {{%s}}", item)
}

// mark is the placeholder for a value of the report: it holds characters that no output has.
func mark(key string) string { return "\x01" + key + "\x02" }

// fill replaces the placeholders by the values of the report.
func fill(pattern string, report map[string]string) (string, error) {
	for {
		before, after, found := strings.Cut(pattern, "\x01")
		if !found {
			return pattern, nil
		}
		key, rest, _ := strings.Cut(after, "\x02")
		value, ok := report[key]
		if !ok {
			return "", fmt.Errorf("key %q is not in the workload's report", key)
		}
		pattern = before + regexp.QuoteMeta(value) + rest
	}
}
