package cmdline

import (
	"errors"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/envoy/bootstrap"
)

// ParseAddress reads an address that a flag says.
func ParseAddress(s string) (bootstrap.Address, error) {
	a, err := bootstrap.ParseAddress(s)
	if err != nil {
		return a, admincli.Misused("%w", err)
	}
	return a, nil
}

// ErrRefused ends a command that has printed the error which the client would get.
var ErrRefused = errors.New("the request cannot be served")
