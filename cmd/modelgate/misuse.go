package main

import (
	"fmt"

	"github.com/modelgate/modelgate/envoy/bootstrap"
)

// A misuse is that a command line is wrong, which is found only when the command runs.
type misuse struct{ error }

// Unwrap returns what is wrong.
func (m misuse) Unwrap() error { return m.error }

// misused returns the error for a command line that is wrong: its exit code is that of one that cannot be parsed.
func misused(format string, args ...any) error { return misuse{fmt.Errorf(format, args...)} }

// parseAddress reads an address that a flag says.
func parseAddress(s string) (bootstrap.Address, error) {
	a, err := bootstrap.ParseAddress(s)
	if err != nil {
		return a, misuse{err}
	}
	return a, nil
}
