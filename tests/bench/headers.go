// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
)

// headers are the kernel headers that scripts of the corpus include, reduced to the constants that they
// use, for a bpftrace without kernel headers. Types come from BTF, as in btc.
var headers = map[string]string{
	"linux/dcache.h":   "",
	"linux/fs.h":       "struct qstr { union { struct { unsigned int hash; unsigned int len; }; unsigned long long hash_len; }; const unsigned char *name; };\n",
	"linux/icmp.h":     "#define ICMP_ECHO 8\n",
	"linux/in.h":       "#include <linux/socket.h>\n",
	"linux/ip.h":       "",
	"linux/oom.h":      "",
	"linux/sched.h":    "#define TASK_RUNNING 0\n",
	"linux/skbuff.h":   "",
	"linux/socket.h":   "#define AF_INET 2\n#define AF_INET6 10\n",
	"linux/tcp.h":      "",
	"linux/time.h":     "",
	"net/sock.h":       "#include <linux/socket.h>\n",
	"net/tcp_states.h": "",
}

// writeHeaders writes the headers below dir.
func writeHeaders(dir string) error {
	for name, text := range headers {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
