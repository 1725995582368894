// SPDX-License-Identifier: Apache-2.0

package btrace

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"btc/internal/signature"
	"btc/loader/containers"
	"btc/loader/diag"
	"btc/loader/host"
	"btc/loader/permit"
	"btc/loader/resolve"
)

// Position is a place in the script's source; Line and Col begin at 1 and are 0 if it is unknown.
type Position struct {
	File      string
	Line, Col int
}

func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col) }

// The errors of Load and Attach have these types where a program may act on the cause: errors.As finds them. Error
// returns the message that btrun prints.

// VerifierError means that the kernel's verifier refused a program.
type VerifierError struct {
	Position
	Log []string // of the verifier, one line each
	err error
}

// PermissionError means that the object does what Options.Allow does not permit.
type PermissionError struct {
	Position
	Permission Permission // "" if only Options.Unsafe permits it
	Path       string     // AllowFiles and AllowPins: the file, absolute
	What       string     // as in "sends signals"
	err        error
}

// PolicyError means that the policy of this host does not permit what the object or Options want.
type PolicyError struct {
	Position
	Setting string // file and line of the setting: /etc/btrun/policy.json:3
	err     error
}

// ProbeError means that an attach point of the script does not exist on this host, or cannot be attached to.
type ProbeError struct {
	Position
	Missing bool // it does not exist
	err     error
}

// ContainerError means that no running container or pod, or more than one, has a name of Options.
type ContainerError struct {
	Name       string
	Candidates []string // those that match: ID, runtime, name; empty if none does
	err        error
}

// SignatureError means that the object is not signed as Options.Signers or the policy of this host demand.
type SignatureError struct {
	Reason string // "unsigned", "altered", "unknown", "expired", "not yet valid", "malformed", "unsupported" or "uncovered"
	Path   string // of the signature file; that of the object if it is unsigned or uncovered
	Key    string // of the signature: "minisign:" and the key ID, or the fingerprint of an SSH key; "" if it is not known
	err    error
}

// HostError means that this host runs no BPF programs for this process: it has no such kernel, or the process lacks
// capabilities.
type HostError struct{ err error }

func (e *VerifierError) Error() string   { return e.err.Error() }
func (e *VerifierError) Unwrap() error   { return e.err }
func (e *PermissionError) Error() string { return e.err.Error() }
func (e *PermissionError) Unwrap() error { return e.err }
func (e *PolicyError) Error() string     { return e.err.Error() }
func (e *PolicyError) Unwrap() error     { return e.err }
func (e *ProbeError) Error() string      { return e.err.Error() }
func (e *ProbeError) Unwrap() error      { return e.err }
func (e *ContainerError) Error() string  { return e.err.Error() }
func (e *ContainerError) Unwrap() error  { return e.err }
func (e *SignatureError) Error() string  { return e.err.Error() }
func (e *SignatureError) Unwrap() error  { return e.err }
func (e *HostError) Error() string       { return e.err.Error() }
func (e *HostError) Unwrap() error       { return e.err }

// typed gives an error of the loader its public type, if it has one.
func typed(err error) error {
	if err == nil {
		return nil
	}
	at := positionOf(err)
	var (
		limited   *permit.Limited
		refused   permit.Refused
		verifier  *ebpf.VerifierError
		gone      *resolve.Missing
		failed    *resolve.Failure
		none      *containers.NotFoundError
		ambiguous *containers.AmbiguousError
		noBPF     *host.ErrNoBPF
		unsigned  *signature.Error
	)
	switch {
	case errors.As(err, &limited):
		return &PolicyError{at, limited.At, err}
	case errors.As(err, &unsigned):
		return &SignatureError{string(unsigned.Reason), unsigned.Path, unsigned.Key, err}
	case errors.As(err, &refused):
		return &PermissionError{at, refused.Permission, refused.Path, refused.What, err}
	case errors.As(err, &noBPF):
		return &HostError{err}
	case errors.As(err, &verifier) && len(verifier.Log) > 0:
		return &VerifierError{at, verifier.Log, err}
	case errors.As(err, &gone):
		return &ProbeError{at, true, err}
	case errors.As(err, &failed):
		return &ProbeError{at, false, err}
	case errors.As(err, &none):
		return &ContainerError{none.Name, nil, err}
	case errors.As(err, &ambiguous):
		return &ContainerError{ambiguous.Name, ambiguous.Candidates, err}
	}
	return err
}

func positionOf(err error) Position {
	var d *diag.Error
	if !errors.As(err, &d) || d.Script == nil {
		return Position{}
	}
	return Position{d.Script.File, d.Pos.Line, d.Pos.Col}
}

// TypedError returns an error of a session of LoadReport with the type that the error of a session of Load has, if it
// has one. It is a function of its own so that programs such as btrun, which only print errors, need not link it.
func TypedError(err error) error { return typed(err) }
