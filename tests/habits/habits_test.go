// SPDX-License-Identifier: Apache-2.0

// Package habits runs the command lines of bpftrace's manual page, and others that users are accustomed
// to, with btc under the name bpftrace. If bpftrace itself is available (build/oracle), it runs each of
// them, too: both must write the same and exit with the same status.
package habits

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"btc/loader/kerneltypes"
)

var only = flag.String("habit", "", "type only habits that match this regular expression")

// what selects the parts of the result that must be equal for both programs.
type what int

const (
	all    what = iota // standard output, standard error and status
	output             // standard output and status; the form of messages differs
	status             // the status only; the output is only matched with want
	own                // nothing; the comment gives the reason
)

// habit is a shell command line in which bpftrace is the program under test.
type habit struct {
	line string
	same what
	want string // regular expression for the output and errors of btc; "" matches any
}

// scripts are the files in the directory in which the commands run.
var scripts = map[string]string{
	"param.bt":    "#!/usr/bin/env bpftrace\nbegin { printf(\"param %d %s\\n\", $1, str($2)); exit(); }\n",
	"quiet.bt":    "#!/usr/bin/env -S bpftrace -q\nbegin { printf(\"param %d %s\\n\", $1, str($2)); exit(); }\n",
	"json.bt":     "#!/usr/bin/env -S bpftrace -q -f json\nbegin { printf(\"param %d %s\\n\", $1, str($2)); exit(); }\n",
	"long.bt":     "#!/usr/bin/bpftrace --unsafe\nbegin { system(\"echo from a command\"); exit(); }\n",
	"noext":       "#!/usr/bin/env bpftrace\nbegin { printf(\"no extension\\n\"); exit(); }\n",
	"maps.bt":     "begin { @a = 5; @h = hist(3); @l = lhist(3, 0, 10, 1); @s[\"x\", 1] = \"str\"; @ = count(); exit(); }\n",
	"probes.bt":   "tracepoint:sched:sched_switch,tracepoint:sched:sched_wakeup { @ = count(); }\ninterval:s:1 { exit(); }\n",
	"only.bt":     "interval:ms:10 { exit(); } interval:s:9 { print(1); }\n",
	"ugly.bt":     "begin   {   print(1)  ;  exit( ) }\n",
	"tests.bt":    "test:one { return 0; }\ntest:two { return 1; }\n",
	"a.h":         "#define NINE 9\nstruct foo { int a; char b; };\n",
	"inc/b.h":     "#define TEN 10\n",
	"functions":   "vfs_read\nvfs_write\n",
	"include.bt":  "#include <b.h>\nbegin { printf(\"%d\\n\", TEN); exit(); }\n",
	"empty.bt":    "",
	"crlf.bt":     "begin\r\n{\r\n  printf(\"crlf\\n\");\r\n  exit();\r\n}\r\n",
	"bom.bt":      "\ufeffbegin { printf(\"bom\\n\"); exit(); }\n",
	"comments.bt": "/* a\n * comment */\n// another\nbegin { /* in */ printf(\"commented\\n\"); exit(); }\n",
}

// habits run in this order. Most are from the manual page, in its order.
var habits = []habit{
	// The version and the help.
	{`bpftrace -V`, all, `^bpftrace v`},
	{`bpftrace --version`, all, `^bpftrace v`},
	{`bpftrace -h`, status, `(?m)^usage: bpftrace \[options\] FILE`}, // the text differs
	{`bpftrace --help`, status, `(?m)^  -e, --program PROGRAM `},
	{`bpftrace`, status, `^usage: bpftrace `},
	{`bpftrace --nosuch`, output, `unknown option --nosuch`},
	{`bpftrace -Z`, output, `unknown option -Z`},

	// Programs.
	{`bpftrace -e 'begin { printf("%d\n", 1); exit(); }'`, all, `^1\n`},
	{`bpftrace -e 'BEGIN { printf("%d\n", 1); exit(); }'`, all, `^1\n`},
	{`bpftrace -q -e 'begin { printf("x\n"); exit(); } end { printf("y\n"); }'`, all, `x\n\n?\n?y`},
	{`bpftrace param.bt 1 two`, all, `param 1 two`},
	{`bpftrace param.bt -- 1 two`, all, `param 1 two`},
	{`bpftrace - 5 x < param.bt`, all, `param 5 x`},
	{`cat param.bt | bpftrace - 5 x`, all, `param 5 x`},
	{`bpftrace -q param.bt 1 2`, all, `param 1 2`},
	{`bpftrace param.bt 1 2 -q`, all, `param 1 2`},
	{`bpftrace noext`, all, `no extension`},
	{`bpftrace comments.bt`, all, `commented`},
	{`./param.bt 3 x`, all, `param 3 x`},
	{`./quiet.bt 3 x`, all, `param 3 x`},
	{`./json.bt 3 x`, all, `"data": "param 3 x`},
	{`bpftrace --unsafe long.bt`, all, `from a command`},
	{`bpftrace nosuch.bt`, output, `no such file`},
	{`bpftrace -e`, output, `option -e needs a value`},
	{`bpftrace -e ''`, output, `no probes`},
	{`bpftrace -e 'begin { prinf("x") }'`, output, `Unknown function: 'prinf'`},
	{`bpftrace -e 'begin { exit() }' extra --opt`, output, `unknown option --opt`},
	{`bpftrace -e 'begin { exit() }' -- --opt`, output, `HINT: no custom program options defined`},
	{`bpftrace -e 'begin { print(($1, $2, getopt("aa", 1), getopt("bb"))); exit(); }' 3 -- --aa=20 --bb 4`, all, `\(3, 4, 20, true\)`},
	{`bpftrace -e 'begin { print((str($1), getopt("aa", "z"))); exit(); }' -- p1 --aa=long`, all, `\(p1, long\)`},
	{`bpftrace -e 'begin { print(($#, $1)); exit(); }'`, all, `\(0, 0\)`},

	// Output.
	{`bpftrace maps.bt`, all, `@a: 5`},
	{`bpftrace -f text maps.bt`, all, `@a: 5`},
	{`bpftrace -f json maps.bt`, all, `"@a": 5`},
	{`bpftrace -f xml maps.bt`, output, `Invalid output format "xml"`},
	{`bpftrace -o out maps.bt; echo $?; cat out`, all, `^0\n\n\n@: 1`},
	{`bpftrace --output out -q -e 'begin { printf("z\n"); exit(); }'; cat out`, all, `z\n`},
	{`bpftrace -q -o out -f json maps.bt; cat out`, all, `"@a": 5`},
	{`bpftrace -o /nosuch/x -e 'begin { exit() }'`, output, `/nosuch/x: no such file`},
	{`bpftrace -B none maps.bt`, all, `@a: 5`},
	{`bpftrace -B line maps.bt`, all, `@a: 5`},
	{`bpftrace -B full maps.bt`, all, `@a: 5`},
	{`bpftrace -B some maps.bt`, output, `"some" is not one of line, full, none`},
	{`bpftrace -q -e 'begin { for $i : 0..1000 { printf("%d\n", $i); } exit() }' | head -2`, all, `^0\n1\n$`},
	{`bpftrace -k -e 'begin { printf("%s\n", str(0)); exit() }'`, all, ``},
	{`bpftrace --warnings -q -e 'begin { print(@x[1]); @x[2] = 1; exit() }'`, all, ``},
	{`bpftrace -kk -e 'begin { exit() }'`, output, `-kk has been deprecated`},
	{`bpftrace --no-warnings -q -e 'begin { @x = 1; delete(@x, 1); exit() }'`, status, ``},
	// bpftrace lists the probes that it attaches. btc also shows the kernel's log, as bpftrace does
	// with -d verifier.
	{`bpftrace -v -e 'begin { exit() }'`, output, `processed \d+ insns`},
	{`bpftrace --verbose -q -e 'begin { exit() }'`, output, `processed \d+ insns`},

	// Processes.
	{`bpftrace -e 'begin { }' -c 'echo $HOME'`, all, `\$HOME`},
	{`bpftrace -e 'begin { }' -c 'echo a; echo b'`, all, `a; echo b`},
	{`bpftrace --cmd 'echo x' -e 'begin { }'`, all, `x\n`},
	{`bpftrace -e 'begin { }' -c /bin/false; echo $?`, all, `0\n`},
	{`bpftrace -q -e 'begin { print(cpid > 0); }' -c 'sleep 0.1'`, all, `^true|^1`},
	{`bpftrace -e 'begin { exit() }' -c nosuchcmd`, output, `Path 'nosuchcmd' does not exist or is not executable`},
	// btc splits the command like a shell; bpftrace passes quotes on.
	{`bpftrace -q -e 'begin { }' -c 'echo "a  b" c'`, own, `a  b c\n`},
	{`bpftrace -q -e 'begin { }' -c "echo 'a  b' c\\ d"`, own, `a  b c d\n`},
	{`bpftrace -q -e 'begin { }' -c 'sh -c "echo a; exit 3"'; echo $?`, own, `(?s)a\n.*0\n`},
	{`bpftrace -q -e 'begin { }' -c 'echo "a'`, own, `unclosed "`},
	{`bpftrace -q -e 'begin { }' -c ''`, own, `-c: the command is empty`}, // bpftrace traces until Ctrl-C
	{`bpftrace -p $$ -e 'begin { exit() }'`, all, ``},
	{`bpftrace --pid $$ -e 'begin { exit() }'`, all, ``},
	{`bpftrace --pid=$$ -q -e 'begin { exit() }'`, all, ``},
	{`sleep 100 & bpftrace -q -p $! -e 'begin { printf("begun\n"); }'; kill $!`, all, `begun`},
	{`bpftrace -e 'begin { exit() }' -p 99999999`, output, `Pid out of range: 99999999`},
	{`bpftrace -e 'begin { exit() }' -p abc`, output, `Failed to parse pid: invalid integer: abc`},
	{`bpftrace -e 'begin { exit() }' -p 1 -c true`, output, `Cannot use both -c and -p`},
	{`bpftrace --usdt-file-activation -q -e 'begin { exit() }'`, all, ``},
	{`bpftrace --dwarf-pid 1 -q -e 'begin { exit() }'`, output, `--dwarf-pid has no effect in btc`},

	// Headers.
	{`bpftrace -I . --include a.h -q -e 'begin { printf("%d\n", NINE); exit() }'`, all, `^9\n`},
	{`bpftrace --include a.h -I . --include b.h -I inc -q -e 'begin { printf("%d\n", NINE + TEN); exit() }'`, all, `^19\n`},
	{`bpftrace -I inc include.bt`, all, `^10\n`},
	{`bpftrace -Iinc include.bt`, all, `^10\n`},
	{`bpftrace -q -e '#include "a.h"
begin { printf("%d\n", sizeof(struct foo)); exit() }'`, all, `^8\n`},
	{`bpftrace --include nosuch.h -e 'begin { exit() }'`, own, `--include nosuch.h: no such file`}, // bpftrace: status 2

	// Permissions and features.
	{`bpftrace --unsafe -q -e 'begin { system("echo hi"); exit() }'`, all, `^hi\n`},
	{`bpftrace -q -e 'begin { system("echo hi"); exit() }'`, output, `system\(\) is unsafe`},
	{`bpftrace --no-feature kprobe_multi,uprobe_multi -q -e 'begin { exit() }'`, output, `--no-feature has no effect in btc`},
	{`bpftrace --no-feature nosuch -q -e 'begin { exit() }'`, output, `"nosuch" is not one of kprobe_multi, `},
	{`bpftrace --traceable-functions functions -q -e 'begin { exit() }'`, all, ``},
	{`bpftrace --traceable-functions /nosuch -q -e 'begin { exit() }'`, output, `/nosuch: no such file`},
	{`bpftrace --debuginfo /usr/lib/debug -q -e 'begin { exit() }'`, all, ``},
	{`bpftrace --debuginfo=/a:./b -q -e 'begin { exit() }'`, all, ``},
	{`bpftrace --verify-llvm-ir -q -e 'begin { exit() }'`, output, `--verify-llvm-ir has no effect in btc`},

	// Instead of tracing.
	{`bpftrace --dry-run maps.bt`, output, `Verified [13] programs?\n`},
	{`bpftrace --dry-run probes.bt`, output, `Verified [13] programs?\n`},
	{`bpftrace --fmt ugly.bt`, all, `^begin\n\{\n  print\(1\);`},
	{`bpftrace --fmt - < ugly.bt`, all, `^begin\n`},
	{`bpftrace --fmt -e 'begin   {   print(1)  ;  exit( ) }'`, all, `^begin\n`},
	{`bpftrace --mode format ugly.bt`, all, `^begin\n`},
	{`bpftrace --mode codegen maps.bt`, all, `^$`},
	{`bpftrace --mode nosuch maps.bt`, output, `"nosuch" is not one of test, bench, format, codegen`},
	{`bpftrace --test tests.bt`, status, `OK.*one`},
	{`bpftrace --mode test tests.bt`, status, `FAILED.*two`},
	{`bpftrace --probe-filter 'interval:ms.*' only.bt`, all, `Attached 1 probe`},
	{`bpftrace --probe-filter nosuch only.bt`, all, ``},
	{`bpftrace --probe-filter '(' only.bt`, own, `Invalid --probe-filter regex`}, // bpftrace: status 255
	{`bpftrace --aot x -e 'begin { exit() }'`, own, `use btc compile SCRIPT -o FILE.o`},
	{`bpftrace --emit-elf x -e 'begin { exit() }'`, own, `use btc compile SCRIPT -o FILE.o`},
	{`bpftrace --emit-llvm x -e 'begin { exit() }'`, own, `btc does not use LLVM`},
	{`bpftrace --info`, status, `(?s)System\n  OS: Linux .*\nBuild\n.*Kernel helpers\n.*Kernel features\n.*Map types\n.*Probe types\n.*  iter: `},

	// The compilation stages of the two programs differ.
	{`bpftrace -d ast -q -e 'begin { exit() }'`, status, `begin\n`},
	{`bpftrace -d parse -q -e 'begin { exit() }'`, status, `begin\n`},
	{`bpftrace -d types -q -e 'begin { $x = 1; exit() }'`, status, `\$x = 1`},
	{`bpftrace -d codegen -q -e 'begin { exit() }'`, status, `==== input ====`},
	{`bpftrace -d codegen-opt,dis -q -e 'begin { exit() }'`, status, `==== `},
	{`bpftrace -d libbpf -q -e 'begin { exit() }'`, status, `==== object ====`},
	{`bpftrace -d verifier -q -e 'begin { exit() }'`, status, `processed \d+ insns`},
	{`bpftrace -d ast -d dis -q -e 'begin { exit() }'`, status, `==== ast ====`},
	{`bpftrace -d all -q -e 'begin { exit() }'`, own, `==== ast ====`}, // bpftrace is slow
	{`bpftrace -d nosuch -e 'begin { exit() }'`, output, `unknown stage "nosuch"`},

	// Lists.
	{`bpftrace -l 'tracepoint:sched:sched_sw*'`, all, `tracepoint:sched:sched_switch\n`},
	{`bpftrace -l 'tracepoint:*:sched_switch'`, all, `tracepoint:sched:sched_switch\n`},
	{`bpftrace -l 't:syscalls:*openat*'`, all, `tracepoint:syscalls:sys_enter_openat\n`},
	{`bpftrace --list 'tracepoint:sched:sched_switch'`, all, `^tracepoint:sched:sched_switch\n$`},
	{`bpftrace -lv 'tracepoint:syscalls:sys_enter_openat'`, all, `    const char \* filename\n`},
	{`bpftrace -l 'tracepoint:syscalls:sys_enter_openat' -v`, all, `    const char \* filename\n`},
	{`bpftrace -l -v 'tracepoint:sched:*'`, all, `    pid_t prev_pid\n`},
	{`bpftrace -l 'tracepoint:syscalls:sys_enter_op*,software:*'`, all, `software:cpu-clock:\n`},
	{`bpftrace -l 'tracepoint:sched:sched_switch, tracepoint:sched:sched_wakeup'`, all, `sched_wakeup\n`},
	{`bpftrace -l 'tracepoint:nosuch:*'`, all, `^$`},
	{`bpftrace -l 'software:*'`, all, `software:cs:\n`},
	{`bpftrace -l 'hardware:*'`, all, `hardware:cache-misses:\n`},
	{`bpftrace -l 'h:c*'`, all, `hardware:cpu-cycles:\n`},
	{`bpftrace -l 'interval:*'`, all, `interval:ms:\n`},
	{`bpftrace -l 'p:*'`, all, `profile:hz:\n`},
	{`bpftrace -l 'self:*'`, all, `self:signal:SIGUSR1\n`},
	{`bpftrace -l 'watchpoint:*'`, all, `^$`},
	{`bpftrace -l sched_switch`, own, `tracepoint:sched:sched_switch\n`}, // bpftrace: with kprobes only
	{`bpftrace -l '*sched_switch*'`, own, `rawtracepoint:vmlinux:sched_switch\n`},
	{`bpftrace -l 'rawtracepoint:sched_sw*'`, own, `rawtracepoint:vmlinux:sched_switch\n`},
	{`bpftrace -l 'nosuch:*'`, own, `unknown kind of probe nosuch`}, // bpftrace prints nothing
	{`bpftrace -l probes.bt`, all, `^tracepoint:sched:sched_switch\ntracepoint:sched:sched_wakeup\ninterval:s:\n$`},
	{`bpftrace -l -e 'tracepoint:sched:sched_sw* { exit(); }'`, all, `tracepoint:sched:sched_switch\n`},
	{`bpftrace -lv -e 'tracepoint:syscalls:sys_enter_openat { }'`, all, `filename\n`},
	{`bpftrace -l -e 'begin { } end { }'`, all, `^$`},
	{`bpftrace -l nosuch.bt`, all, `It appears that 'nosuch.bt' is a filename`},
	{`bpftrace -l 'struct task_s*'`, all, `struct task_struct\n`},
	{`bpftrace -lv 'struct list_head'`, all, `^vmlinux: struct list_head \{\n\tstruct list_head \*next;\n`},
	{`bpftrace -lv 'struct css_task_iter'`, all, `struct css_set \*cur_cset;\n`},
	{`bpftrace -lv 'struct task_struct'`, all, `\tconst struct cred \*real_cred;\n`},
	{`bpftrace -lv 'struct sched_*entity'`, all, ``},
	{`bpftrace -lv 'union *'`, status, `sival_int;\n`}, // bpftrace omits some
	{`bpftrace -lv 'struct timespec64'`, all, `tv_nsec;\n`},
	{`bpftrace -l 'union sigv*'`, all, `^union sigval\n`},
	{`bpftrace -lv 'union sigval'`, all, `sival_int;\n`},
	{`bpftrace -l 'union *'`, all, `union sigval\n`},
	{`bpftrace -lv 'enum pid_type'`, all, `PIDTYPE_PID = 0,\n`},
	{`bpftrace -l 'struct nosuch'`, all, `^$`},
	{`bpftrace -l "uprobe:$PWD/prog:*"`, all, `prog:add_up\n`},
	{`bpftrace -l "uprobe:$PWD/pr*:add*"`, all, `prog:add_up\n`},
	{`bpftrace -l "u:./prog:add*"`, all, `uprobe:./prog:add_up\n`},
	{`bpftrace -l "uretprobe:./prog:main"`, all, `^uretprobe:./prog:main\n$`},
	{`bpftrace -l "*:./prog:add_up"`, all, `uprobe:./prog:add_up\n`},
	{`bpftrace -l "uprobe:*:add_up"`, all, `add_up\n`},
	{`PATH=$PATH:$PWD/bin bpftrace -l 'uprobe:also:add_up'`, own, `bin/also:add_up\n`}, // bpftrace: other PATH
	{`bpftrace -lv "uprobe:$PWD/prog:add_up"`, all, `    struct point\* p\n`},
	{`bpftrace -l "usdt:./prog:*"`, all, `^$`},
	{`bpftrace -l 'uprobe:/nosuch:*'`, status, ``},

	// The environment.
	{`BPFTRACE_MAX_STRLEN=10 bpftrace -q -e 'begin { printf("%s\n", str($1)); exit() }' 123456789abcdef`, output, `String is too long \(over 10 bytes\): 123456789abcdef\n`},
	{`BPFTRACE_MAX_STRLEN=2000 bpftrace -q -e 'begin { printf("%d\n", sizeof(str($1))); exit() }' x`, all, `^2\n`},
	{`BPFTRACE_MAX_MAP_KEYS=2 bpftrace -q -e 'begin { @x[1] = 1; @x[2] = 2; @x[3] = 3; exit() }'`, status, `Map full`},
	{`BPFTRACE_STACK_MODE=raw bpftrace -q -e 'begin { print(kstack(1)); exit() }' | wc -l`, all, ``},
	{`BPFTRACE_STACK_MODE=nosuch bpftrace -q -e 'begin { exit() }'`, own, `Invalid value for stack_mode`}, // bpftrace: status 2
	{`BPFTRACE_MAX_PROBES=1 bpftrace -q -e 'tracepoint:sched:sched_sw* {} begin { exit() }'`, output, `exceeds the current limit of 1 probes`},
	{`BPFTRACE_MAX_CAT_BYTES=5 bpftrace -q -e 'begin { cat("/proc/version"); exit() }'`, all, `^Linux`},
	{`BPFTRACE_PRINT_MAPS_ON_EXIT=0 bpftrace -q -e 'begin { @x = 1; exit() }'`, all, ``},
	{`BPFTRACE_MISSING_PROBES=ignore bpftrace -q -e 'tracepoint:sched:nosuch {} begin { exit() }'`, all, ``},
	{`BPFTRACE_MISSING_PROBES=error bpftrace -q -e 'tracepoint:sched:nosuch {} begin { exit() }'`, output, `^\S+ error: No matches for tracepoint sched:nosuch`},
	{`BPFTRACE_PERF_RB_PAGES=128 bpftrace -q -e 'begin { exit() }'`, all, ``},
	{`BPFTRACE_CACHE_USER_SYMBOLS=PER_PID bpftrace -q -e 'begin { exit() }'`, all, ``},
	{`BPFTRACE_CPP_DEMANGLE=0 bpftrace -q -e 'begin { exit() }'`, all, ``},
	{`BPFTRACE_KERNEL_SOURCE=/x BPFTRACE_KERNEL_BUILD=/y BPFTRACE_VMLINUX=/z bpftrace -q -e 'begin { exit() }'`, all, ``},
	{`BPFTRACE_BTF=/sys/kernel/btf/vmlinux bpftrace -q -e 'begin { printf("%d\n", sizeof(struct list_head)); exit() }'`, all, `^16\n`},
	{`BPFTRACE_BTF=/nosuch bpftrace -q -e 'begin { print(sizeof(struct list_head)); exit() }'`, own, `^16\n`}, // bpftrace takes a minute
	{`BPFTRACE_COLOR=always bpftrace -e 'begin { nosuch() }'`, output, "\x1b\\["},
	{`BPFTRACE_COLOR=never bpftrace -e 'begin { nosuch() }'`, output, `error\[E0202\]: `},
	{`BPFTRACE_NOSUCH=1 bpftrace -q -e 'begin { exit() }'`, all, ``},

	// What other programs type: agents that read JSON, the kernel's selftests, jobs of CI systems, scripts.
	{`printf 'begin { @a = 1; } interval:ms:50 { print(@a); exit(); }' | bpftrace -f json -`, all, `"@a": 1`},
	{`bpftrace -f json -q -e 'begin { @n = 7; @by[1, "a"] = 2; exit(); }'`, all, `"@n": 7`},
	{`bpftrace -f json -q -e 'begin { @c = count(); @s = sum(5); @a = avg(5); @t = stats(5); @m = min(3); @x = max(4); exit(); }'`, all, `"@c": 1`},
	{`bpftrace -q -f json -e 'begin { printf("a\tb\"c\\ %s\n", "e"); exit(); }'`, all, `"data": "a`},
	{`bpftrace -q -f json -e 'begin { time("now\n"); print((1, "x", -2)); print("s"); print(3 > 2); exit(); }'`, all, `"now`},
	{`bpftrace -q -f json -e 'begin { @t[1, "x"] = (3, "y"); @u["e\n"] = -1; exit(); }'`, all, `"@t"`},
	{`bpftrace -q -f json -e 'begin { printf("é\n"); exit(); }'`, status, `é`}, // bpftrace writes \uffffffc3\uffffffa9
	{`bpftrace -q -f json -e 'begin { cat("/proc/sys/kernel/ostype"); exit(); }'`, all, `Linux`},
	{`bpftrace -q --unsafe -f json -e 'begin { system("echo hi"); exit(); }'`, all, `hi`},
	{`bpftrace -q -f json -e 'begin { errorf("bad %d\n", 1); warnf("odd %d\n", 2); exit(); }'`, all, `bad 1`},
	{`bpftrace -q -f json -e 'begin { @h = lhist(5, 0, 10, 5); print(@h); clear(@h); exit(); }'`, all, `"hist"`},
	{`bpftrace -q -f json -e 'begin { @[1] = 1; @[2] = 2; @[3] = 3; print(@, 2); clear(@); exit(); }'`, own, `"2": 2`}, // bpftrace prints any two elements
	{`bpftrace -q -f json -e 'begin { print(strftime("%Y", 0)); print(macaddr((uint8[6])0)); exit(); }'`, status, ``},
	{`bpftrace -q -f json -e 'begin { join(0); exit(); }'`, status, ``},
	{`bpftrace -q -f json -e 'begin { nosuch(); }'`, output, `Unknown function`},
	{`bpftrace --format json -q -e 'begin { print(1); exit(); }'`, own, `"data": 1`}, // -f alone there
	{`bpftrace -fjson -q -e 'begin { print(1); exit(); }'`, all, `"data": 1`},
	{`bpftrace -qf json -e 'begin { print(1); exit(); }'`, all, `"data": 1`},
	{`bpftrace -qe 'begin { print(1); exit(); }'`, all, `^1\n`},
	{`bpftrace -e'begin { print(1); exit(); }' -q`, all, `^1\n`},
	{`bpftrace -qkBnone -e 'begin { print(1); exit(); }'`, all, `^1\n`},
	{`bpftrace -e 'begin { exit(3); }'; echo $?`, all, `3\n`},
	{`timeout -s INT 9 bpftrace -q -e 'begin { @x = 1; } interval:s:99 { } end { printf("end\n"); }'; echo $?`, all, `end\n(?s).*124\n`},
	{`timeout 9 bpftrace -q -e 'begin { @x = 1; } interval:s:99 { }'; echo $?`, all, `@x: 1\n(?s).*124\n`},
	{`bpftrace -q -e 'begin { print(1); exit(); }' > file 2>&1; cat file`, status, `^1\n`}, // bpftrace's has warnings about this machine
	{`bpftrace -q -e 'begin { print(1); exit(); }' | cat`, all, `^1\n`},
	{`bpftrace -q -e 'begin { print(1); exit(); }' < /dev/null`, all, `^1\n`},
	{`bpftrace -q -e 'begin { print(1); exit(); }' <&-`, all, `^1\n`},
	{`bpftrace -q - <<'EOF'
begin { print($1); exit(); }
EOF`, all, `^0\n`},
	{`bpftrace -q /dev/stdin < noext`, all, `no extension`},
	{`bpftrace -q <(echo 'begin { print(2); exit(); }')`, all, `^2\n`},
	{`bpftrace -e "$(cat param.bt)" 4 four`, all, `param 4 four`},
	{`bpftrace -q -e 'begin { exit(); }' -e 'begin { print(2); exit(); }'`, all, ``},
	{`bpftrace -q -e 'begin { exit(); }' param.bt`, output, `WARNING: the script does not read the parameter`}, // bpftrace is silent
	{`bpftrace -q ./param.bt ./param.bt x`, output, ``},
	{`bpftrace -q param.bt -- -1 x`, output, ``},
	{`bpftrace -q param.bt -1 x`, output, ``},
	{`bpftrace -q param.bt 0x10 x`, all, `param 16 x`},
	{`bpftrace -q param.bt 010 x`, all, `param`},
	{`bpftrace -q param.bt 1e3 x`, all, `param`},
	{`bpftrace -q param.bt 1_000 x`, all, `param`},
	{`bpftrace -q param.bt 99999999999999999999 x`, output, ``},
	{`bpftrace -q param.bt '' x`, output, ``},
	{`bpftrace -q param.bt abc x`, output, `unsupported format specifier`},
	{`bpftrace -q param.bt 1`, output, `WARNING: Positional parameter \$2 is empty or not provided`}, // bpftrace is silent about strings
	{`bpftrace -q param.bt 1 "two words"`, all, `param 1 two words\n`},
	{`bpftrace -q param.bt 1 2 3 4`, output, `WARNING: the script does not read the last 2 parameters`}, // bpftrace is silent
	{`bpftrace .`, status, ``},
	{`bpftrace /`, status, ``},
	{`bpftrace empty.bt`, own, `the script has no probes`}, // bpftrace says so on standard output
	{`bpftrace crlf.bt`, all, ``},
	{`bpftrace bom.bt`, own, `^bom\n`}, // bpftrace refuses the mark that editors leave
	{`bpftrace -d -e 'begin { exit(); }'`, status, ``},
	{`bpftrace -dd -e 'begin { exit(); }'`, status, ``},
	{`bpftrace -o`, output, `option -o needs a value`},
	{`bpftrace -q -o /dev/null -e 'begin { print(1); exit(); }'`, all, `^$`},
	{`bpftrace -q -o /dev/stderr -e 'begin { print(1); exit(); }'`, all, `^1\n`},
	{`bpftrace -q -o sub/out -e 'begin { print(1); exit(); }'`, output, `sub/out`},
	{`bpftrace -p '' -e 'begin { exit(); }'`, own, `Failed to parse pid`}, // bpftrace then traces every process
	{`bpftrace -p 0 -e 'begin { exit(); }'`, output, ``},
	{`bpftrace -p -1 -e 'begin { exit(); }'`, output, ``},
	{`bpftrace -p 1x -e 'begin { exit(); }'`, output, ``},
	{`bpftrace -q -c ./prog -e 'uprobe:./prog:add_up { printf("%d\n", arg0); }'`, all, `^1\n`},
	{`bpftrace -q -c './prog a b' -e 'uprobe:./prog:add_up { printf("%d %d\n", args.a, args.p->x); }'`, all, `^3 3\n`},
	{
		`bpftrace -q -c './prog a' -e 'uprobe:./prog:add_up { printf("%s\n", func); } uretprobe:./prog:main { print(retval); }'`,
		status, // bpftrace finds names only in processes that still live
		`^add_up\n0\n`,
	},
	{`bpftrace -q -c './prog a' -e 'u:./prog:add* { @[probe] = count(); }'`, all, `uprobe:./prog:add_up\]: 1`},
	{`bpftrace -q -c 'sleep 0.2' -e 'tracepoint:syscalls:sys_enter_clock_nanosleep /pid == cpid/ { print(comm); }'`, all, `^sleep\n`},
	{`bpftrace -c 'sleep 0.1' -e 'uprobe:./prog:nosuch { }'`, output, `nosuch`},
	{`bpftrace -e 'uprobe:./absent:main { }'`, output, `absent`},
	{`bpftrace -e 'tracepoint:sched:nosuch { }'`, output, `nosuch`},
	{`bpftrace -e 'kprobe:nosuch_function { }'`, output, `nosuch_function`},
	{`bpftrace -e 'nosuch:x { }'`, output, `nosuch`},
	{`bpftrace -e 'begin { $x = }'`, output, ``},
	{`bpftrace -e 'begin { @x[1] = 1; @x["a"] = 2; }'`, output, ``},
	{`bpftrace -e 'begin { printf("%d\n"); }'`, output, ``},
	{`bpftrace -l | grep -c ^tracepoint:sched:`, all, `^\d+\n$`},
	{`bpftrace -l '' | grep -c ^tracepoint:sched:`, all, ``},
	{`bpftrace -l '*' | grep -c ^tracepoint:sched:`, all, `^\d+\n$`},
	{`bpftrace -l 'tracepoint:syscalls:sys_enter_*' | wc -l`, all, `^\d+\n$`},
	{`bpftrace -l 'tracepoint' | head -3`, all, ``},
	{`bpftrace -l 'kprobe:vfs_*' | wc -l`, own, `\d+\n`},  // bpftrace reads lists that kernels without kprobes do not have
	{`bpftrace -l 'kretprobe:vfs_rea?' | wc -l`, own, ``}, // the same
	{`bpftrace -l 'k:vfs_read,kr:vfs_read'`, own, ``},     // the same
	{`bpftrace -l 'fentry:vfs_read*'`, own, ``},           // the same
	{`bpftrace -lv 'fentry:vfs_read'`, own, ``},           // the same
	{`bpftrace -lv 'fexit:vfs_read'`, own, ``},            // the same
	{`bpftrace -lv 'kfunc:vfs_read'`, own, ``},            // the same
	{`bpftrace -l 'iter:*'`, own, `iter:task\n`},          // the same
	{`bpftrace -lv 'iter:task'`, own, ``},                 // the same
	{`bpftrace -lv 't:raw_syscalls:*'`, all, `long id\n`},
	{`bpftrace -lv 'rawtracepoint:sched_switch'`, status, ``},
	{`bpftrace -l 'begin'`, all, ``},
	{`bpftrace -l 'bench:*'`, own, ``}, // bpftrace lists benchmark::
	{`bpftrace -lv 'enum cpu_usage_stat'`, all, `CPUTIME_USER`},
	{`bpftrace -l 'enum cpu_us*'`, all, `^enum cpu_usage_stat\n`},
	{`bpftrace -lv 'struct file'`, all, `f_op;\n`},
	{`bpftrace -lv 'struct nosuch'`, all, `^$`},
	{`bpftrace -lv 'union bpf_attr'`, all, ``},
	{`bpftrace -l 'struct path,struct file'`, all, ``},
	{`bpftrace -l 'tracepoint:sched:sched_switch' 'tracepoint:sched:sched_wakeup'`, own, `sched_switch\ntracepoint:sched:sched_wakeup\n$`}, // bpftrace prints its help
	{`bpftrace -l -q 'software:cpu*'`, all, ``},
	{`bpftrace -l maps.bt`, all, ``},
	{`bpftrace --info | head -1`, all, `^System\n`},
	{`bpftrace --info | grep -oE '^[A-Z].*$' | tr '\n' ,`, own, `System,Build,Kernel helpers,Kernel features,Map types,Probe types,`}, // spaces follow some headings there
	{`bpftrace --info | grep -E '^  (OS|btf|module btf|uprobe_multi|kprobe_multi|loop|map batch):? '`, status, ``},
	{`bpftrace -V | cut -d' ' -f1`, all, `^bpftrace\n`},
	{`BPFTRACE_MAX_STRLEN=abc bpftrace -q -e 'begin { exit(); }'`, own, `Invalid value for max_strlen. Found: abc`}, // status 2 there
	{`BPFTRACE_STRLEN=100 bpftrace -q -e 'begin { exit(); }'`, output, `has been renamed to max_strlen`},
	{`BPFTRACE_MAX_BPF_PROGS=1 bpftrace -q -e 'begin { exit(); } end { } interval:s:1 { }'`, own, `exceeds the current limit of 1`}, // bpftrace counts the programs of one pattern alone
	{`BPFTRACE_LAZY_SYMBOLICATION=1 BPFTRACE_USE_BLAZESYM=0 BPFTRACE_SHOW_DEBUG_INFO=0 bpftrace -q -e 'begin { exit(); }'`, output, `lazy_symbolication has no effect here`},
	{`BPFTRACE_ON_STACK_LIMIT=16 bpftrace -q -e 'begin { print("a longer string than that"); exit(); }'`, output, `longer`},
	{`BPFTRACE_PRINT_MAPS_ON_EXIT=false bpftrace -q -e 'begin { @x = 1; exit(); }'`, all, ``},
	{`BPFTRACE_PRINT_MAPS_ON_EXIT=maybe bpftrace -q -e 'begin { @x = 1; exit(); }'`, own, `Invalid value for print_maps_on_exit. Found: maybe`}, // status 2 there
	{`BPFTRACE_LOG_SIZE=4096 bpftrace -q -e 'begin { exit(); }'`, output, ``},
	{`BPFTRACE_MAX_AST_NODES=2 bpftrace -q -e 'begin { print(1 + 2); exit(); }'`, all, ``},
	{`BPFTRACE_COLOR=sometimes bpftrace -q -e 'begin { exit(); }'`, output, ``},
	{`NO_COLOR=1 bpftrace -e 'begin { nosuch(); }'`, output, ``},
	{`BPFTRACE_LICENSE=MIT bpftrace -q -e 'begin { exit(); }'`, own, `Invalid value for license. Found: MIT`}, // status 2 there
	{`bpftrace --unsafe=1 -e 'begin { exit(); }'`, output, ``},
	{`bpftrace --unsaf -q -e 'begin { exit(); }'`, own, `unknown option --unsaf; did you mean --unsafe\?`}, // options cannot be shortened
	{`bpftrace --vers`, own, `unknown option --vers`},                                                      // the same
	{`bpftrace --v`, output, ``},
	{`bpftrace -qq -e 'begin { print(1); exit(); }'`, all, `^1\n`},
	{`bpftrace -vv -q -e 'begin { exit(); }'`, output, ``},
	{`bpftrace -c 'sleep 9' -q -e 'begin { exit(); }'`, all, ``},
	{`bpftrace -q --dry-run -e 'begin { print(1); } interval:s:1 { }'`, all, ``},
	{`bpftrace -q -I /usr/include -e '#include <linux/types.h>
begin { print(1); exit(); }'`, own, `^1\n`}, // bpftrace needs the headers of the architecture, too
}

// noise matches bpftrace's messages about the machine of the tests.
var noise = regexp.MustCompile(`(?m)^(WARNING: Could not read functions from|WARNING: .*RLIMIT_MEMLOCK|` +
	`WARNING: The kernel contains bpf_iter__|/bin/sh: warning:).*\n`)

const program = `struct point { int x; long y; };
int add_up(int a, struct point *p, const char *s) { return a + p->x + s[0]; }
int main(int c, char **v) { struct point p = {c, 2}; return add_up(c, &p, v[0]) < 0; }
`

func TestHabits(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("skipped: not root")
	}
	if _, err := os.Stat(kerneltypes.Path); err != nil {
		t.Skip("skipped: this kernel has no BTF")
	}
	bin := t.TempDir()
	cmd := exec.Command("go", "build", "-o", bin, "btc/cmd/btc", "btc/cmd/btrun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.Symlink("btc", filepath.Join(bin, "bpftrace")); err != nil {
		t.Fatal(err)
	}
	ours := typist{files(t), bin}
	var theirs *typist
	if _, err := os.Stat("../../build/oracle/root/usr/bin/bpftrace"); err == nil {
		theirs = &typist{files(t), oracle(t)}
	} else {
		t.Log("build/oracle has no bpftrace: btc runs alone")
	}
	compiled := exec.Command("gcc", "-g", "-O0", "-o", "prog", "-xc", "-")
	compiled.Dir, compiled.Stdin = ours.dir, strings.NewReader(program)
	hasProgram := compiled.Run() == nil
	if hasProgram {
		copyFile(t, filepath.Join(ours.dir, "prog"), filepath.Join(ours.dir, "bin/also"))
		if theirs != nil {
			copyFile(t, filepath.Join(ours.dir, "prog"), filepath.Join(theirs.dir, "prog"))
			copyFile(t, filepath.Join(ours.dir, "prog"), filepath.Join(theirs.dir, "bin/also"))
		}
	}
	compared, late := 0, false
	for _, h := range habits {
		if !hasProgram && strings.Contains(h.line, "prog") || !regexp.MustCompile(*only).MatchString(h.line) {
			continue
		}
		var have, want result
		var both sync.WaitGroup
		compare := theirs != nil && h.same != own
		if deadline, limited := t.Deadline(); compare && limited && time.Until(deadline) < 3*time.Minute {
			if !late {
				t.Logf("from %s on, habits are not compared: the time is over", h.line)
			}
			late, compare = true, false
		}
		if compare {
			both.Go(func() { want = theirs.types(t, h.line) })
		}
		have = ours.types(t, h.line)
		both.Wait()
		if !regexp.MustCompile(h.want).MatchString(have.out + have.err) {
			t.Errorf("%s\noutput:\n%s\nno match of %s", h.line, have, h.want)
		}
		if !compare {
			continue
		}
		compared++
		switch {
		case have.status != want.status,
			h.same <= output && have.out != want.out,
			h.same == all && have.err != want.err:
			t.Errorf("%s\noutput:\n%s\nof bpftrace:\n%s", h.line, have, want)
		}
	}
	t.Logf("%d habits, %d compared with bpftrace", len(habits), compared)
}

// typist runs commands in a directory; bin is the first directory of PATH.
type typist struct{ dir, bin string }

// result is the result of a command.
type result struct {
	out, err string
	status   int
}

func (r result) String() string {
	return fmt.Sprintf("%sstandard error: %sstatus %d", r.out, r.err, r.status)
}

func (y typist) types(t *testing.T, line string) result {
	t.Helper()
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir = y.dir
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BPFTRACE_") || strings.HasPrefix(v, "NO_COLOR=")
	}), "PATH="+y.bin+":"+os.Getenv("PATH"), "PWD="+y.dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = 5 * time.Second
	timer := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	defer timer.Stop()
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Errorf("%s: %v", line, err)
		return result{status: -1}
	}
	// The two directories have names of the same length, so that columns line up.
	own := func(b []byte) string { return strings.ReplaceAll(string(b), y.dir, "DIR") }
	said := strings.ReplaceAll(noise.ReplaceAllString(own(errs.Bytes()), ""), " \n", "\n")
	return result{own(out.Bytes()), said, cmd.ProcessState.ExitCode()}
}

// files returns a directory with the scripts.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir() // below /tmp, which is also visible in the root directory of bpftrace
	for name, text := range scripts {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, data, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// oracle returns a directory with a program called bpftrace that runs the one in build/oracle, with the
// usual PATH, because otherwise it would find itself.
func oracle(t *testing.T) string {
	t.Helper()
	tool, err := filepath.Abs("../setup/bpftrace-oracle")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := "#!/bin/sh\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin exec '" + tool + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "bpftrace"), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
