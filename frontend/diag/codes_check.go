package diag

// Codes of frontend/check and frontend/cdef: E02xx and W02xx.
const ()

var checkCodes = []Info{}
