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
		"With several --target or --arch options, one object must be correct for all of them. Something that the script uses here does not exist in one of them, or has a different type or offset there. Compile a separate object for that one, or use something that all of them have."},
	{LeftOut, "the object does not support every architecture",
		"Unless --arch or --target says otherwise, an object supports x86_64 and arm64. Something that the script uses here exists on only one of them, or differs in a way that one object cannot resolve. The object supports only that architecture, and btrun refuses it on others. Use --arch, for example --arch x86_64, to confirm that this is intended."},
	{BadTarget, "the target file is damaged",
		"The file given with --target could not be read completely. Capture it again with `btc target capture`, or omit --target to use the embedded target."},
	{BadProbeType, "unknown kind of probe",
		"The word before the first ':' of an attach point names the kind of probe: kprobe, kretprobe, fentry, fexit, uprobe, uretprobe, usdt, tracepoint, rawtracepoint, profile, interval, software, hardware, watchpoint, iter, begin, end, self, or one of their short forms (k kr u ur U t rt p i s h w it)."},
	{BadAttachPoint, "malformed attach point",
		"The parts of an attach point are separated by ':', and each kind of probe has a fixed number of them, for example kprobe:function, uprobe:/path:function, tracepoint:category:event, profile:hz:99."},
}
