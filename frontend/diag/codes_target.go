// SPDX-License-Identifier: Apache-2.0

package diag

// Codes of attach points and of what the target lacks: E03xx and W03xx.
const (
	BadProbeType   Code = "E0301"
	BadAttachPoint Code = "E0302"
	BadTarget      Code = "E0303"
	NotServed      Code = "E0304"
	LeftOut        Code = "W0301"
)

var targetCodes = []Info{
	{NotServed, "one of the requested targets cannot be supported",
		"With several --target or --arch, one object must be right for all of them. What the script uses here does not exist for one of them, or has a different type or offset. Compile a separate object for that one, or use something that all have."},
	{LeftOut, "the object does not support every architecture",
		"Unless --arch or --target says otherwise, an object supports x86_64 and arm64. What the script uses here exists on only one of them, or differs in a way that one object cannot resolve. The object supports that one only, and btrun refuses it elsewhere. --arch x86_64 confirms that this is intended."},
	{BadTarget, "the target file is damaged",
		"The file given with --target could not be read to the end. Capture it again with `btc target capture`, or leave --target out to use the embedded one."},
	{BadProbeType, "no such kind of probe",
		"The word before the first ':' of an attach point names the kind of probe: kprobe, kretprobe, fentry, fexit, uprobe, uretprobe, usdt, tracepoint, rawtracepoint, profile, interval, software, hardware, watchpoint, iter, begin, end, self, or one of their short forms (k kr u ur U t rt p i s h w it)."},
	{BadAttachPoint, "the attach point has a wrong form",
		"Each kind of probe has a fixed number of parts between ':' characters, for example kprobe:function, uprobe:/path:function, tracepoint:category:event, profile:hz:99."},
}
