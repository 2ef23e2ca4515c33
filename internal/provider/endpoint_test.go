package provider_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/provider"
)

func TestTheAuthorityNamesThePortWhereItHasTo(t *testing.T) {
	for host, e := range map[string]provider.Endpoint{
		"example.com":      {TLS: true, Host: "example.com", Port: 443},
		"example.com:8443": {TLS: true, Host: "example.com", Port: 8443},
		"example.com:443":  {Host: "example.com", Port: 443},
		"[::1]":            {TLS: true, Host: "::1", Port: 443},
		"[::1]:80":         {TLS: true, Host: "::1", Port: 80},
		"localhost":        {Pipe: "/run/x"},
	} {
		require.Equal(t, host, e.Authority())
	}
}
