// SPDX-License-Identifier: Apache-2.0

package tty

import (
	"slices"
	"strings"
	"testing"
)

func TestDecode(t *testing.T) {
	for text, want := range map[string][]Key{
		"q":                                     {'q'},
		"s r\t":                                 {'s', ' ', 'r', Tab},
		"\x1b[A\x1bOB":                          {Up, Down},
		"jk":                                    {Down, Up},
		"\x1b[5~\x1b[6~":                        {PageUp, PageDown},
		"\x1b[H\x1b[F\x1b[1~\x1b[8~":            {Home, End, Home, End},
		"\x1b[Zq":                               {BackTab, 'q'},
		"\x1b[1;5Cq":                            {'q'}, // Ctrl-Right
		"\x1b\x1bq":                             {'q'},
		"\x1b[":                                 nil,
		"\x1b":                                  nil,
		"\x00\x7f\xc3\xa4\r\n":                  nil,
		"\x1b[" + strings.Repeat("1", 20) + "q": {'1', '1', '1', '1', '1', '1', 'q'},
	} {
		var got []Key
		for b := []byte(text); len(b) > 0; {
			key, n := decode(b)
			if n == 0 {
				break
			}
			if b = b[n:]; key != NoKey {
				got = append(got, key)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
