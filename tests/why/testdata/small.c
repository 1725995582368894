// SPDX-License-Identifier: Apache-2.0
// A 32-bit program without a library.
static int call(int n, int a, int b, int c) {
	int r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(n), "b"(a), "c"(b), "d"(c) : "memory");
	return r;
}

__attribute__((noinline)) int target(int a, int b) { __asm__ volatile(""); return a * b; }

void _start(void) {
	struct { int s, n; } t = {0, 20000000};
	for (int i = 0; i < 60; i++) {
		target(3, i);
		call(162, (int)&t, 0, 0);
	}
	call(1, 0, 0, 0);
}
