// SPDX-License-Identifier: Apache-2.0

package cases

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// relation is "A OP B" between integers.
type relation struct {
	left, op, right string
}

var comparisons = map[string]func(a, b int64) bool{
	"==": func(a, b int64) bool { return a == b },
	"!=": func(a, b int64) bool { return a != b },
	"<":  func(a, b int64) bool { return a < b },
	"<=": func(a, b int64) bool { return a <= b },
	">":  func(a, b int64) bool { return a > b },
	">=": func(a, b int64) bool { return a >= b },
}

var relationForm = regexp.MustCompile(`^(.+?)\s+(==|!=|<=|>=|<|>)\s+(.+)$`)

func parseRelation(text string) (relation, error) {
	m := relationForm.FindStringSubmatch(text)
	if m == nil {
		return relation{}, fmt.Errorf("where: %q is not \"A OP B\"", text)
	}
	return relation{left: m[1], op: m[2], right: m[3]}, nil
}

func (j *checker) check(r relation) error {
	a, err := j.value(r.left)
	if err != nil {
		return err
	}
	b, err := j.value(r.right)
	if err != nil {
		return err
	}
	if !comparisons[r.op](a, b) {
		return fmt.Errorf("%s %s %s is false: %d and %d", r.left, r.op, r.right, a, b)
	}
	return nil
}

// value evaluates a literal, a capture, a key of the report or sum(TITLE).
func (j *checker) value(term string) (int64, error) {
	if n, err := strconv.ParseInt(term, 10, 64); err == nil {
		return n, nil
	}
	if n, ok := j.numbers[term]; ok {
		return n, nil
	}
	if s, ok := j.report[term]; ok {
		return strconv.ParseInt(s, 10, 64)
	}
	if title, ok := strings.CutPrefix(term, "sum("); ok && strings.HasSuffix(title, ")") {
		return sum(j.stdout, strings.TrimSuffix(title, ")"))
	}
	return 0, fmt.Errorf("%q is not a number, capture or key of the workload's report", term)
}

var (
	histRow  = regexp.MustCompile(`^[(\[][^|]*[)\]]\s+(\d+) \|`)
	mapValue = regexp.MustCompile(`: (-?\d+)$`)
)

// sum adds up the counts of all histograms and plain values of the maps whose printed name starts with
// title: sum(@size) those of "@size:" and its rows, sum(@[) those of all lines "@[key]: value",
// including keys of several lines such as stacks.
func sum(stdout, title string) (int64, error) {
	total, found, inside := int64(0), false, false
	for line := range strings.Lines(stdout) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "@") {
			inside = strings.HasPrefix(line, title)
			found = found || inside
		}
		if !inside {
			continue
		}
		m := histRow.FindStringSubmatch(line)
		if m == nil && (strings.HasPrefix(line, "@") || strings.HasPrefix(line, "]")) {
			m = mapValue.FindStringSubmatch(line)
		}
		if m == nil {
			continue
		}
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil {
			return 0, err
		}
		total += n
	}
	if !found {
		return 0, fmt.Errorf("sum(%s): no map with that name was printed", title)
	}
	return total, nil
}
