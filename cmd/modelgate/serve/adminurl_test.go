package serve

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheURLOfTheAdminAddress(t *testing.T) {
	require.Equal(t, "https://localhost:8081", urlOf(&net.TCPAddr{IP: net.IPv6unspecified, Port: 8081}, true))
	require.Equal(t, "http://127.0.0.1:80", urlOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}, false))
}
