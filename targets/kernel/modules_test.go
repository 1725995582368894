// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"strings"
	"testing"
)

// TestModules checks that the embedded targets have the types and functions of modules, and of kernels
// with sched_ext, that scripts use.
func TestModules(t *testing.T) {
	for _, arch := range []string{"x86_64", "aarch64"} {
		tgt, err := Default(arch)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"nft_pktinfo", "nft_chain", "nfsd4_compoundres", "svc_rqst", "ieee80211_channel", "cfg80211_bss", "btrfs_inode", "xfs_inode", "nf_conn", "scsi_cmnd", "amdgpu_job", "drm_amdgpu_gem_create_in"} {
			if typ, ok := tgt.Struct(name); !ok || typ.Size == 0 {
				t.Errorf("%s: struct %s: %v, %+v", arch, name, ok, typ)
			}
		}
		for _, name := range []string{"xfs:xfs_file_buffered_read", "nfsd:nfsd_compound_status", "amdgpu:amdgpu_cs", "mac80211:drv_tx_frames_pending", "btrfs:btrfs_get_extent"} {
			category, event, _ := strings.Cut(name, ":")
			if ev, ok := tgt.Tracepoint(category, event); !ok || len(ev.Fields) == 0 || ev.Struct() == nil {
				t.Errorf("%s: %s = %+v, found = %v", arch, name, ev, ok)
			}
		}
		for name, want := range map[string]string{"nft_chain": "nf_tables", "nfsd4_compoundres": "nfsd", "xfs_inode": "xfs", "task_struct": "", "no_such": ""} {
			if got := tgt.ModuleOf(Struct, name); got != want {
				t.Errorf("%s: struct %s: module %q, want %q", arch, name, got, want)
			}
		}
		if f, ok := tgt.Func("nfsd4_encode_operation"); !ok || !f.Traceable || f.Module != "nfsd" || f.Proto == nil {
			t.Errorf("%s: nfsd4_encode_operation: %v, %+v", arch, ok, f)
		}
		task, ok := tgt.Struct("task_struct")
		if !ok {
			t.Fatal("no task_struct")
		}
		scx, ok := task.Field("scx")
		if !ok || !task.Has("scx") {
			t.Fatalf("%s: task_struct has no member scx", arch)
		}
		if dsq, ok := scx.Type.Field("dsq"); !ok || dsq.Type.Elem().Name != "scx_dispatch_q" {
			t.Errorf("%s: dsq: %v, %v", arch, ok, dsq.Type)
		}
		if err := tgt.Err(); err != nil {
			t.Error(err)
		}
	}
}
