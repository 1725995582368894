package check

import (
	"strings"

	"btc/frontend/ast"
	"btc/frontend/diag"
)

// Probes that no event of the kernel fires: the loader runs them.

// ownSignals are those that a self probe may wait for.
const ownSignals = "SIGUSR1"

// self reads "signal:SIGUSR1".
func (c *checker) self(p *Point, parts []ast.AttachPart) bool {
	p.Target, p.Name = parts[0].Text, parts[1].Text
	switch {
	case p.Target != "signal":
		c.fail(diag.BadAttachPoint, parts[0], "%s is not a supported trigger", p.Target).Hint("self:signal:%s", ownSignals)
		return false
	case p.Name != ownSignals:
		c.fail(diag.BadAttachPoint, parts[1], "%s is not a supported signal", p.Name).Hint("self:signal:%s", ownSignals)
		return false
	}
	return true
}

// named reads the name of a test or benchmark, which no other one may have.
func (c *checker) named(p *Point, ap *ast.AttachPoint, part ast.AttachPart) bool {
	if p.Name = part.Text; p.Name == "" {
		c.fail(diag.BadAttachPoint, ap, "%s probes must have a name", p.Kind)
		return false
	}
	for _, other := range c.info.Programs {
		if other.Point.Kind == p.Kind && other.Point.Name == p.Name {
			c.fail(diag.BadAttachPoint, ap, "%q was used as the name for more than one %s probe", p.Name, strings.ToUpper(p.Kind)).
				Note(other.Point.At, "this is the other instance")
			return false
		}
	}
	return true
}
