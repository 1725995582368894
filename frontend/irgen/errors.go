// SPDX-License-Identifier: Apache-2.0

package irgen

import (
	"strconv"
	"strings"
)

// kernelErrors are the descriptions of the error numbers from 0 on (errno.h). They do not come from the system that
// btc runs on, so that the object does not depend on where it is compiled.
var kernelErrors = lines(`
Success
Operation not permitted
No such file or directory
No such process
Interrupted system call
I/O error
No such device or address
Argument list too long
Exec format error
Bad file number
No child processes
Try again (operation would block)
Out of memory
Permission denied
Bad address
Block device required
Device or resource busy
File exists
Cross-device link
No such device
Not a directory
Is a directory
Invalid argument
File table overflow
Too many open files
Not a typewriter
Text file busy
File too large
No space left on device
Illegal seek
Read-only file system
Too many links
Broken pipe
Math argument out of domain of func
Math result not representable
Resource deadlock would occur
File name too long
No record locks available
Invalid system call number
Directory not empty
Too many symbolic links encountered
Unknown error
No message of desired type
Identifier removed
Channel number out of range
Level 2 not synchronized
Level 3 halted
Level 3 reset
Link number out of range
Protocol driver not attached
No CSI structure available
Level 2 halted
Invalid exchange
Invalid request descriptor
Exchange full
No anode
Invalid request code
Invalid slot
Unknown error
Bad font file format
Device not a stream
No data available
Timer expired
Out of streams resources
Machine is not on the network
Package not installed
Object is remote
Link has been severed
Advertise error
Srmount error
Communication error on send
Protocol error
Multihop attempted
RFS specific error
Not a data message
Value too large for defined data type
Name not unique on network
File descriptor in bad state
Remote address changed
Can not access a needed shared library
Accessing a corrupted shared library
.lib section in a.out corrupted
Attempting to link in too many shared libraries
Cannot exec a shared library directly
Illegal byte sequence
Interrupted system call should be restarted
Streams pipe error
Too many users
Socket operation on non-socket
Destination address required
Message too long
Protocol wrong type for socket
Protocol not available
Protocol not supported
Socket type not supported
Operation not supported on transport endpoint
Protocol family not supported
Address family not supported by protocol
Address already in use
Cannot assign requested address
Network is down
Network is unreachable
Network dropped connection because of reset
Software caused connection abort
Connection reset by peer
No buffer space available
Transport endpoint is already connected
Transport endpoint is not connected
Cannot send after transport endpoint shutdown
Too many references: cannot splice
Connection timed out
Connection refused
Host is down
No route to host
Operation already in progress
Operation now in progress
Stale file handle
Structure needs cleaning
Not a XENIX named type file
No XENIX semaphores available
Is a named type file
Remote I/O error
Quota exceeded
No medium found
Wrong medium type
Operation Canceled
Required key not available
Key has expired
Key has been revoked
Key was rejected by service
Owner died
State not recoverable
Operation not possible due to RF-kill
Memory page has hardware error
`)

func errorNames(string) []string { return kernelErrors }

// signals are the C library's descriptions of the signals from 0 on (strsignal), up to the first real-time signal.
var signals = lines(`
Unknown signal 0
Hangup
Interrupt
Quit
Illegal instruction
Trace/breakpoint trap
Aborted
Bus error
Floating point exception
Killed
User defined signal 1
Segmentation fault
User defined signal 2
Broken pipe
Alarm clock
Terminated
Stack fault
Child exited
Continued
Stopped (signal)
Stopped
Stopped (tty input)
Stopped (tty output)
Urgent I/O condition
CPU time limit exceeded
File size limit exceeded
Virtual timer expired
Profiling timer expired
Window changed
I/O possible
Power failure
Bad system call
Unknown signal 32
Unknown signal 33
`)

func signalNames(string) []string {
	const last = 64
	names := append([]string(nil), signals...)
	for i := len(names); i <= last; i++ {
		names = append(names, "Real-time signal "+strconv.Itoa(i-len(signals)))
	}
	return names
}

func lines(text string) []string { return strings.Split(strings.Trim(text, "\n"), "\n") }
