# SPDX-License-Identifier: Apache-2.0
# Runs inside gdb, attached to a process: prints its registers, stack and frames as a line of JSON, several times, with
# some instructions executed in between.
import json
import os
import gdb

NAMES = {
    "x86_64": "rax rdx rcx rbx rsi rdi rbp rsp r8 r9 r10 r11 r12 r13 r14 r15".split(),
    "aarch64": ["x%d" % i for i in range(31)] + ["sp"],
}
STACK = 256 << 10
BELOW = 128  # what a function that returns has popped


def word(v):
    return int(v) & (1 << 64) - 1


def stack(sp):
    inferior = gdb.selected_inferior()
    with open("/proc/%d/maps" % inferior.pid) as maps:
        for line in maps:
            start, end = (int(n, 16) for n in line.split()[0].split("-"))
            if start <= sp < end:
                low = max(start, sp - BELOW)
                return low, bytes(inferior.read_memory(low, min(STACK, end - low))).hex()
    return sp, ""


def frames():
    out = []
    f = gdb.newest_frame()
    while f is not None and len(out) < 200:
        if f.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME):  # those have no frame on the stack
            out.append([f.pc(), f.name() or ""])
        try:
            f = f.older()
        except gdb.error:
            break
    return out


def capture():
    top = gdb.newest_frame()
    names = NAMES[os.uname().machine]
    regs = [word(top.read_register(n)) for n in names]
    low, content = stack(word(top.read_register("sp")))
    print("CASE " + json.dumps({"pc": word(top.pc()), "regs": regs, "sp": low, "stack": content, "frames": frames()}))


gdb.execute("set pagination off")
gdb.execute("set backtrace past-main on")
times, steps = int(os.environ["CAPTURE_TIMES"]), int(os.environ["CAPTURE_STEPS"])
capture()
for i in range(1, times):
    gdb.execute("stepi %d" % (1 + i * 7919 % steps), to_string=True)
    capture()
