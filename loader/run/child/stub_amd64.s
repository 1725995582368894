#include "textflag.h"

// stub is the entry point of a process. The stack has argc, the path of the command,
// its name for the kernel, the command's arguments, NULL, and the environment. The stub
// writes to descriptor 4 when it is ready, reads a byte from descriptor 3 before it
// continues, and writes to descriptor 4 again if it fails. Descriptor 5 is its own file.
TEXT stub<>(SB), NOSPLIT|NOFRAME, $0
	MOVQ	SP, R12
	// prctl(PR_SET_NAME, argv[1])
	MOVQ	$157, AX
	MOVQ	$15, DI
	MOVQ	16(R12), SI
	SYSCALL
	// fcntl(3 to 5, F_SETFD, FD_CLOEXEC)
	MOVQ	$3, R13
cloexec:
	MOVQ	$72, AX
	MOVQ	R13, DI
	MOVQ	$2, SI
	MOVQ	$1, DX
	SYSCALL
	INCQ	R13
	CMPQ	R13, $5
	JLE	cloexec
	// write(4, argv[0], 1)
	MOVQ	$1, AX
	MOVQ	$4, DI
	MOVQ	8(R12), SI
	MOVQ	$1, DX
	SYSCALL
	// read(3, scratch, 1)
	MOVQ	$0, AX
	MOVQ	$3, DI
	LEAQ	-64(R12), SI
	MOVQ	$1, DX
	SYSCALL
	CMPQ	AX, $1
	JNE	quit
	// execve(argv[0], argv+2, argv+argc+1)
	MOVQ	(R12), R13
	MOVQ	8(R12), DI
	LEAQ	24(R12), SI
	LEAQ	16(R12)(R13*8), DX
	MOVQ	$59, AX
	SYSCALL
	// write(4, &result, 8)
	MOVQ	AX, -64(R12)
	MOVQ	$1, AX
	MOVQ	$4, DI
	LEAQ	-64(R12), SI
	MOVQ	$8, DX
	SYSCALL
quit:
	// exit_group(1)
	MOVQ	$231, AX
	MOVQ	$1, DI
	SYSCALL
	JMP	quit

// stubCode is the address of stub. In Go code the address would be that of a wrapper.
DATA ·stubCode(SB)/8, $stub<>(SB)
GLOBL ·stubCode(SB), NOPTR|RODATA, $8
