package check

import "slices"

// Provider is one kind of probe.
type Provider struct {
	Name string // canonical name; the text of an ir.ProgKind
	Type string // what the probetype builtin gives
	// Min and Max are the numbers of parts that may follow the name.
	Min, Max int
	// User: arguments and pointers are of user space.
	User bool
	// Wildcard: names may hold '*'.
	Wildcard bool
	// Supported: the whole path from here to the loader can do it.
	Supported bool
}

// providers is the table of probe kinds.
var providers = [...]Provider{
	{Name: "begin", Type: "special", Supported: true},
	{Name: "end", Type: "special", Supported: true},
	{Name: "self", Type: "special", Min: 2, Max: 2, Supported: true},
	{Name: "kprobe", Type: "kprobe", Min: 1, Max: 2, Wildcard: true, Supported: true},
	{Name: "kretprobe", Type: "kretprobe", Min: 1, Max: 2, Wildcard: true, Supported: true},
	{Name: "fentry", Type: "fentry", Min: 1, Max: 3, Wildcard: true, Supported: true},
	{Name: "fexit", Type: "fexit", Min: 1, Max: 3, Wildcard: true, Supported: true},
	{Name: "uprobe", Type: "uprobe", Min: 1, Max: 3, User: true, Wildcard: true, Supported: true},
	{Name: "uretprobe", Type: "uretprobe", Min: 1, Max: 3, User: true, Wildcard: true, Supported: true},
	{Name: "usdt", Type: "usdt", Min: 1, Max: 3, User: true, Wildcard: true, Supported: true},
	{Name: "tracepoint", Type: "tracepoint", Min: 2, Max: 2, Wildcard: true, Supported: true},
	{Name: "rawtracepoint", Type: "rawtracepoint", Min: 1, Max: 2, Wildcard: true, Supported: true},
	{Name: "profile", Type: "profile", Min: 1, Max: 2, Supported: true},
	{Name: "interval", Type: "interval", Min: 1, Max: 2, Supported: true},
	{Name: "software", Type: "software", Min: 1, Max: 2, Supported: true},
	{Name: "hardware", Type: "hardware", Min: 1, Max: 2, Supported: true},
	{Name: "watchpoint", Type: "watchpoint", Min: 3, Max: 3, Supported: true},
	{Name: "iter", Type: "iter", Min: 1, Max: 2, Supported: true},
	{Name: "test", Type: "test", Min: 1, Max: 1, Supported: true},
	{Name: "bench", Type: "benchmark", Min: 1, Max: 1, Supported: true},
}

func providerNamed(name string) *Provider {
	i := slices.IndexFunc(providers[:], func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &providers[i]
}
