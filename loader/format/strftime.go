// SPDX-License-Identifier: Apache-2.0

package format

// strftime is implemented here, in less than 1 KB of btrun: a library for it adds 29 KB and lacks the language's
// conversions %f, %l and %k.

import (
	"strconv"
	"time"
)

// Strftime appends t in a format of C's strftime (C locale), with the
// language's own %f microseconds, %l milliseconds and %k nanoseconds.
// Unknown conversions are copied.
func Strftime(dst []byte, format string, t time.Time) []byte {
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' || i+1 == len(format) {
			dst = append(dst, c)
			continue
		}
		i++
		if (format[i] == 'E' || format[i] == 'O') && i+1 < len(format) {
			i++ // alternative forms are the same in the C locale
		}
		from := len(dst)
		dst = appendTime(dst, format[i], t)
		if unknown := len(dst) == from+2 && dst[from] == '%'; unknown && format[i-1] != '%' {
			dst = append(dst[:from], '%', format[i-1], format[i])
		}
	}
	return dst
}

// timeForms are the conversions that are short for others.
var timeForms = map[byte]string{
	'c': "%a %b %e %H:%M:%S %Y", 'D': "%m/%d/%y", 'F': "%Y-%m-%d", 'r': "%I:%M:%S %p",
	'R': "%H:%M", 'T': "%H:%M:%S", 'x': "%m/%d/%y", 'X': "%H:%M:%S", 'h': "%b",
	'n': "\n", 't': "\t", '%': "%",
}

func appendTime(dst []byte, c byte, t time.Time) []byte {
	if form, ok := timeForms[c]; ok {
		if c == '%' {
			return append(dst, '%')
		}
		return Strftime(dst, form, t)
	}
	switch c {
	case 'a':
		return append(dst, t.Weekday().String()[:3]...)
	case 'A':
		return append(dst, t.Weekday().String()...)
	case 'b':
		return append(dst, t.Month().String()[:3]...)
	case 'B':
		return append(dst, t.Month().String()...)
	case 'p', 'P':
		half := "AMPM"[t.Hour()/12*2:][:2]
		if c == 'P' {
			half = "ampm"[t.Hour()/12*2:][:2]
		}
		return append(dst, half...)
	case 's':
		return strconv.AppendInt(dst, t.Unix(), 10)
	case 'Y', 'G':
		year := t.Year()
		if c == 'G' {
			year, _ = t.ISOWeek()
		}
		return strconv.AppendInt(dst, int64(year), 10)
	case 'z':
		_, off := t.Zone()
		sign := byte('+')
		if off < 0 {
			sign, off = '-', -off
		}
		return digits(digits(append(dst, sign), off/3600, 2, '0'), off/60%60, 2, '0')
	case 'Z':
		name, _ := t.Zone()
		return append(dst, name...)
	}
	if v, width, fill, ok := timeNumber(c, t); ok {
		return digits(dst, v, width, fill)
	}
	return append(dst, '%', c)
}

// timeNumber returns the conversions that are a number of fixed width.
func timeNumber(c byte, t time.Time) (v, width int, fill byte, ok bool) {
	isoYear, isoWeek := t.ISOWeek()
	weekday := int(t.Weekday())
	switch c {
	case 'C':
		return t.Year() / 100, 2, '0', true
	case 'd':
		return t.Day(), 2, '0', true
	case 'e':
		return t.Day(), 2, ' ', true
	case 'f':
		return t.Nanosecond() / 1000, 6, '0', true
	case 'g':
		return isoYear % 100, 2, '0', true
	case 'H':
		return t.Hour(), 2, '0', true
	case 'I':
		return (t.Hour()+11)%12 + 1, 2, '0', true
	case 'j':
		return t.YearDay(), 3, '0', true
	case 'k':
		return t.Nanosecond(), 9, '0', true
	case 'l':
		return t.Nanosecond() / 1e6, 3, '0', true
	case 'm':
		return int(t.Month()), 2, '0', true
	case 'M':
		return t.Minute(), 2, '0', true
	case 'S':
		return t.Second(), 2, '0', true
	case 'u':
		return (weekday+6)%7 + 1, 1, '0', true
	case 'U':
		return (t.YearDay() + 6 - weekday) / 7, 2, '0', true
	case 'V':
		return isoWeek, 2, '0', true
	case 'w':
		return weekday, 1, '0', true
	case 'W':
		return (t.YearDay() + 6 - (weekday+6)%7) / 7, 2, '0', true
	case 'y':
		return t.Year() % 100, 2, '0', true
	}
	return 0, 0, 0, false
}

func digits(dst []byte, v, width int, fill byte) []byte {
	s := strconv.Itoa(v)
	for n := len(s); n < width; n++ {
		dst = append(dst, fill)
	}
	return append(dst, s...)
}
