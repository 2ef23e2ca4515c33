package controlplane

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	api "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
)

// TestTheJobServiceSignsIDs with the key of ext_proc, and cannot check keys of clients with it.
func TestTheJobServiceSignsIDs(t *testing.T) {
	p := startPlane(t)
	jobs := subscribe[*configv1.JobSecrets](p, envoy.RoleJobs)
	jobs.await(func() bool { return jobs.has["default"] != nil })
	given := jobs.has["default"].GetCarrierKey()
	require.NotEqual(t, p.root.KeyPepper(), given)
	id := api.CarrierKeyOf(given).For("acme", "k").Carry("call_1", []byte(`{"thinking":"hm"}`))
	pepper := api.NewCarrierKey(p.root.KeyPepper())
	shown, data := pepper.For("acme", "k").Split(id)
	require.Equal(t, "call_1", shown)
	require.JSONEq(t, `{"thinking":"hm"}`, string(data))
	_, data = pepper.For("other", "k").Split(id)
	require.Empty(t, data)
	require.Nil(t, api.CarrierKeyOf(nil), "an earlier control plane tells none")
}
