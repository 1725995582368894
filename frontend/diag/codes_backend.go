// SPDX-License-Identifier: Apache-2.0

package diag

// Codes for limits of the machine and of the object: E04xx and W04xx.
const (
	CannotCompile Code = "E0401"
)

var backendCodes = []Info{
	{CannotCompile, "the script does not fit a BPF program",
		"The program exceeds a limit of BPF: the 512-byte stack frame, the number of instructions, the distance of a jump, or an access that one instruction cannot express. The message names the limit and the position. Split the clause, use shorter strings (config max_strlen), or use fewer keys."},
}
