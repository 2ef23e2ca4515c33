package xds

import (
	"testing"

	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
)

// Others decide in their listener who may say which certificate a client has, and what becomes of their requests.
func TestOnlyRequestsOfTheGatewayAreLoggedAndNoCertificateIsBelieved(t *testing.T) {
	own := &hcmv3.HttpConnectionManager{}
	secure := listener(&configv1.Gateway{Name: "edge", Port: 443}, &configv1.CertificateIssuer{Name: "mesh"})
	require.NoError(t, secure.GetFilterChains()[0].GetFilters()[0].GetTypedConfig().UnmarshalTo(own))
	require.Contains(t, protojson.Format(own), `"mg.ext_proc.drains/edge"`)

	m := Confined(own)
	require.NotContains(t, protojson.Format(m), `"mg.ext_proc.drains/edge"`)
	require.Equal(t, enteredFilter, m.GetHttpFilters()[0].GetName())
	entered := has(envoy.MetadataEntered).String()
	require.NotEmpty(t, m.GetAccessLog())
	for _, l := range m.GetAccessLog() {
		require.Equal(t, entered, l.GetFilter().GetAndFilter().GetFilters()[0].String())
	}
	require.NotEmpty(t, m.GetLocalReplyConfig().GetMappers())
	for i, r := range m.GetLocalReplyConfig().GetMappers() {
		require.Equal(t, entered, r.GetFilter().GetAndFilter().GetFilters()[0].String())
		require.NotEqual(t, entered, own.GetLocalReplyConfig().GetMappers()[i].GetFilter().String(), "the gateway's stay")
	}
	require.NoError(t, m.ValidateAll())
}
