package main

import (
	"encoding/json"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/doctor"
	"github.com/modelgate/modelgate/internal/datadir"
)

func TestDoctorOfAGateway(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	f.objects = []configv1.Object{
		&configv1.Provider{Name: "mine", Vendor: "openai",
			Credential: &configv1.Credential{Source: &configv1.Credential_Env{Env: "K"}}},
		&configv1.Key{Name: "key_a"}, &configv1.Key{Name: "key_b"}, &configv1.Key{Name: "key_c", Disabled: true},
	}
	f.tests["mine"] = adminapi.ProviderTest{Message: "401"}
	out, errOut := c.run(t, exitFailed, "doctor", "-o", "json")
	require.Contains(t, errOut, adminflags.ErrUnhealthy.Error())
	var report struct{ Findings []doctor.Finding }
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	checked := func(name string) bool {
		return slices.ContainsFunc(report.Findings, func(f doctor.Finding) bool { return f.Check == name })
	}
	require.True(t, checked("provider tests"))
	require.True(t, checked("keys"), "on the second page")
	require.False(t, checked("clock"))
	require.Contains(t, f.asked, "GET /admin/v1/keys/key_b/consumption")

	f.asked = nil
	c.run(t, exitOK, "doctor", "--no-test")
	require.NotContains(t, f.asked, "POST /admin/v1/providers/mine/test")

	f.ledgerAway = true
	out, _ = c.run(t, exitFailed, "doctor", "--no-test")
	require.Contains(t, out, "error    The ledger cannot be read")
}

func TestDoctorWithoutAGatewayLooksAtTheDataFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	c := &cli{}
	require.NoError(t, os.Mkdir("data", 0o700))
	require.NoError(t, os.WriteFile("data/"+datadir.FilePepper, nil, 0o640))
	require.NoError(t, os.Chmod("data/"+datadir.FilePepper, 0o640))
	out, _ := c.run(t, exitFailed, "doctor")
	require.Contains(t, out, "chmod 600 data/pepper")
	require.Contains(t, out, "The gateway cannot be reached")
}
