// SPDX-License-Identifier: Apache-2.0

package tools

// tool is a test of examples/NAME.bt.
type tool struct {
	name string
	args string // parameters
	// run is a shell command. It runs in an empty directory on a disk, $D; $W is a unique name. Load runs for $T
	// seconds, longer in guests.
	run   string
	needs string // programs that run calls, separated by spaces
	// until is a pattern of what the tool prints before it is ended: what it prints each second comes in its own time.
	until string
	// guest tools run in guests only (TestGuests, and the cases of tests/kernels): they need kprobes, or run disturbs
	// the machine.
	guest bool
	// want are patterns; each matches a line or more of what the tool prints. %W stands for $W.
	want []string
	// same, when set, compares the tool with bpftrace's of the same name: it is the pattern of both.
	same string
	// bpftrace compares the two further, in guests, where nothing else runs.
	bpftrace []pair
	// bcc is the command of libbpf-tools that watches the same workload.
	bcc     string
	bccSame []pair
	// bccGuest: only in guests, whose libbpf-tools are newer.
	bccGuest bool
}

// pair compares what two tools print: the strings that the groups of a pattern match in one output, in any order, are
// those that the other pattern's match in the other.
type pair struct {
	ours, theirs string
	// within, when set, compares sums instead: of the number, or the counts of the histogram, that each group matches;
	// without a group, of the matches. They may differ by this part. Such pairs are for guests.
	within float64
	// part: one of them may have more. bpftrace's tcpdrop leaves out drops without a reason, such as those of
	// retransmits; both other tcplife name the process that runs when the last packet of a connection arrives.
	part bool
}

// exact is for sums that must be equal.
const exact = 1e-9

// rows matches the rows of a histogram.
const rows = `((?:.*\|\n?)+)`

var tools = []tool{
	{name: "opensnoop", run: `cat $D/absent-$W; touch $D/$W; cat $D/$W`,
		want: []string{`cat +-1 +2 \S+/absent-%W$`, `cat +\d+ +0 \S+/%W$`},
		same: files, bcc: "opensnoop", bccSame: []pair{{ours: files, theirs: files}}},
	{name: "execsnoop", run: `/bin/true $W; env /bin/true 2 $W`,
		want: []string{`^\d+ +\d+ +\d+ +/bin/true %W$`, ` /bin/true 2 %W$`},
		same: `(/bin/true .*%W)$`,
		bcc:  "execsnoop", bccSame: []pair{{ours: `(/bin/true .*%W)$`, theirs: `(/bin/true .*%W) *$`}}},
	{
		name: "exitsnoop",
		run:  `cp /bin/sleep $D/$W; $D/$W 0.05; $D/$W 1000 & ` + named + `kill -9 $!; wait $!; cp /bin/false $D/$W.f; $D/$W.f`,
		want: []string{` %W +\d+ +0 +0$`, ` %W +\d+ +0 +9$`, ` %W\.f +\d+ +1 +0$`},
		bcc:  "exitsnoop",
		bccSame: []pair{
			{ours: `^(\d+) +(\d+) +%W +\d+ +0 +0$`, theirs: `^%W +(\d+) +(\d+) +\d+ +[\d.]+ +0$`},
			{ours: `^(\d+) +(\d+) +%W +\d+ +0 +9$`, theirs: `^%W +(\d+) +(\d+) +\d+ +[\d.]+ +signal 9 .*$`},
			{ours: `^(\d+) +(\d+) +%W\.f +\d+ +1 +0$`, theirs: `^%W\.f +(\d+) +(\d+) +\d+ +[\d.]+ +code 1$`},
		},
	},
	{name: "biolatency", run: `dd if=/dev/zero of=$D/$W bs=4k count=32 oflag=direct status=none`,
		want:     []string{`^@us\[\d+, \d+\]:`, `^\[\d+K?, \d+K?\) +\d+ \|`},
		bpftrace: []pair{{ours: `^@us\[\d+, \d+\]: *\n` + rows, theirs: `^@usecs: *\n` + rows, within: 0.05}},
		bcc:      "biolatency", bccSame: []pair{{ours: `^@us\[\d+, \d+\]: *\n` + rows, theirs: bccRows, within: 0.02}}},
	{
		name: "biosnoop",
		run:  `cp /bin/dd $D/$W; sync $D/$W; $D/$W if=/dev/zero of=$D/f bs=4k count=8 oflag=direct status=none`,
		want: []string{` %W +\d+ +\d+:\d+ +WS?\S* +\d+ +4096 +\d+$`},
		same: ` (%W) +(\d+) +(?:\d+:\d+ +W.*)?\d+$`,
		bcc:  "biosnoop",
		bccSame: []pair{{
			ours:   ` (%W) +(\d+) +\d+:\d+ +WS?\S* +(\d+) +(\d+) +\d+$`,
			theirs: ` (%W) +(\d+) +\S+ +WS?\S* +(\d+) +(\d+) +[\d.]+$`}},
	},
	{name: "biostacks", run: `dd if=/dev/zero of=$D/$W bs=4k count=8 oflag=direct status=none`,
		want: []string{`blk_mq_start_request\+\d+`, `^\[\d+K?, \d+K?\) +\d+ \|`},
		// bpftrace's measures another time, from the start of a request to its issue.
		bcc: "biostacks", bccSame: []pair{{ours: ourRows, theirs: bccRows, within: 0.1}}},
	{
		name:    "bitesize",
		run:     `cp /bin/dd $D/$W; sync $D/$W; $D/$W if=/dev/zero of=$D/f bs=4k count=16 oflag=direct status=none`,
		want:    []string{`^@bytes\[%W\]:`, `^\[4K, 8K\) +\d+ \|`},
		same:    `^@\w*\[(%W)\]: *\n((?:\[.*\n)+)`,
		bcc:     "bitesize",
		bccSame: []pair{{ours: `^@bytes\[%W\]: *\n` + rows, theirs: `Process Name = %W *\n.*distribution\n` + rows, within: exact}},
	},
	{
		name:     "runqlat",
		run:      `for i in $(seq 30); do sleep 0.01; done`,
		want:     []string{`^\[\d+, \d+\) +\d+ \|`},
		bpftrace: []pair{{ours: `^@us: *\n` + rows, theirs: `^@usecs: *\n` + rows, within: 0.5}},
		bcc:      "runqlat",
		bccSame:  []pair{{ours: `^@us: *\n` + rows, theirs: bccRows, within: 0.5}},
	},
	{name: "runqlen", run: `for i in 1 2 3 4 5; do timeout $T sh -c 'while :; do :; done' & done; wait`,
		want:     []string{`^@waiting:`, `^\[\d+\] +\d+ \|`},
		bpftrace: []pair{{ours: `^(\[[1-9]\d*\] +\d+ \|)`, theirs: `^(\[[1-9]\d*\] +\d+ \|)`, within: 0.3}},
		bcc:      "runqlen", bccSame: []pair{{ours: `^(\[[1-9]\d*\] +\d+ \|)`, theirs: `^( +[1-9]\d* +: \d+ +\|)`, within: 0.3}}},
	{name: "cpuwalk", run: `timeout $T sh -c 'while :; do :; done'; true`,
		want:     []string{`^@cpu:`, `^\[\d+\] +\d+ \|`},
		bpftrace: []pair{{ours: `^@cpu: *\n` + rows, theirs: `^@cpu: *\n` + rows, within: 0.6}}},
	{name: "offcputime", args: "-- --min=200000", run: `cp /bin/sleep $D/$W; $D/$W 0.3`,
		want: []string{`%W\]: ([2-9]\d{5}|\d{7,})$`, `(do_nanosleep|schedule)\+\d+`},
		bcc:  "offcputime -m 200000", bccSame: []pair{{ours: `%W\]: (\d+)$`, theirs: `^ +- +%W \(\d+\)\n +(\d+)$`, within: 0.05}}},
	{name: "wakeuptime", run: `cp /bin/sleep $D/$W; $D/$W 0.2`, want: []string{`^@us\[%W, `},
		bcc: "wakeuptime", bccSame: []pair{{ours: `^@us\[%W,[^\]]*\]: (\d+)$`, theirs: `target: +%W\n(?:[^:]*\n)?.*waker:.*\n\s+(\d+)$`, within: 0.05}}},
	{name: "syscount", run: `cp /bin/dd $D/$W; $D/$W if=/dev/zero of=/dev/null bs=1 count=500000 status=none`,
		want: []string{`^@syscalls\[read\]: ([5-9]\d{5}|\d{7,})$`, `^@processes\[%W\]: 100\d{4}$`},
		same: `^@process(?:es)?\[(%W)\]: (\d+)$`,
		bcc:  "syscount -P", bccSame: []pair{{ours: `^@processes\[%W\]: (\d+)$`, theirs: `^\d+ +%W +(\d+)$`, within: 1e-5}}},
	{
		name:  "tcplife",
		needs: "bash python3",
		run:   connect,
		want:  []string{`\d+ +%W +127\.0\.0\.1 +\d+ +127\.0\.0\.1 +\d+ +\d+ +\d+ +\d+$`},
		bpftrace: []pair{{
			part:   true,
			ours:   `^(\d+) +(%W) +127\.0\.0\.1 +(\d+) +127\.0\.0\.1 +(\d+) `,
			theirs: `^(\d+) +(%W) +127\.0\.0\.1 +(\d+) +127\.0\.0\.1 +(\d+) `}},
		bcc: "tcplife",
		bccSame: []pair{{
			part:   true,
			ours:   `^(\d+) +(%W) +127\.0\.0\.1 +(\d+) +127\.0\.0\.1 +(\d+) `,
			theirs: `^(\d+) +(%W) +127\.0\.0\.1 +(\d+) +127\.0\.0\.1 +(\d+) `}},
	},
	{name: "tcpconnect", needs: "bash python3", run: connect, want: []string{` +\d+ +%W +127\.0\.0\.1:\d+$`},
		bpftrace: []pair{{ours: ` (\d+) +(%W) +127\.0\.0\.1:(\d+)$`, theirs: ` (\d+) +(%W) +127\.0\.0\.1 +\d+ +127\.0\.0\.1 +(\d+) *$`}},
		bcc:      "tcpconnect", bccSame: []pair{{ours: ` (\d+) +(%W) +127\.0\.0\.1:(\d+)$`, theirs: `^(\d+) +(%W) +4 +127\.0\.0\.1 +127\.0\.0\.1 +(\d+) *$`}}},
	{name: "tcpaccept", guest: true, needs: "bash python3", run: connect,
		want:     []string{` \d+ +python3 +127\.0\.0\.1:\d+ +\d+ +\d+/\d+$`},
		bpftrace: []pair{{ours: ` (\d+) +python3 +127\.0\.0\.1:(\d+) +(\d+) `, theirs: ` (\d+) +python3 +127\.0\.0\.1 +(\d+) +127\.0\.0\.1 +(\d+) `}},
		bcc:      "tcptracer", bccSame: []pair{{ours: ` (\d+) +python3 +127\.0\.0\.1:(\d+) +\d+ `, theirs: `^A (\d+) +python3 +4 +127\.0\.0\.1 +127\.0\.0\.1 +\d+ +(\d+) *$`}}},
	{
		name:  "tcpstates",
		needs: "bash python3",
		run:   connect,
		want:  []string{`CLOSE +-> SYN_SENT`, `SYN_SENT +-> ESTABLISHED`, `-> CLOSE `},
		bcc:   "tcpstates",
		bccSame: []pair{{
			ours:   `^(\w+) +\d+ +127\.0\.0\.1:(\d+) +127\.0\.0\.1:(\d+) +(\w+) +-> (\w+) +\d+$`,
			theirs: `^(\w+) +\d+ +\S+ +127\.0\.0\.1 +(\d+) +127\.0\.0\.1 +(\d+) +(\w+) +-> (\w+) +[\d.]+$`}},
	},
	{
		name:     "tcpsynbl",
		guest:    true,
		needs:    "bash python3",
		run:      connect,
		want:     []string{`^@queued\[\d+\]:`, `^\[\d+\] +\d+ \|`},
		bpftrace: []pair{{ours: ourRows, theirs: ourRows, within: exact}},
		bcc:      "tcpsynbl",
		bccSame:  []pair{{ours: ourRows, theirs: bccRows, within: exact}},
	},
	{
		name:     "tcpretrans",
		needs:    "workload",
		run:      `workload backlog -n 4 -for 2500ms`,
		want:     []string{`^\d+ +127\.0\.0\.1:\d+ +127\.0\.0\.1:\d+ +2$`},
		bpftrace: []pair{{ours: ` 127\.0\.0\.1:(\d+) +127\.0\.0\.1:(\d+) `, theirs: ` 127\.0\.0\.1:(\d+) +127\.0\.0\.1:(\d+) `}},
	},
	{
		name:     "tcpdrop",
		guest:    true,
		needs:    "workload",
		run:      `workload tcp -n 1 -down 1s`,
		want:     []string{`127\.0\.0\.1:\d+ -> 127\.0\.0\.1:\d+ state 1, in \S+`},
		bpftrace: []pair{{ours: ` 127\.0\.0\.1:(\d+) -> 127\.0\.0\.1:(\d+) `, theirs: ` 127\.0\.0\.1:(\d+) +127\.0\.0\.1:(\d+) `, part: true}},
	},
	{name: "writeback", run: `dd if=/dev/zero of=$D/$W bs=64k count=32 status=none; sync`, want: []string{`^\d+ +\S+ +\d+ +2 +\d+$`}, bpftrace: []pair{{ours: `^\d+ +(\d+:\d+) +\d+ +2 +\d+$`, theirs: `^\S+ +(\d+:\d+) +\d+ +sync +[\d.]+$`}}},
	{name: "killsnoop", run: `sleep 5 & kill -9 $!; kill -0 99999999; true`,
		want: []string{` sh +9 +\d+ +0$`, ` sh +0 +99999999 +-3$`},
		same: ` sh +\S*(?:9|SIGKILL) +(\d+) +(0)$`,
		bcc:  "sigsnoop -k", bccSame: []pair{
			{ours: ` (\d+) +sh +9 +(\d+) +0$`, theirs: ` (\d+) +sh +9 +(\d+) (?:.* )?0 *$`},
			{ours: ` (\d+) +sh +0 +(99999999) +(-3)$`, theirs: ` (\d+) +sh +0 +(99999999) (?:.* )?(-3) *$`},
		}},
	{
		name:    "signals",
		run:     `cp /bin/sleep $D/$W; $D/$W 1000 & ` + named + `kill -USR1 $!; wait $!`,
		want:    []string{`^@\[sh, User defined signal 1, %W\]: \d+$`},
		bcc:     "sigsnoop",
		bccSame: []pair{{ours: `^@\[sh, User defined signal 1, %W\]: (\d+)$`, theirs: ` sh +10 +\d+ `, within: exact}},
	},
	{name: "threadsnoop", needs: "thread", run: `cp $(command -v thread) $D/$W; $D/$W`, want: []string{` %W +the_worker$`}, same: ` (%W) +(the_worker)$`},
	{
		name:    "bashreadline",
		needs:   "/bin/bash",
		run:     `echo "echo said-$W" | HISTFILE=/dev/null /bin/bash --norc -i >/dev/null 2>&1`,
		want:    []string{` echo said-%W$`},
		same:    ` (echo said-%W)$`,
		bcc:     "bashreadline",
		bccSame: []pair{{ours: ` (\d+) +(echo said-%W)$`, theirs: ` (\d+) +(echo said-%W)$`}},
	},
	{
		name:    "gethostlatency",
		needs:   "getent",
		run:     `cp $(command -v getent) $D/$W; $D/$W ahosts localhost; $D/$W hosts $W.invalid`,
		want:    []string{` %W +\d+ +localhost$`},
		same:    ` (%W) +\d+ +(localhost)$`,
		bcc:     "gethostlatency",
		bccSame: []pair{{ours: ` (\d+) +(%W) +\d+ +(\S+)$`, theirs: ` (\d+) +(%W) +[\d.]+ +(\S+)$`}},
	},
	{name: "sslsnoop", needs: "openssl", run: tls, want: []string{` %W +SSL_write +1 +\d+$`},
		same: ` (%W) +.*(SSL_write)\b`},
	{name: "ssllatency", needs: "openssl", run: tls, want: []string{`^@us\[SSL_write, true\]:`},
		bpftrace: []pair{
			{ours: `^@us\[\w+, true\]: *\n` + rows, theirs: `^@hist\[\S+\]: *\n` + rows, within: exact},
			{ours: `^@us\[\w+, false\]: *\n` + rows, theirs: `^@histF\[\S+\]: *\n` + rows, within: exact},
		}},
	{name: "statsnoop", run: `stat $D/absent-$W; stat $D >/dev/null; stat -f $D/absent-$W`,
		want:     []string{` stat +2 +\S+/absent-%W$`},
		same:     ` (stat) +(2) +\S+/(absent-%W)$`,
		bccGuest: true, bcc: "statsnoop", bccSame: []pair{{ours: ` (\d+) +stat +(2) +\S+/(absent-%W)$`, theirs: `^(\d+) +stat +-1 +(2) +\S+/(absent-%W) *$`}}},
	{name: "syncsnoop", run: `touch $D/$W; cp /bin/sync $D/s$W; $D/s$W $D/$W; $D/s$W -d $D/$W`,
		want: []string{` s%W +\S*sys_enter_fsync$`, ` s%W +\S*sys_enter_fdatasync$`},
		same: ` (s%W) +(\S+)$`},
	{name: "loads", run: `true`, until: `^\d\d:`, want: []string{`^\d\d:\d\d:\d\d \d+\.\d\d \d+\.\d\d \d+\.\d\d$`},
		bpftrace: []pair{{ours: `^\S+ (\d+\.\d\d) (?:\d+\.\d\d) `, theirs: ` averages: (\d+\.\d\d)\d `, within: 1}}},
	{name: "pidpersec", run: `for i in 1 2 3 4 5 6; do /bin/true; done`, until: `^\d\d:\d\d:\d\d \d+\n\d\d:`, want: []string{`^\d\d:\d\d:\d\d \d+$`}, bpftrace: []pair{{ours: `^\S+ (\d+)$`, theirs: ` PIDs/sec: @: (\d+)$`, within: 0.5}}},
	{name: "setuids", needs: "setpriv", run: `cp $(command -v setpriv) $D/$W; $D/$W --reuid 4321 /bin/true`,
		want: []string{` %W +setresuid +0 +4321 +0$`},
		same: ` (%W) +(?:0 +)?(setresuid) .*\b(4321)\b`},
	{name: "naptime", run: `cp /bin/sleep $D/$W; $D/$W 0.123`,
		want: []string{` %W +\d+ +sh +0\.123$`},
		same: ` (%W) .*0\.(12)`},
	{name: "shmsnoop", needs: "ipcmk ipcrm", run: `id=$(ipcmk -M 12345 | tr -dc 0-9); ipcrm -m $id`,
		want: []string{` ipcmk +shmget  key -?\d+, size 12345, flags \d+$`, ` ipcrm +shmctl  id \d+, command 0$`}},
	{name: "vfscount", guest: true, run: `dd if=/dev/zero of=/dev/null bs=1 count=20000 status=none`,
		want:     []string{`^@calls\[vfs_write\]: 2\d{4}$`},
		bpftrace: []pair{{ours: `^@calls\[vfs_write\]: (\d+)$`, theirs: `^@\[vfs_write\]: (\d+)$`, within: 0.05}}},
	{name: "vfsstat", guest: true, run: `dd if=/dev/zero of=/dev/null bs=1 count=20000 status=none; sleep 1.5`,
		want:     []string{`^\d+ +\d+ +\d+ +\d+ +\d+ +\d+$`},
		bpftrace: []pair{{ours: vfsWrites, theirs: `^@\[vfs_write\]: (\d+)$`, within: 0.05}},
		bcc:      "vfsstat", bccSame: []pair{{ours: vfsWrites, theirs: `^\d\d:\d\d:\d\d *: +\d+ +(\d+) `, within: 0.05}}},
	{name: "fileslower", guest: true, args: "-- --ms=0",
		run:  `cp /bin/dd $D/$W; $D/$W if=/dev/zero of=$D/f-$W bs=4k count=4 status=none; $D/$W if=$D/f-$W of=/dev/null bs=4k status=none`,
		want: []string{` %W +\d+ +W +4096 +\d+ +f-%W$`, ` %W +\d+ +R +4096 +\d+ +f-%W$`},
		bcc:  "fsslower -t ext4 -m 0", bccSame: []pair{{ours: ` (%W) +(\d+) +(R|W) +(\d+) +\d+ +(f-%W)$`, theirs: ` (%W) +(\d+) +(R|W) +(\d+) +\d+ +[\d.]+ +(f-%W)$`}}},
	{name: "ext4dist", guest: true,
		run:  `dd if=/dev/zero of=$D/f bs=4k count=4000 conv=fsync status=none; dd if=$D/f of=/dev/null bs=4k status=none; rm $D/f`,
		want: []string{`^@us\[open\]:`, `^@us\[write\]:`, `^@us\[fsync\]:`, `^@us\[read\]:`},
		bcc:  "fsdist -t ext4", bccSame: distribution[:3]}, // not of open: that of btrun itself, too, is of this file system
	{name: "xfsdist", guest: true, needs: "mkfs.xfs",
		run: `mkfs.xfs -q -f --unsupported /dev/scratch && mkdir $D/m && mount -t xfs /dev/scratch $D/m &&
dd if=/dev/zero of=$D/m/f bs=4k count=50 conv=fsync status=none; dd if=$D/m/f of=/dev/null bs=4k status=none; rm $D/m/f; umount $D/m`,
		want: []string{`^@us\[open\]:`, `^@us\[write\]:`, `^@us\[fsync\]:`, `^@us\[read\]:`},
		bpftrace: []pair{
			{ours: `^@us\[read\]: *\n` + rows, theirs: `^@us\[xfs_file_read_iter\]: *\n` + rows, within: exact},
			{ours: `^@us\[write\]: *\n` + rows, theirs: `^@us\[xfs_file_write_iter\]: *\n` + rows, within: exact},
			{ours: `^@us\[fsync\]: *\n` + rows, theirs: `^@us\[xfs_file_fsync\]: *\n` + rows, within: exact},
			{ours: `^@us\[open\]: *\n` + rows, theirs: `^@us\[xfs_file_open\]: *\n` + rows, within: exact},
		},
		bcc: "fsdist -t xfs", bccSame: distribution},
	{name: "mdflush", guest: true, needs: "/modules/raid1.ko", run: raid,
		want:     []string{`^\d\d:\d\d:\d\d \d+ +\S+ +md_t$`},
		bpftrace: []pair{{ours: mdFlush, theirs: mdFlush}},
		// libbpf-tools of Debian 12 finds no name of the device on kernels as new as 6.12.
		bcc: "mdflush", bccSame: []pair{{
			ours: `(?m)^\d\d:\d\d:\d\d +(\d+) +(\S+) +md_t *$`, theirs: `(?m)^\d\d:\d\d:\d\d +(\d+) +(\S+)`,
		}}},
	{
		name:  "oomkill",
		guest: true,
		args:  "--unsafe",
		run: `cd /sys/fs/cgroup; echo +memory >cgroup.subtree_control; mkdir o; echo 4M >o/memory.max
sh -c 'echo $$ >o/cgroup.procs; exec dd if=/dev/zero of=/dev/null bs=64M count=1' 2>/dev/null; rmdir o; echo -memory >cgroup.subtree_control`,
		want:     []string{`dd \(\d+\) asked for memory: killing dd \(\d+\), of 1024 pages; load [\d.]+ `},
		bpftrace: []pair{{ours: `killing dd \((\d+)\), of (\d+) pages`, theirs: `OOM kill of PID (\d+) \("dd"\), (\d+) pages`}},
		bcc:      "oomkill",
		bccSame:  []pair{{ours: `killing dd \((\d+)\), of (\d+) pages`, theirs: `OOM kill of PID (\d+) \("dd"\), (\d+) pages`}},
	},
	{name: "swapin", guest: true, needs: "mkswap swapon swapoff",
		run: `mkswap /dev/scratch >/dev/null && swapon /dev/scratch; cd /sys/fs/cgroup; echo +memory >cgroup.subtree_control; mkdir s; echo 4M >s/memory.max
sh -c 'echo $$ >s/cgroup.procs; exec dd if=/dev/zero of=/dev/null bs=8M count=3' 2>/dev/null; sleep 1.5; swapoff /dev/scratch; rmdir s; echo -memory >cgroup.subtree_control`,
		want:     []string{`^@\[dd, \d+\]: [1-9]\d*$`},
		bpftrace: []pair{{ours: `^@\[dd, \d+\]: (\d+)$`, theirs: `^@\[dd, \d+\]: (\d+)$`, within: exact}}},
	{name: "dcsnoop", guest: true, run: `cp /bin/cat $D/$W; $D/$W $D/absent-$W $D/absent-too-$W`,
		want:     []string{` %W +\S absent-%W$`},
		bpftrace: []pair{{ours: ` (%W) +[MR] (absent\S*%W)$`, theirs: ` (%W) +M (absent\S*%W)$`}}},
	{name: "capable", guest: true, run: `cp $(command -v chroot) $D/$W; $D/$W / true`,
		want:     []string{` %W +18 +CAP_SYS_CHROOT +1 +0$`},
		bpftrace: []pair{{ours: ` (\d+) +(%W) +(\d+) +(CAP_\w+) `, theirs: ` (\d+) +(%W) +(\d+) +(CAP_\w+) `}},
		bcc:      "capable", bccSame: []pair{{ours: ` (\d+) +(%W) +(\d+) +(CAP_\w+) +1 `, theirs: ` (\d+) +(%W) +(\d+) +(CAP_\w+) +1 `}}},
	{name: "undump", guest: true, needs: "workload", run: `workload unix -text hello-$W`,
		want:     []string{` worker +\d+ +hello-%W`},
		bpftrace: []pair{{ours: ` (\d+) +(?:worker) +(\d+) +(hello-%W)`, theirs: ` worker +(\d+) +(\d+) +(hello-%W)`}}},
}

const (
	// files is a pattern of opensnoop's lines, of all three.
	files = `(cat|touch) +(\S+) +(\d+) \S+/((?:absent-)?%W)$`
	// ourRows are the rows of all histograms, bccRows are those of libbpf-tools.
	ourRows   = `\]: *\n` + rows
	bccRows   = `distribution\n` + rows
	vfsWrites = `^\d+ +\d+ +(\d+) +\d+ +\d+ +\d+$`
	mdFlush   = `^\d\d:\d\d:\d\d +(\d+) +(\S+) +(md_t) *$`
)

// distribution compares ext4dist and xfsdist with fsdist.
var distribution = []pair{
	{ours: `^@us\[read\]: *\n` + rows, theirs: `operation = '?read'?\n.*distribution\n` + rows, within: 0.05},
	{ours: `^@us\[write\]: *\n` + rows, theirs: `operation = '?write'?\n.*distribution\n` + rows, within: 0.05},
	{ours: `^@us\[fsync\]: *\n` + rows, theirs: `operation = '?fsync'?\n.*distribution\n` + rows, within: 0.05},
	{ours: `^@us\[open\]: *\n` + rows, theirs: `operation = '?open'?\n.*distribution\n` + rows, within: 0.05},
}

// named waits until the last background process is named $W: at first it is a copy of the shell.
const named = `until [ "$(cat /proc/$!/comm)" = $W ]; do sleep 0.01; done; `

// connect opens a connection from a process named $W to a listening port.
const connect = `cp $(command -v bash) $D/$W
python3 -c 'import os,socket,sys
s = socket.create_server(("127.0.0.1", 0))
with open(sys.argv[1] + ".new", "w") as f: f.write(str(s.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
c, _ = s.accept(); c.recv(10); c.close()' $D/port &
until [ -e $D/port ]; do sleep 0.05; done; port=$(cat $D/port)
$D/$W -c "exec 3<>/dev/tcp/127.0.0.1/$port; echo hi >&3; cat <&3"; wait`

// tls sends a byte from a process named $W to a server of this machine, with a key that both have.
const tls = `cd $D; cp $(command -v openssl) $W; port=$((20000 + $$ % 20000))
openssl s_server -nocert -psk 1a2b -accept $port -naccept 1 -www </dev/null >/dev/null 2>&1 & server=$!
for i in $(seq 300); do
	sleep 0.1; kill -0 $server || break; echo | ./$W s_client -psk 1a2b -connect 127.0.0.1:$port >/dev/null 2>&1 && break
done; kill $server 2>/dev/null; wait`

// raid makes a RAID 1 of one disk, md_t, by sysfs alone, as a program with metadata of its own does,
// and writes to it and waits.
const raid = `echo md_t >/sys/module/md_mod/parameters/new_array && cd /sys/block/md_t/md || exit
echo none >metadata_version; echo raid1 >level; echo 1 >raid_disks; echo 4096 >component_size
cat /sys/block/$(basename $(readlink -f /dev/scratch))/dev >new_dev
for d in dev-*; do echo 0 >$d/offset; echo 4096 >$d/size; echo 0 >$d/slot; done; echo active >array_state
dd if=/dev/zero of=/dev/md_t bs=4k count=4 conv=fsync status=none; dd if=/dev/zero of=/dev/md_t bs=4k count=1 oflag=sync status=none
cd /; echo inactive >/sys/block/md_t/md/array_state; echo clear >/sys/block/md_t/md/array_state`
