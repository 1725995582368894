// SPDX-License-Identifier: Apache-2.0

package quit

// Messages of the entry point.
//
//lint:file-ignore U1000 entry_linux_amd64.s reads them
var (
	fewAddresses = "error: the address space is limited to less than 1.5 GiB (ulimit -v); raise the limit\n"
	littleData   = "error: the memory for data is limited to less than 256 MiB (ulimit -d); raise the limit\n"
	fewThreads   = "error: processes and threads of this user are limited to less than 16 (ulimit -u); raise the limit\n"
)
