// SPDX-License-Identifier: Apache-2.0

package ir

// Rules of iterations over maps: mapiter, mapnext, and ops on an element.

// ruleWalk requires a keyed map of the script; mapnext returns a value of it.
func ruleWalk(c *checker, v *Value) {
	x := c.names.maps[v.Args[0].Sym]
	switch {
	case x.Key == nil:
		c.at(v, "cannot iterate over scalar map %s", x.Name)
	case v.Op == OpMapNext && v.Type != TMapVal(x.Name, true):
		c.at(v, "result must be %s", TMapVal(x.Name, true))
	case v.Op == OpMapNext && v.Args[1].Op != OpMapIter && v.Args[1].Op != OpParam:
		c.at(v, "%s is not an iterator", v.Args[1])
	}
}

// ruleRange requires the result of rangeiter.
func ruleRange(c *checker, v *Value) {
	if begun := v.Args[0].Op; begun != OpRangeIter && begun != OpParam {
		c.at(v, "%s is not a range iterator", v.Args[0])
	}
}

// ruleCut requires the result of rangeiter and the index of a message.
func ruleCut(c *checker, v *Value) {
	ruleRange(c, v)
	ruleDivZero(c, v)
}

// ruleElem requires the value of an element, as returned by mapnext.
func ruleElem(c *checker, v *Value) {
	elem := v.Args[len(v.Args)-1]
	if elem.Type.Kind != MapVal {
		c.at(v, "%s is not an element of a map", describe(elem.Type))
		return
	}
	name := elem.Type.Sym
	if v.Op != OpMapKey {
		name = v.Args[0].Sym
	}
	x := c.names.maps[name]
	switch {
	case x == nil || x.Key == nil:
		c.at(v, "%s is not a keyed map", name)
	case elem.Type.Sym != name:
		c.at(v, "%s is an element of another map", elem)
	case v.Op == OpMapKey && v.Type != TMapKey(name):
		c.at(v, "result must be %s", TMapKey(name))
	case v.Op == OpElemGet && !isNumber(v.Type):
		c.at(v, "result cannot be %s", v.Type)
	case v.Op == OpElemGetMem:
		ruleMemMap(c, v)
	}
}

// keepsPointer reports whether 8 bytes at p preserve what the kernel knows of a pointer
// stored there: the stack does, in words of 8 bytes (all versions).
func keepsPointer(p *Value, m MemKind) bool { return p.Type.Kind == Stack && m == U64 }
