// SPDX-License-Identifier: Apache-2.0
// A program for scripts that trace the wrong thing. Its argument is the number of milliseconds that it runs, and a second one
// sets the semaphore of its USDT probe to 0.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

volatile int sink;
__attribute__((section(".probes"))) volatile unsigned short walker_hit_semaphore;

int square(int x) { sink += x; sink *= 3; return x * x + sink; }
__attribute__((noinline)) int bar(int x) { return square(x) + 1; }
__attribute__((noinline)) int baz(int x) { return square(x) + square(x + 2); }
__attribute__((noinline)) int fails(int x) { sink = x; return -1; }
__attribute__((noinline)) int unused(int x) { sink = x; return x; }
__attribute__((noinline)) int takes(const char *s, int fd, const char *null) { sink = fd; return s[0]; }
__attribute__((noinline)) void slow(void) { struct timespec t = {0, 5000000}; clock_nanosleep(CLOCK_MONOTONIC, 0, &t, 0); sink++; }

__attribute__((noinline)) void hit(int x) {
	if (walker_hit_semaphore)
		__asm__ volatile(
			"990: nop\n.pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n.4byte 992f-991f, 994f-993f, 3\n"
			"991: .asciz \"stapsdt\"\n992: .balign 4\n993: .8byte 990b\n.8byte 0\n.8byte walker_hit_semaphore\n"
			".asciz \"walker\"\n.asciz \"hit\"\n.asciz \"-4@%0\"\n994: .balign 4\n.popsection\n" :: "r"(x));
}

static void *work(void *off) {
	prctl(PR_SET_NAME, "walker-worker");
	for (;;) {
		if (off)
			walker_hit_semaphore = 0;
		hit(1);
		bar(1);
		baz(2);
		fails(3);
		takes("hello\n", -1, 0);
		int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
		close(fd);
		slow();
	}
	return 0;
}

int main(int argc, char **argv) {
	pthread_t t;
	pthread_create(&t, 0, work, argc > 2 ? &sink : 0);
	usleep(1000 * atoi(argv[1]));
	if (sink == -77)
		unused(1);
	_exit(3);
}
