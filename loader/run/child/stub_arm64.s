#include "textflag.h"

// stub is the entry point of a process; see stub_amd64.s.
TEXT stub<>(SB), NOSPLIT|NOFRAME, $0
	MOVD	RSP, R19
	// prctl(PR_SET_NAME, argv[1])
	MOVD	$167, R8
	MOVD	$15, R0
	MOVD	16(R19), R1
	SVC
	// fcntl(3 to 5, F_SETFD, FD_CLOEXEC)
	MOVD	$3, R20
cloexec:
	MOVD	$25, R8
	MOVD	R20, R0
	MOVD	$2, R1
	MOVD	$1, R2
	SVC
	ADD	$1, R20
	CMP	$5, R20
	BLE	cloexec
	// write(4, argv[0], 1)
	MOVD	$64, R8
	MOVD	$4, R0
	MOVD	8(R19), R1
	MOVD	$1, R2
	SVC
	// read(3, scratch, 1)
	MOVD	$63, R8
	MOVD	$3, R0
	SUB	$64, R19, R1
	MOVD	$1, R2
	SVC
	CMP	$1, R0
	BNE	quit
	// execve(argv[0], argv+2, argv+argc+1)
	MOVD	(R19), R20
	MOVD	8(R19), R0
	ADD	$24, R19, R1
	ADD	$16, R19, R2
	ADD	R20<<3, R2, R2
	MOVD	$221, R8
	SVC
	// write(4, &result, 8)
	MOVD	R0, -64(R19)
	MOVD	$64, R8
	MOVD	$4, R0
	SUB	$64, R19, R1
	MOVD	$8, R2
	SVC
quit:
	// exit_group(1)
	MOVD	$94, R8
	MOVD	$1, R0
	SVC
	B	quit

// stubCode is the address of stub; in Go it would be that of a wrapper.
DATA ·stubCode(SB)/8, $stub<>(SB)
GLOBL ·stubCode(SB), NOPTR|RODATA, $8
