// SPDX-License-Identifier: Apache-2.0

package docs

// construct is a feature of the language with a script that uses it. The test compiles the script: the
// compiler decides whether the feature is supported.
type construct struct{ what, script string }

// constructs are the rows of docs/language.md, by section.
var constructs = []struct {
	section string
	rows    []construct
}{
	{"statements", []construct{
		{"assignment, `op=`, `++`, `--`", `begin { $x = 1; $x += 2; $x++; @m = $x; @m -= 1; --@m; }`},
		{"`let`, with type or value", `begin { let $x : uint64 = 5; let $y; $y = $x; print($y); }`},
		{"`_ = e`", `begin { _ = nsecs; }`},
		{"`if`, `else if`, `else`", `begin { if (pid > 1) { @a = 1; } else if pid == 1 { @a = 2; } else { @a = 3; } }`},
		{"`if` as a value", `begin { $x = if pid { 1 } else { 2 }; print($x); }`},
		{"block as a value", `begin { $x = { let $y = 1; $y + 1 }; print($x); }`},
		{"predicate", `begin /pid > 0/ { exit(); }`},
		{"`unroll`", `begin { unroll (3) { @x++; } }`},
		{"`while`", `begin { $i = 0; while ($i < 3) { $i++; } }`},
		{"`for` over a range", `begin { for $i : 0..3 { @ = $i; } }`},
		{"`for` over a map", `begin { @m[1] = 2; for $kv : @m { print($kv); } }`},
		{"`break`, `continue` in `unroll`", `begin { unroll (3) { if (pid) { break; } else { continue; } } }`},
		{"`return`", `begin { if (pid) { return; } @ = 1; }`},
		{"several attach points, labels", `begin, end { @ = count(); }`},
	}},
	{"operators", []construct{
		{"`+ - * / %`", `begin { $a = pid; @ = ($a + 1) * 2 - $a / 3 % 4; }`},
		{"`& | ^ ~ << >>`", `begin { $a = pid; @ = ($a & 1 | 2) ^ ~$a << 3 >> 1; }`},
		{"`== != < <= > >=`, `&& || !`", `begin { if (pid == 1 && tid != 2 || !(uid > 3)) { exit(); } }`},
		{"`c ? a : b`", `begin { @ = pid ? 1 : 2; }`},
		{"`c ?: b`", `begin { @ = pid ?: 2; }`},
		{"comparison of strings", `begin { if (comm == "sh" && comm != str($1)) { exit(); } }`},
		{"`*p`, `p->f`, `p.f`, `p[i]`", `kprobe:f { $p = (struct task_struct *)arg0; @ = $p->pid + $p.tgid; @b = *(uint32 *)arg1; @c = ((uint8 *)arg1)[2]; }`},
		{"`p + n`, `p - n`", `kprobe:f { @ = (int32 *)arg0 + 1; }`},
		{"`&$x`", `begin { $x = 1; @ = (uint64)&$x; }`},
		{"casts of integers, pointers, enums", `kprobe:f { @ = (int8)arg0; @b = (uint32)(int64)-1; $p = (struct sock *)arg0; }`},
		{"casts of integers to arrays and back", `begin { @ = ((uint8[8])nsecs)[0]; }`},
		{"`sizeof`, `offsetof`", `begin { @a = sizeof(struct task_struct); @b = offsetof(struct task_struct, pid); @c = sizeof(uint64); }`},
		{"`comptime`", `begin { @ = comptime (1 + 2); }`},
		{"`typeinfo`", `config = { unstable_typeinfo = enable } begin { print(typeinfo(pid)); }`},
	}},
	{"types", []construct{
		{"integers, `bool`, enums", `enum E { A, B = 5 } begin { $x = (enum E)5; @ = B; let $b : bool = true; print(($x, $b)); }`},
		{"strings, also of declared size", `begin { let $s : string[8] = "abc"; @ = $s; }`},
		{"tuples and their elements", `begin { $t = (1, "a", pid); @ = $t.0; print($t); }`},
		{"records", `begin { $r = (a=1, b="x"); @ = $r.a; print($r); }`},
		{"kernel structs, unions, arrays, bit fields", `kprobe:f { $s = (struct sock *)arg0; @ = $s->__sk_common.skc_family; @c = curtask->comm; @b = ((struct task_struct *)arg0)->in_execve; }`},
		{"whole structs as values", `kprobe:f { @ = *(struct list_head *)arg0; }`},
		{"C strings in structs", `kprobe:f { printf("%s\n", ((struct task_struct *)arg0)->comm); }`},
		{"`buffer`", `kprobe:f { @ = buf(arg0, 8); }`},
		{"stacks, symbols and addresses as keys and values", `kprobe:f { @[kstack, ustack(3)] = count(); @f[func, ksym(arg0)] = count(); @i = ntop(1); }`},
		{"128-bit and floating point values", `struct S { double d; }; kprobe:f { @ = ((struct S *)arg0)->d; }`},
	}},
	{"maps", []construct{
		{"scalar maps, `@`", `begin { @ = 1; @x = "a"; }`},
		{"keys of several parts, of all types above", `begin { @[pid, comm, (1, 2)] = 1; }`},
		{"aggregations, keyed or not", `begin { @a = count(); @b[pid] = sum(1); @c = avg(1); @d = min(1); @e = max(1); @f = stats(1); @g = hist(1, 2); @h = lhist(1, 0, 10, 1); }`},
		{"reading `count`, `sum`, `avg`", `begin { @a = count(); @b = avg(5); if (@a > 1) { print((int64)@b); } }`},
		{"reading `min`, `max`", `begin { @a = min(1); if (@a > 1) { exit(); } }`},
		{"`let @m = hash(N)` and its like", `let @m = lruhash(10); let @c = percpuhash(10); begin { @m[1] = 1; @c[1] = count(); }`},
		{"`delete` in both forms", `begin { @m[1] = 1; delete(@m, 1); delete(@m[1]); @s = 1; delete(@s); }`},
		{"`delete` of several elements at once (older dialects)", `begin { @m[1] = 1; @s = 1; delete(@m[1], @s); }`},
	}},
	{"parameters", []construct{
		{"`$1` as a number and as a string, `$#`", `begin { print($1 + 1); print(str($2)); print($#); }`},
		{"`$1` in an attach point", `kprobe:$1 { @ = count(); } interval:s:$2 { exit(); }`},
		{"`getopt`", `begin { print(getopt("n", 5)); }`},
	}},
	{"top", []construct{
		{"`#include` of kernel and system headers", "#include <net/sock.h>\n#include <linux/in.h>\nbegin { @ = AF_INET; }"},
		{"`#include` of your own file", "#include \"testdata/my.h\"\nbegin { @ = MINE; }"},
		{"`#define` of a constant, of an expression, of a string", "#define N (1 << 4)\n#define P (pid + N)\n#define S \"a\" \"b\"\nbegin { @ = P; print(S); }"},
		{"`#define` with parameters, `#`, `##`, `...`", "#define N(x) (x + 1)\n#define S(x) #x\n#define C(a, b) a##b\n#define L(f, ...) printf(f, ##__VA_ARGS__)\nbegin { @ = N(C(pi, d)); L(S(x)); L(\"%d\", 1); }"},
		{"`#if`, `#ifdef`, `#ifndef`, `#else`, `#endif`", "#ifdef BPFTRACE_HAVE_BTF\n#define N 1\n#else\n#define N 2\n#endif\nbegin { @ = N; }"},
		{"`struct`, `union`, `enum` of the script's own", "struct S { int a; union { long b; char c[8]; }; unsigned d : 3; } __attribute__((packed));\nkprobe:f { $s = (struct S *)arg0; @ = $s->a + $s->b + $s->d; }"},
		{"`typedef`", "typedef unsigned long ul;\nstruct S { ul a; };\nkprobe:f { @ = ((struct S *)arg0)->a; }"},
		{"`config`", `config = { max_strlen = 64; missing_probes = warn } begin { exit(); }`},
		{"`macro`", `macro m($x, @m, e) { $x += e; @m[$x] = e; $x } begin { $a = 1; print(m($a, @b, pid + 1)); assert(true, "never"); }`},
		{"`fn`", `fn f($x : int64) : int64 { return $x; } begin { print(f(1)); }`},
		{"`import`", `import "stdlib"; begin { exit(); }`},
	}},
	{"probes", []construct{
		{"functions with offset, of a module", `kprobe:vfs_read+4, kprobe:kvm:kvm_exit { @ = count(); }`},
		{"patterns: `kprobe:tcp_*`, `tracepoint:sched:*`, `uprobe:/bin/x:a*`", `kprobe:tcp_*, tracepoint:sched:*, uprobe:/bin/sh:a* { @[probe] = count(); }`},
		{"a pattern for the kind of probe", `*:vfs_read { @ = count(); }`},
		{"`args` of tracepoints", `tracepoint:sched:sched_switch { @[args.next_comm, args->next_pid] = count(); }`},
		{"`args` of a pattern (each event has its own fields)", `tracepoint:syscalls:sys_exit_open* { @[args.ret] = count(); }`},
		{"`args` of uprobes, which needs debug information", `uprobe:/bin/sh:main { @ = args.argc; }`},
		{"uprobes by source line", `uprobe:/bin/sh@main.c:1 { @ = count(); }`},
		{"uprobes by C++ name", `uprobe:/bin/sh:cpp:f { @ = count(); }`},
	}},
	{"conversions", []construct{
		{"`%d %i %u %o %x %X %c %p` with flags, width and lengths", `begin { printf("%d %5i %-8u %o %#x %04X %c %p %ld %llu %hx\n", 1, 2, 3, 4, 5, 6, 65, 7, 8, 9, 10); }`},
		{"`%s` of strings and of anything that prints", `begin { printf("%s %16s %-8s %s\n", comm, "a", "b", probe); }`},
		{"`%s` of integers, tuples, symbols, stacks", `kprobe:f { printf("%s %s %s %s\n", pid, (1, 2), ksym(arg0), kstack); }`},
		{"`%%`", `begin { printf("100%%\n"); }`},
		{"`%r`, `%rx`, `%rh`", `kprobe:f { printf("%r %rx %rh\n", buf(arg0, 8), buf(arg0, 8), buf(arg0, 8)); }`},
		{"`%gr`", `begin { printf("%gr\n", 1); }`},
	}},
}
