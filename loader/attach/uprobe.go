package attach

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/ianlancetaylor/demangle"

	"btc/loader/host"
	"btc/loader/manifest"
	"btc/loader/symbols"
)

// expandUprobe finds the files and, in each, the functions' offsets.
func expandUprobe(x *expander, p *manifest.Program) (Plan, error) {
	a := &p.Attach
	paths, err := findBinaries(a.Target, x.opts.PID)
	if err != nil {
		return Plan{}, err
	}
	plan := Plan{}
	for _, path := range paths {
		matches, err := matchFile(p, path)
		if err != nil {
			return Plan{}, err
		}
		plan.Matches = append(plan.Matches, matches...)
	}
	if len(plan.Matches) == 0 {
		return Plan{}, noMatch(p.Kind, a.Target+":"+a.Name)
	}
	if len(plan.Matches) > 1 && len(paths) == 1 && !p.UsesID && x.host.UprobeMulti() {
		plan.Multi, plan.AttachType = true, ebpf.AttachTraceUprobeMulti
	}
	return plan, nil
}

// matchFile finds an attach point's places in one file; none is no error.
func matchFile(p *manifest.Program, path string) ([]Match, error) {
	a := &p.Attach
	f, err := elf.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	if f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN {
		return nil, fmt.Errorf("%s is neither a program nor a shared library", path)
	}
	text := p.Kind + ":" + path + ":"
	if a.Name == "" {
		off, ok := symbols.FileOffset(f, a.Addr)
		if !ok {
			return nil, fmt.Errorf("%s has no code at address %#x", path, a.Addr)
		}
		return []Match{{Text: fmt.Sprintf("%s%d", text, a.Addr), Path: path, Offset: off}}, nil
	}
	funcs, err := symbols.Functions(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []Match
	seen := map[uint64]bool{}
	for _, s := range pick(funcs, a) {
		off, ok := symbols.FileOffset(f, s.Value)
		if !ok || seen[off] {
			continue
		}
		seen[off] = true
		if a.Offset > 0 && s.Size > 0 && a.Offset >= s.Size {
			return nil, fmt.Errorf("offset %d is outside of %s, which has %d bytes", a.Offset, s.Name, s.Size)
		}
		m := Match{Text: text + s.Name, Name: s.Name, Path: path, Offset: off + a.Offset}
		if a.Offset > 0 {
			m.Text = fmt.Sprintf("%s+%d", m.Text, a.Offset)
		}
		out = append(out, m)
	}
	return out, nil
}

// pick chooses the symbols that an attach point names. Of a name in several
// versions the default one counts, where there is one.
func pick(funcs []elf.Symbol, a *manifest.Attach) []elf.Symbol {
	var out []elf.Symbol
	for _, s := range funcs {
		name := s.Name
		if a.Lang == "cpp" {
			name = cppName(name)
		}
		if glob(a.Name, name) || a.Lang == "" && name == a.Name {
			out = append(out, s)
		}
	}
	if isPattern(a.Name) || a.Lang != "" {
		return out
	}
	var visible []elf.Symbol
	for _, s := range out {
		if !s.HasVersion || !s.VersionIndex.IsHidden() {
			visible = append(visible, s)
		}
	}
	if len(visible) > 0 {
		out = visible
	}
	slices.SortStableFunc(out, func(a, b elf.Symbol) int {
		return int(int64(a.Value>>1) - int64(b.Value>>1))
	})
	return out
}

// cppName is a C++ function's qualified name without parameters.
func cppName(mangled string) string {
	if !strings.HasPrefix(mangled, "_Z") {
		return ""
	}
	name, err := demangle.ToString(mangled, demangle.NoParams, demangle.NoTemplateParams)
	if err != nil {
		return ""
	}
	return name
}

func attachUprobe(plan *Plan, m *Match, prog *ebpf.Program, o Options, _ *host.Host) (io.Closer, error) {
	ret := plan.Prog.Kind == "uretprobe"
	path := plan.Matches[0].Path
	if m != nil {
		path = m.Path
	}
	ex, err := link.OpenExecutable(path)
	if err != nil {
		return nil, err
	}
	var l link.Link
	switch {
	case plan.Multi:
		mo := &link.UprobeMultiOptions{PID: uint32(o.PID)}
		for i := range plan.Matches {
			mo.Addresses = append(mo.Addresses, plan.Matches[i].Offset)
		}
		if ret {
			l, err = ex.UretprobeMulti(nil, prog, mo)
		} else {
			l, err = ex.UprobeMulti(nil, prog, mo)
		}
	case ret:
		l, err = ex.Uretprobe(m.Name, prog, &link.UprobeOptions{Address: m.Offset, PID: o.PID})
	default:
		l, err = ex.Uprobe(m.Name, prog, &link.UprobeOptions{Address: m.Offset, PID: o.PID})
	}
	if errors.Is(err, ebpf.ErrNotSupported) {
		return nil, fmt.Errorf("this kernel has no uprobes (CONFIG_UPROBE_EVENTS): %w", err)
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}
