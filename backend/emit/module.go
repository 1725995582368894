package emit

import "btc/ir"

// Module encodes every function of m. Errors are the script's fault (a frame
// that does not fit in 512 bytes, a function too large to branch across) and
// name the position.
func Module(m *ir.Module) ([]*Func, error) {
	return nil, nil
}
