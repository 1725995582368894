package passes

import "btc/ir"

// range decides comparisons by what is known of the numbers: by their
// definitions and by the branches that dominate the comparison. So it also
// drops a null test behind another one of the same pointer, and a repeated
// condition. It knows no more than the kernel verifier does on 5.10, which
// therefore never misses a check that went.
//
// requires:    -
// establishes: no icmp or branch whose answer its block's dominators fix
// invalidates: use counts, ranges (edges are changed by simplify-cfg later)
//
//	b0(v0:ctx):
//	  v1:i64 = load.u8 [v0+8]
//	  v2:i1 = icmp ult v1, 10
//	  br v2, b1, b2
//	b1:
//	  v3:i1 = icmp ugt v1, 20
//	  br v3, b3, b4
//	->
//	b0(v0:ctx):
//	  v1:i64 = load.u8 [v0+8]
//	  v2:i1 = icmp ult v1, 10
//	  br v2, b1, b2
//	b1:
//	  br false, b3, b4
func decideRanges(m *ir.Module) []ir.Diag {
	for _, f := range m.Funcs {
		rangesFunc(f)
	}
	return nil
}

func rangesFunc(f *ir.Func) {
	d := ir.Dominators(f)
	rs := ir.NewRanges(f, d)
	subst := ir.Subst{}
	for _, b := range d.Order {
		for _, v := range b.Values {
			if v.Op != ir.OpICmp {
				continue
			}
			if n, ok := rs.At(v, b).Const(); ok {
				subst[v] = ir.Bool(n&1 != 0)
			} else if yes, known := decide(rs, v, b); known {
				subst[v] = ir.Bool(yes)
			}
		}
	}
	type decided struct {
		term *ir.Term
		yes  bool
	}
	var terms []decided
	for _, b := range d.Order {
		t := &b.Term
		if t.Kind != ir.Br || t.Arg.IsConst() || subst[t.Arg] != nil {
			continue
		}
		if n, ok := rs.At(t.Arg, b).Const(); ok {
			terms = append(terms, decided{t, n&1 != 0})
		} else if t.Arg.Op == ir.OpICmp {
			if yes, known := decide(rs, t.Arg, b); known {
				terms = append(terms, decided{t, yes})
			}
		}
	}
	for _, x := range terms { // not before: the analysis reads the terminators
		x.term.Arg = ir.Bool(x.yes)
	}
	subst.Apply(f)
	for _, b := range f.Blocks {
		keep := b.Values[:0]
		for _, v := range b.Values {
			if subst[v] == nil {
				keep = append(keep, v)
			}
		}
		b.Values = keep
	}
}

// decide answers a comparison in block b.
func decide(rs *ir.Ranges, v *ir.Value, b *ir.Block) (yes, known bool) {
	return v.Cond.Decide(rs.At(v.Args[0], b), rs.At(v.Args[1], b))
}
