package check

// Function is one row of the table of builtins and functions. frontend/build
// finds what to emit by Name.
type Function struct {
	Name string
	// Agg: an aggregation (count, hist, ...), which is assigned to a map.
	Agg bool
	// Exits: the call ends the program (exit).
	Exits bool
	// Supported: the whole path from here to the loader can do it.
	Supported bool
}
