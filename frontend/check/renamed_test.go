// SPDX-License-Identifier: Apache-2.0

package check

import (
	"strings"
	"testing"

	"btc/frontend/ast"
)

// TestRenamedMembers checks that for both spellings of a renamed member, the object has both paths.
func TestRenamedMembers(t *testing.T) {
	show := func(s Step) string {
		var parts []string
		for at := &s; at != nil; at = at.Then {
			parts = append(parts, at.CORE+":"+at.Path)
		}
		return strings.Join(parts, " -> ")
	}
	for _, c := range []struct{ expr, want string }{
		{"((struct request *)arg0)->rq_disk", "struct request:rq_disk | struct request:q -> struct request_queue:disk"},
		{"((struct request *)arg0)->q->disk", "struct request:q -> struct request_queue:disk | struct request:rq_disk"},
		{"((struct request *)arg0)->q->nr_requests", "struct request_queue:nr_requests"},
		{"((struct bio *)arg0)->bi_bdev->bd_disk", "struct bio:bi_bdev -> struct block_device:bd_disk | struct bio:bi_disk"},
		{"((struct bio *)arg0)->bi_disk->major", "struct gendisk:major"},
		{"((struct file *)arg0)->f_inode->i_atime.tv_sec", "struct inode:i_atime.tv_sec | struct inode:__i_atime.tv_sec | struct inode:i_atime_sec"},
		{"((struct inode *)arg0)->i_ctime_nsec", "struct inode:i_ctime_nsec | struct inode:i_ctime.tv_nsec | struct inode:__i_ctime.tv_nsec"},
		{"((struct dentry *)arg0)->d_iname[3]", "struct dentry:d_iname[3] | struct dentry:d_shortname.string[3]"},
		{"((struct task_struct *)arg0)->se.statistics.wait_sum", "struct task_struct:se.statistics.wait_sum | struct task_struct:stats.wait_sum"},
		{"((struct task_struct *)arg0)->se.vruntime", "struct task_struct:se.vruntime"},
		{"curtask.state", "struct task_struct:state | struct task_struct:__state"},
		{"curtask.pid", "struct task_struct:pid"},
	} {
		info := mustCheck(t, "kprobe:vfs_read { print("+c.expr+"); }")
		p := exprOf(t, info).Location
		last := p.Steps[len(p.Steps)-1]
		var all []string
		for _, s := range append([]Step{last}, last.Others...) {
			all = append(all, show(s))
		}
		if got := strings.Join(all, " | "); got != c.want {
			t.Errorf("%s: %s, want %s", c.expr, got, c.want)
		}
		if p.Root != RootPointer || ast.Unparen(p.Base) == nil {
			t.Errorf("%s: Root = %d", c.expr, p.Root)
		}
	}
}
