package bootstrap

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
)

func TestAnEnvoyOfOthersIsToldWhereItsFilesAre(t *testing.T) {
	at := Addresses{{Host: "extproc", Port: 9001}}
	clusters, secrets, err := Shared(at, &TLS{CA: "/tls/ca.crt", Certificate: "/tls/tls.crt", Key: "/tls/tls.key",
		ServerName: "extproc"})
	require.NoError(t, err)
	require.Len(t, clusters, 2)
	text := protojson.Format(clusters[0])
	require.NotContains(t, text, "/tls/", "a renewed certificate changes no cluster: that would cut its streams")
	require.Len(t, secrets, 2)
	for _, s := range secrets {
		require.Contains(t, text, `"`+s.GetName()+`"`)
		require.NoError(t, s.ValidateAll())
	}
	require.Equal(t, "/tls", secrets[0].GetTlsCertificate().GetWatchedDirectory().GetPath())

	clusters, secrets, err = Shared(at, nil)
	require.NoError(t, err)
	require.Nil(t, clusters[0].GetTransportSocket())
	require.Empty(t, secrets)
}
