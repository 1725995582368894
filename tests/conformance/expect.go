// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// met returns an error that describes the difference if the output does not meet the expectation.
func (e expect) met(tests, output string, timestamp int64) error {
	switch e.mode {
	case "", "NONE":
		re := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(e.text) + `\s*$`)
		return found(re.MatchString(output), e)
	case "REGEX", "REGEX_NONE":
		re, err := regexp.Compile("(?m)" + repeats(e.text))
		if err != nil {
			return fmt.Errorf("regular expression not supported by Go: %w", err)
		}
		return found(re.MatchString(output), e)
	}
	b, err := os.ReadFile(filepath.Join(tests, e.text))
	if err != nil {
		return err
	}
	want, got := strings.TrimSpace(string(b)), strings.TrimSpace(output)
	if e.mode == "FILE" {
		if timestamp >= 0 {
			want = strftime(want, time.Unix(timestamp, 0))
		}
		return found(got == want, expect{"", "\n" + want})
	}
	wants, gots := []string{want}, strings.Split(got, "\n")
	if filepath.Ext(e.text) == ".ndjson" {
		wants = strings.Split(want, "\n")
	}
	if len(wants) != len(gots) {
		return fmt.Errorf("want %d lines of JSON:\n%s", len(wants), want)
	}
	for i := range wants {
		if err := sameJSON(wants[i], gots[i]); err != nil {
			return err
		}
	}
	return nil
}

var manyTimes = regexp.MustCompile(`(\[[^\]]*\]|\\?.)\{(\d{4,5})\}`)

// repeats rewrites X{5555}, more than Go's regular expressions allow, as a sequence of smaller
// repetitions.
func repeats(text string) string {
	return manyTimes.ReplaceAllStringFunc(text, func(s string) string {
		m := manyTimes.FindStringSubmatch(s)
		n, _ := strconv.Atoi(m[2])
		out := ""
		if n >= 1000 { // as many X{1000} as needed; not nested, because nested repetitions are limited, too
			out = strings.Repeat(m[1]+"{1000}", n/1000)
		}
		return fmt.Sprintf("%s%s{%d}", out, m[1], n%1000)
	})
}

func found(yes bool, e expect) error {
	switch none := strings.HasSuffix(e.mode, "NONE"); {
	case none && yes:
		return fmt.Errorf("unwanted: %s", e.text)
	case !none && !yes:
		return fmt.Errorf("want: %s", e.text)
	}
	return nil
}

func sameJSON(want, got string) error {
	var w, g any
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		return fmt.Errorf("invalid JSON in the expectation: %w", err)
	}
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		return fmt.Errorf("invalid JSON: %w", err)
	}
	if !reflect.DeepEqual(w, g) {
		return fmt.Errorf("want: %s", want)
	}
	return nil
}

// conversions are the strftime conversions used in the expected files.
var conversions = map[byte]string{'H': "15", 'M': "04", 'S': "05", 'Y': "2006", 'm': "01", 'd': "02", 'T': "15:04:05", 'F': "2006-01-02"}

func strftime(format string, t time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if layout, ok := conversions[at(format, i+1)]; ok && format[i] == '%' {
			b.WriteString(t.Format(layout))
			i++
			continue
		}
		b.WriteByte(format[i])
	}
	return b.String()
}

func at(s string, i int) byte {
	if i < len(s) {
		return s[i]
	}
	return 0
}
