package ir

// Rules of walks over maps: mapiter, mapnext, and what reads an element.

// ruleWalk wants a keyed map of the script; mapnext gives a value of it.
func ruleWalk(c *checker, v *Value) {
	x := c.names.maps[v.Args[0].Sym]
	switch {
	case x.Key == nil:
		c.at(v, "the scalar map %s has no elements to walk", x.Name)
	case v.Op == OpMapNext && v.Type != TMapVal(x.Name, true):
		c.at(v, "result must be %s", TMapVal(x.Name, true))
	case v.Op == OpMapNext && v.Args[1].Op != OpMapIter && v.Args[1].Op != OpParam:
		c.at(v, "%s is no walk", v.Args[1])
	}
}

// ruleRange wants a loop that was begun.
func ruleRange(c *checker, v *Value) {
	if begun := v.Args[0].Op; begun != OpRangeIter && begun != OpParam {
		c.at(v, "%s is no loop over a range", v.Args[0])
	}
}

// ruleCut wants a loop that was begun, and a message.
func ruleCut(c *checker, v *Value) {
	ruleRange(c, v)
	ruleDivZero(c, v)
}

// ruleElem wants the value of an element as mapnext gave it.
func ruleElem(c *checker, v *Value) {
	elem := v.Args[len(v.Args)-1]
	if elem.Type.Kind != MapVal {
		c.at(v, "%s is no element of a map", describe(elem.Type))
		return
	}
	name := elem.Type.Sym
	if v.Op != OpMapKey {
		name = v.Args[0].Sym
	}
	x := c.names.maps[name]
	switch {
	case x == nil || x.Key == nil:
		c.at(v, "%s is no keyed map", name)
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

// keepsPointer reports whether 8 bytes at p keep what the kernel knows of a
// pointer stored there: the stack does, in words of 8 bytes (all versions).
func keepsPointer(p *Value, m MemKind) bool { return p.Type.Kind == Stack && m == U64 }
