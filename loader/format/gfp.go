// SPDX-License-Identifier: Apache-2.0

package format

// gfpFlags names the flags of the kernel's page allocator, as it prints them:
// combinations first, then single bits. The values are those of Linux 6.9 and
// later; on other kernels a few bits mean something else.
var gfpFlags = []struct {
	bits uint64
	name string
}{
	{0x21c24ca, "GFP_TRANSHUGE"}, {0x21c20ca, "GFP_TRANSHUGE_LIGHT"}, {0x2100cca, "GFP_HIGHUSER_MOVABLE"},
	{0x100cc2, "GFP_HIGHUSER"}, {0x100cc0, "GFP_USER"}, {0x400cc0, "GFP_KERNEL_ACCOUNT"}, {0xcc0, "GFP_KERNEL"},
	{0xc40, "GFP_NOFS"}, {0x820, "GFP_ATOMIC"}, {0xc00, "GFP_NOIO"}, {0x2800, "GFP_NOWAIT"}, {0x1, "GFP_DMA"},
	{0x2, "__GFP_HIGHMEM"}, {0x4, "GFP_DMA32"}, {0x20, "__GFP_HIGH"}, {0x40, "__GFP_IO"}, {0x80, "__GFP_FS"},
	{0x100, "__GFP_ZERO"}, {0x400, "__GFP_DIRECT_RECLAIM"}, {0x800, "__GFP_KSWAPD_RECLAIM"}, {0x1000, "__GFP_WRITE"},
	{0x2000, "__GFP_NOWARN"}, {0x4000, "__GFP_RETRY_MAYFAIL"}, {0x8000, "__GFP_NOFAIL"}, {0x10000, "__GFP_NORETRY"},
	{0x20000, "__GFP_MEMALLOC"}, {0x40000, "__GFP_COMP"}, {0x80000, "__GFP_NOMEMALLOC"}, {0x100000, "__GFP_HARDWALL"},
	{0x200000, "__GFP_THISNODE"}, {0x400000, "__GFP_ACCOUNT"}, {0x800000, "__GFP_ZEROTAGS"}, {0x1000000, "__GFP_SKIP_ZERO"},
	{0x2000000, "__GFP_SKIP_KASAN"}, {0x4000000, "__GFP_NO_OBJ_EXT"},
}

// appendGFP appends flags joined by "|"; bits without a name as one number.
func appendGFP(dst []byte, v uint64) []byte {
	if v == 0 {
		return append(dst, '0')
	}
	sep := ""
	for _, f := range gfpFlags {
		if v&f.bits == f.bits {
			dst = append(append(dst, sep...), f.name...)
			v &^= f.bits
			sep = "|"
		}
	}
	if v != 0 {
		dst = appendHex(append(dst, sep...), v)
	}
	return dst
}
