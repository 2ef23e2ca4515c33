package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestAProviderIsTried(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{&configv1.Provider{Name: "mine", Vendor: "compatible"}}
	f.tests["mine"] = adminapi.ProviderTest{OK: true, Message: "It answers.", Operations: []adminapi.OperationTest{
		{Name: "responses", State: adminapi.OperationMissing, Status: 404},
		{Name: "embeddings", State: adminapi.OperationAnswers, Status: 400, Configured: true}}}
	out, _ := c.run(t, exitOK, "provider", "test", "mine")
	require.Contains(t, out, "It answers.")
	require.Regexp(t, "responses +missing +404 +no", out)
	require.Regexp(t, "embeddings +answers +400 +yes", out)
	out, _ = c.run(t, exitOK, "provider", "test", "mine", "-o", "json")
	require.Contains(t, out, `"state":"missing"`)
	f.tests["mine"] = adminapi.ProviderTest{Message: "It refused the credential, with status 401."}
	out, _ = c.run(t, exitFailed, "provider", "test", "mine")
	require.Contains(t, out, "status 401")
}
