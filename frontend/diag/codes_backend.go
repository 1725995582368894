// SPDX-License-Identifier: Apache-2.0

package diag

// Codes of limits of the machine and of the object: E04xx and W04xx.
const (
	CannotCompile Code = "E0401"
)

var backendCodes = []Info{
	{CannotCompile, "the script does not fit a BPF program",
		"The program exceeds a limit of BPF: the 512-byte stack frame, the number of instructions, the distance of a jump, or an access that one instruction cannot express. The message says which, and where. Splitting the clause, shorter strings (config max_strlen) or fewer keys help."},
}
