package main

import (
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/envoy/bootstrap"
)

// parseAddress reads an address that a flag says.
func parseAddress(s string) (bootstrap.Address, error) {
	a, err := bootstrap.ParseAddress(s)
	if err != nil {
		return a, admincli.Misused("%w", err)
	}
	return a, nil
}
