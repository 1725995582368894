package diag

// Codes of attach points and of what the target lacks: E03xx and W03xx.
const (
	BadProbeType   Code = "E0301"
	BadAttachPoint Code = "E0302"
	BadTarget      Code = "E0303"
)

var targetCodes = []Info{
	{BadTarget, "the target file is damaged",
		"The file given with --target could not be read to the end. Capture it again with `btc target capture`, or leave --target out to use the embedded one."},
	{BadProbeType, "no such kind of probe",
		"The word before the first ':' of an attach point names the kind of probe: kprobe, kretprobe, fentry, fexit, uprobe, uretprobe, usdt, tracepoint, rawtracepoint, profile, interval, software, hardware, watchpoint, iter, begin, end, self, or one of their short forms (k kr u ur U t rt p i s h w it)."},
	{BadAttachPoint, "the attach point has a wrong form",
		"Each kind of probe takes a fixed number of parts between ':' characters, for example kprobe:function, uprobe:/path:function, tracepoint:category:event, profile:hz:99."},
}
