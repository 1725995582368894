// SPDX-License-Identifier: Apache-2.0

package diag

// Codes for attach points and for names that the target lacks: E03xx and W03xx.
const (
	BadProbeType      Code = "E0301"
	BadAttachPoint    Code = "E0302"
	BadTarget         Code = "E0303"
	TargetUnsupported Code = "E0304"
	LeftOut           Code = "W0301"
)

var targetCodes = []Info{
	{TargetUnsupported, "one of the requested targets cannot be supported",
		"With several --target or --arch options, one object must be correct for all of them. Something that the script uses does not exist in one of them, or has a different type or offset there. Compile an object for each of them, or use something that all of them have."},
	{LeftOut, "the object does not support every architecture",
		"Unless --arch or --target says otherwise, an object supports x86_64 and arm64. Something that the script uses exists on only one of them, or differs in a way that one object cannot resolve. The object supports only that architecture, and btrun refuses it on others. Use --arch, for example --arch x86_64, to confirm that this is intended."},
	{BadTarget, "the target file is damaged",
		"The file given with --target could not be read completely. It may have been cut off while it was copied: copy it again, or make it again with `btc target capture`. Without --target, the embedded target is used."},
	{BadProbeType, "unknown kind of probe",
		"The word before the first ':' of an attach point is the kind of probe: kprobe, kretprobe, fentry, fexit, uprobe, uretprobe, usdt, tracepoint, rawtracepoint, profile, interval, software, hardware, watchpoint, iter, begin, end, self, test, bench, or one of their short forms. docs/reference/probes.md describes each."},
	{BadAttachPoint, "malformed attach point",
		"The parts of an attach point are separated by ':', and each kind of probe has its own, for example kprobe:function, uprobe:/path:function, tracepoint:category:event, profile:hz:99. docs/reference/probes.md has the form of each kind. Put parts that contain ':' in double quotes."},
}
