// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setupUnix creates a connected pair of UNIX domain sockets.
func setupUnix(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("unix", flag.ContinueOnError)
	text := flags.String("text", "x", "what is sent")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("socketpair: %w", err)
	}
	buf := append([]byte(*text), 0)
	return func() error {
		size := sizes{len(*text)}
		if _, err := size.transfer(unix.SYS_WRITE, pair[0], 1, buf); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		_, err := size.transfer(unix.SYS_READ, pair[1], 1, buf)
		r.add("bytes", len(*text))
		return err
	}, nil
}

// setupShm creates, attaches, detaches and removes a System V shared memory segment.
func setupShm(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("shm", flag.ContinueOnError)
	size := flags.Int("size", 4096, "bytes")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	return func() error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, *size, unix.IPC_CREAT|0o600)
		if err != nil {
			return fmt.Errorf("shmget: %w", err)
		}
		address, _, e := unix.RawSyscall(unix.SYS_SHMAT, uintptr(id), 0, 0)
		if e != 0 {
			return fmt.Errorf("shmat: %w", e)
		}
		if err := raw(unix.SYS_SHMDT, address, 0, 0); err != nil {
			return fmt.Errorf("shmdt: %w", err)
		}
		r.add("id", id)
		r.add("address", fmt.Sprintf("%x", address))
		return raw(unix.SYS_SHMCTL, uintptr(id), unix.IPC_RMID, 0)
	}, nil
}

// setupBacklog creates a TCP listener that never accepts. A SYN that finds its queue full is dropped
// and sent again after a second.
func setupBacklog(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("backlog", flag.ContinueOnError)
	n := flags.Int("n", 4, "connections to open; more than one fill the queue")
	wait := flags.Duration("for", 0, "how long to wait after opening them")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	c := connection{family: unix.AF_INET}
	fd, err := unix.Socket(c.family, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := unix.Bind(fd, c.address(0)); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	port, err := localPort(fd)
	if err != nil {
		return nil, err
	}
	return func() error {
		for range *n {
			client, err := unix.Socket(c.family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				return fmt.Errorf("socket: %w", err)
			}
			if err := unix.Connect(client, c.address(port)); err != nil && err != unix.EINPROGRESS {
				return fmt.Errorf("connect: %w", err)
			}
		}
		r.add("dport", port)
		t := unix.NsecToTimespec(wait.Nanoseconds())
		return raw(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
	}, nil
}
