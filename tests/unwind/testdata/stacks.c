// SPDX-License-Identifier: Apache-2.0

// Stacks of several shapes: recursion, aligned frames, alloca, callbacks of the C library, signal handlers.
#include <alloca.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

volatile long sink;

__attribute__((noinline)) static void leaf(long n) {
	for (long i = 0; i < n; i++)
		sink += i * sink;
}

__attribute__((noinline)) static void aligned(long n) {
	long v[8] __attribute__((aligned(64)));
	memset(v, (int)n, sizeof v);
	char *p = alloca(n & 127 | 16);
	p[0] = 1;
	leaf(n);
	sink += v[n & 7] + p[0];
}

__attribute__((noinline)) static void dynamic(long n) {
	char *p = alloca(n * 16 & 1023 | 16);
	memset(p, 1, 16);
	aligned(n);
	sink += p[3];
}

static int compare(const void *a, const void *b) {
	dynamic(20);
	return *(const int *)a - *(const int *)b;
}

static void handler(int sig) {
	int v[9] = {5, 3, 8, 1, 9, 2, 7, 4, 6};
	qsort(v, 9, sizeof *v, compare);
	sink += v[0];
}

__attribute__((noinline)) static long deep(long n) {
	if (n == 0) {
		char text[100];
		raise(SIGUSR1);
		snprintf(text, sizeof text, "%ld %f", sink, sin(sink));
		dynamic(strlen(text));
		return 1;
	}
	return deep(n - 1) + sink;
}

int main(void) {
	signal(SIGUSR1, handler);
	for (;;)
		sink += deep(5);
}
