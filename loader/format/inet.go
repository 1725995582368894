// SPDX-License-Identifier: Apache-2.0

package format

import (
	"encoding/binary"
	"strconv"

	"btc/internal/manifest"
)

// Address families, the same on every architecture.
const (
	afInet  = 2
	afInet6 = 10
)

func appendInet(_ *Env, dst []byte, _ *manifest.Layout, b []byte, _ bool) []byte {
	family, addr := binary.NativeEndian.Uint32(b), b[4:20]
	if family == afInet6 {
		return appendIPv6(dst, addr)
	}
	if family == afInet {
		return appendIPv4(dst, addr)
	}
	return strconv.AppendUint(append(dst, "<address family "...), uint64(family), 10)
}

func appendIPv4(dst, a []byte) []byte {
	for i := range 4 {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(a[i]), 10)
	}
	return dst
}

// appendIPv6 writes what inet_ntop does: the longest run of at least two zero
// words becomes "::", mapped and compatible IPv4 addresses end in dotted form.
func appendIPv6(dst, a []byte) []byte {
	var w [8]uint64
	for i := range w {
		w[i] = uint64(binary.BigEndian.Uint16(a[2*i:]))
	}
	start, length := -1, 1
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && w[j] == 0 {
			j++
		}
		if j-i > length {
			start, length = i, j-i
		}
		i = max(i, j)
	}
	dotted := start == 0 && (length == 6 || length == 5 && w[5] == 0xffff)
	for i := 0; i < 8; i++ {
		if i == start {
			dst = append(dst, ':')
			if i+length == 8 {
				dst = append(dst, ':')
			}
			i += length - 1
			continue
		}
		if i > 0 {
			dst = append(dst, ':')
		}
		if i == 6 && dotted {
			return appendIPv4(dst, a[12:])
		}
		dst = strconv.AppendUint(dst, w[i], 16)
	}
	return dst
}
