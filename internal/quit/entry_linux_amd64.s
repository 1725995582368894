// SPDX-License-Identifier: Apache-2.0

#include "textflag.h"

// LIMIT continues at an address if a limit is at least a minimum, or unknown.
#define LIMIT(resource, minimum, enough) \
	MOVQ $97, AX                     \ // getrlimit
	MOVQ $resource, DI               \
	MOVQ SP, SI                      \
	SYSCALL                          \
	TESTQ AX, AX                     \
	JNE  enough                      \
	CMPQ 0(SP), $minimum             \
	JHS  enough

// The entry point of btc and btrun for linux/amd64 (tools/ldflags.linux-amd64 has the linker's option -E); other builds
// begin with Go's. Before the Go runtime reserves memory and starts threads, it reads their limits and ends with one
// line if they are too small: the runtime would print the stacks of its threads.
TEXT _rt0_limits(SB), NOSPLIT|NOFRAME, $0
	SUBQ $16, SP
	LIMIT(9, (1536<<20), data) // RLIMIT_AS
	MOVQ ·fewAddresses(SB), SI
	MOVQ ·fewAddresses+8(SB), DX
	JMP  fail

data:
	LIMIT(2, (256<<20), processes) // RLIMIT_DATA
	MOVQ ·littleData(SB), SI
	MOVQ ·littleData+8(SB), DX
	JMP  fail

processes:
	MOVQ $102, AX // getuid: the limit is not for root
	SYSCALL
	TESTQ AX, AX
	JEQ  start
	LIMIT(6, 16, start) // RLIMIT_NPROC
	MOVQ ·fewThreads(SB), SI
	MOVQ ·fewThreads+8(SB), DX

fail:
	MOVQ $1, AX // write
	MOVQ $2, DI
	SYSCALL
	MOVQ $231, AX // exit_group
	MOVQ $1, DI
	SYSCALL

start:
	ADDQ $16, SP
	JMP _rt0_amd64_linux(SB)
