// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	"btc/frontend/diag"
	"btc/frontend/expand"
	"btc/frontend/parse"
	"btc/targets/kernel"
)

// BenchmarkCheck checks a script that walks kernel structs. The target has not decoded any types yet,
// as at the start of a compilation.
func BenchmarkCheck(b *testing.B) {
	const text = `
#include <net/sock.h>
kprobe:tcp_connect {
  $sk = (struct sock *)arg0;
  if ($sk->__sk_common.skc_family == AF_INET) {
    printf("%s %s %d\n", comm, ntop($sk->__sk_common.skc_daddr), curtask->real_parent->pid);
  }
  @[kstack, comm] = count();
}
tracepoint:syscalls:sys_enter_openat { @f[tid] = args.filename; }
tracepoint:syscalls:sys_exit_openat /@f[tid]/ { printf("%d %s\n", args.ret, str(@f[tid])); delete(@f, tid); }
`
	for b.Loop() {
		b.StopTimer()
		t, err := kernel.Default("x86_64")
		if err != nil {
			b.Fatal(err)
		}
		l := new(diag.List)
		script := parse.Script(diag.NewSource("bench.bt", text), l, expand.Values(IsValue))
		b.StartTimer()
		Check(script, t, nil, l)
		if l.HasErrors() {
			b.Fatal(l.Err())
		}
	}
}
