/*
 * A program with static probes (USDT), for the cases that need them. The notes
 * are written in assembly, in the same form as by <sys/sdt.h>, so that only the
 * headers of libc are needed and each form of argument is certain to occur.
 *
 *     usdt [ROUNDS [LINGER]]
 *
 * It exits LINGER milliseconds after the rounds, so that its addresses can be
 * resolved to names.
 *
 * demo:step     counts 1, 2, ...; arguments in registers and constants
 * demo:sizes    constants of all sizes and signs
 * demo:memory   memory operands: base, base and index, stack, symbol
 * demo:twice    two locations, with arguments in different registers
 * demo:guarded  has a semaphore and is only reached if it is not 0
 * other:step    the same name in another namespace
 *
 * and functions for uprobes, demo_func_one and demo_func_two.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define NOTE(provider, name, semaphore, args)                                  \
	"990: nop\n"                                                           \
	".pushsection .note.stapsdt,\"\",\"note\"\n"                           \
	".balign 4\n"                                                          \
	".4byte 992f-991f, 994f-993f, 3\n"                                     \
	"991: .asciz \"stapsdt\"\n"                                            \
	"992: .balign 4\n"                                                     \
	"993: .8byte 990b\n"                                                   \
	".8byte _.stapsdt.base\n"                                              \
	".8byte " semaphore "\n"                                               \
	".asciz \"" provider "\"\n"                                            \
	".asciz \"" name "\"\n"                                                \
	".asciz \"" args "\"\n"                                                \
	"994: .balign 4\n"                                                     \
	".popsection\n"

__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
	".weak _.stapsdt.base\n"
	".hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n"
	".size _.stapsdt.base, 1\n"
	".popsection\n");

unsigned short demo_guarded_semaphore __attribute__((section(".probes"), used));
short demo_global = -321;

static void step(long n, const char *text)
{
#ifdef __x86_64__
	__asm__ volatile(NOTE("demo", "step", "0", "-8@%%rax 8@%%rbx -4@$-7 4@%%ecx")
			 : : "a"(n), "b"(text), "c"((int)-1));
	__asm__ volatile(NOTE("other", "step", "0", "-8@%%rax") : : "a"(n * 100));
#elif defined(__riscv)
	register long a0 __asm__("a0") = n;
	register const char *a1 __asm__("a1") = text;
	register int a2 __asm__("a2") = -1;
	__asm__ volatile(NOTE("demo", "step", "0", "-8@a0 8@a1 -4@-7 4@a2") : : "r"(a0), "r"(a1), "r"(a2));
	a0 = n * 100;
	__asm__ volatile(NOTE("other", "step", "0", "-8@a0") : : "r"(a0));
#else
	register long x0 __asm__("x0") = n;
	register const char *x1 __asm__("x1") = text;
	register int w2 __asm__("w2") = -1;
	__asm__ volatile(NOTE("demo", "step", "0", "-8@x0 8@x1 -4@-7 4@x2") : : "r"(x0), "r"(x1), "r"(w2));
	x0 = n * 100;
	__asm__ volatile(NOTE("other", "step", "0", "-8@x0") : : "r"(x0));
#endif
}

static void sizes(void)
{
	long bits = 0x1122334455667788 | 0x8000000000000000;
#ifdef __x86_64__
	__asm__ volatile(NOTE("demo", "sizes", "0",
			      "1@%%al -1@%%al 2@%%ax -2@%%ax 4@%%eax -4@%%eax 8@%%rax -8@%%rax 4@$5 8f@%%xmm0 -1@$-1 8@$0x10")
			 : : "a"(bits));
#elif defined(__riscv)
	register long a0 __asm__("a0") = bits;
	__asm__ volatile(NOTE("demo", "sizes", "0",
			      "1@a0 -1@a0 2@a0 -2@a0 4@a0 -4@a0 8@a0 -8@a0 4@5 8f@fa0 -1@-1 8@0x10")
			 : : "r"(a0));
#else
	register long x0 __asm__("x0") = bits;
	__asm__ volatile(NOTE("demo", "sizes", "0",
			      "1@x0 -1@x0 2@x0 -2@x0 4@x0 -4@x0 8@x0 -8@x0 4@5 8f@d0 -1@-1 8@0x10")
			 : : "r"(x0));
#endif
}

struct pair { int a, b; };

static void memory(long i)
{
	static struct pair table[4] = { { 10, -11 }, { 20, -21 }, { 30, -31 }, { 40, -41 } };
#ifdef __x86_64__
	__asm__ volatile(NOTE("demo", "memory", "0",
			      "-4@(%%rax) -4@4(%%rax) -4@(%%rax,%%rcx,8) -4@4(%%rax,%%rcx,8) -2@demo_global(%%rip) 4@8+8(%%rax)")
			 : : "a"(table), "c"(i));
#elif defined(__riscv)
	register struct pair *a0 __asm__("a0") = table;
	register struct pair *a1 __asm__("a1") = &table[i];
	__asm__ volatile(NOTE("demo", "memory", "0",
			      "-4@0(a0) -4@4(a0) -4@0(a1) -4@4(a1) -2@5 4@16(a0)")
			 : : "r"(a0), "r"(a1));
#else
	register struct pair *x0 __asm__("x0") = table;
	register long x1 __asm__("x1") = i * 8;
	__asm__ volatile(NOTE("demo", "memory", "0",
			      "-4@[x0] -4@[x0, 4] -4@[x0, x1] -4@[x0, 12] -2@5 4@[x0, 16]")
			 : : "r"(x0), "r"(x1));
#endif
}

static void twice(long n)
{
#ifdef __x86_64__
	__asm__ volatile(NOTE("demo", "twice", "0", "8@%%rdx") : : "d"(n));
	__asm__ volatile(NOTE("demo", "twice", "0", "8@%%rsi") : : "S"(n + 1000));
#elif defined(__riscv)
	register long a3 __asm__("a3") = n, a4 __asm__("a4") = n + 1000;
	__asm__ volatile(NOTE("demo", "twice", "0", "8@a3") : : "r"(a3));
	__asm__ volatile(NOTE("demo", "twice", "0", "8@a4") : : "r"(a4));
#else
	register long x3 __asm__("x3") = n, x4 __asm__("x4") = n + 1000;
	__asm__ volatile(NOTE("demo", "twice", "0", "8@x3") : : "r"(x3));
	__asm__ volatile(NOTE("demo", "twice", "0", "8@x4") : : "r"(x4));
#endif
}

static int guarded(void)
{
	if (!*(volatile unsigned short *)&demo_guarded_semaphore)
		return 0;
	__asm__ volatile(NOTE("demo", "guarded", "demo_guarded_semaphore", ""));
	return 1;
}

__attribute__((noinline)) long demo_func_one(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

__attribute__((noinline)) long demo_func_two(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 2;
}

int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 3;
	int reached = 0;
	const char *file = getenv("WORKLOAD_REPORT");
	FILE *report = file ? fopen(file, "a") : stdout;

	prctl(PR_SET_NAME, "worker");
	for (long n = 1; n <= rounds; n++) {
		step(n, n & 1 ? "odd" : "even");
		sizes();
		memory(n & 3);
		twice(n);
		reached += guarded();
		if (demo_func_one(1000) + demo_func_two(1000) != 2003)
			return 1;
	}
	long linger = argc > 2 ? atol(argv[2]) : 0;
	struct timespec ts = { linger / 1000, linger % 1000 * 1000000 };
	nanosleep(&ts, NULL);
	if (report)
		fprintf(report, "rounds %ld\nreached %d\n", rounds, reached);
	return 0;
}
