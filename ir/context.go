package ir

// ContextUse says what a function does with its context.
type ContextUse struct {
	Loads []int // offsets of loads from it, in bytes, in order of the code
	Other bool  // anything else: it is given to a helper, or an address is made of it
}

// Any reports whether the context is used at all.
func (c ContextUse) Any() bool { return len(c.Loads) > 0 || c.Other }

// UsesOfContext returns what a program does with its context, in high and in core IR.
func UsesOfContext(f *Func) ContextUse {
	var c ContextUse
	ctx := f.Entry().Params[0]
	for _, b := range f.Blocks {
		for _, v := range b.Values {
			for i, a := range v.Args {
				switch {
				case a != ctx:
				case v.Op == OpLoad && i == 0 && v.CORE.Type == "":
					c.Loads = append(c.Loads, int(v.Imm))
				default:
					c.Other = true
				}
			}
		}
		b.Term.Uses(func(v **Value) { c.Other = c.Other || *v == ctx })
	}
	return c
}
