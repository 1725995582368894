// SPDX-License-Identifier: Apache-2.0

package main

import (
	"flag"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// setupTCP connects a socket to its own listener over the loopback device. The activity alternates
// between send and receive, so that each send is one call of the kernel's tcp_sendmsg with the whole
// size.
func setupTCP(args []string, r *report) (func() error, error) {
	flags := flag.NewFlagSet("tcp", flag.ContinueOnError)
	n := flags.Int("n", 1, "number of sends")
	v6 := flags.Bool("6", false, "IPv6")
	connectActive := flags.Bool("connect", false, "connect and accept as part of the activity")
	down := flags.Duration("down", 0, "take the loopback device down so long for the first send")
	size := sizes{1}
	flags.Var(&size, "size", "bytes in a send; several, separated by commas, are used in turn")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var c connection
	if err := c.listen(*v6); err != nil {
		return nil, err
	}
	if !*connectActive {
		if err := c.connect(); err != nil {
			return nil, err
		}
	}
	buf := size.buffer()
	return func() error {
		if *connectActive {
			if err := c.connect(); err != nil {
				return err
			}
		}
		if *down > 0 {
			if err := loopback(false); err != nil {
				return fmt.Errorf("bring down loopback: %w", err)
			}
			time.AfterFunc(*down, func() { _ = loopback(true) })
		}
		total := 0
		for i := range *n {
			sent, err := size[i%len(size):].transfer(unix.SYS_WRITE, c.client, 1, buf)
			if err != nil {
				return fmt.Errorf("send: %w", err)
			}
			total += sent
			for left := sent; left > 0; {
				got, err := unix.Read(c.server, buf[:left])
				if err != nil || got == 0 {
					return fmt.Errorf("receive: %d bytes left: %w", left, err)
				}
				left -= got
			}
		}
		r.add("sends", *n)
		r.add("bytes", total)
		r.add("sport", c.clientPort)
		r.add("dport", c.serverPort)
		return nil
	}, nil
}

// loopback brings the loopback device up or down.
func loopback(up bool) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, lo); err != nil {
		return err
	}
	flags := lo.Uint16() &^ unix.IFF_UP
	if up {
		flags |= unix.IFF_UP
	}
	lo.SetUint16(flags)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// connection is a TCP connection with both ends in this process.
type connection struct {
	family, listener       int
	client, server         int
	clientPort, serverPort int
}

func (c *connection) listen(v6 bool) error {
	c.family = unix.AF_INET
	if v6 {
		c.family = unix.AF_INET6
	}
	fd, err := unix.Socket(c.family, unix.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	c.listener = fd
	if err := unix.Bind(fd, c.address(0)); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := unix.Listen(fd, 1); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	c.serverPort, err = localPort(fd)
	return err
}

func (c *connection) connect() error {
	fd, err := unix.Socket(c.family, unix.SOCK_STREAM, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	c.client = fd
	// Data is sent immediately and in one piece.
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("TCP_NODELAY: %w", err)
	}
	if err := unix.Connect(fd, c.address(c.serverPort)); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if c.server, _, err = unix.Accept(c.listener); err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	c.clientPort, err = localPort(fd)
	return err
}

func (c *connection) address(port int) unix.Sockaddr {
	if c.family == unix.AF_INET6 {
		return &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}
	}
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

func localPort(fd int) (int, error) {
	a, err := unix.Getsockname(fd)
	if err != nil {
		return 0, fmt.Errorf("getsockname: %w", err)
	}
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return a.Port, nil
	case *unix.SockaddrInet6:
		return a.Port, nil
	}
	return 0, fmt.Errorf("getsockname: unexpected %T", a)
}
