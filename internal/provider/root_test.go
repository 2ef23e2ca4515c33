package provider

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPathMayLeaveTheEndpointsPath(t *testing.T) {
	e := Endpoint{Path: "/inference/v1"}
	for path, want := range map[string]string{
		"/models":                       "/inference/v1/models",
		Root + "/v1/accounts/a/x?b=c":   "/v1/accounts/a/x?b=c",
		Root + "ed/v1":                  "/inference/v1" + Root + "ed/v1",
		"/v1" + Root + "/v1/accounts/a": "/inference/v1/v1" + Root + "/v1/accounts/a",
	} {
		require.Equal(t, want, e.Join(path))
	}
}
