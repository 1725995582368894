package diag

// Codes of limits of the machine and of the object: E04xx and W04xx.
const ()

var backendCodes = []Info{}
