package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestApprovals(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	at := time.Unix(0, 0)
	f.objects = []configv1.Object{&configv1.Organization{Name: "acme"}, &configv1.Key{Name: "key_1", DisplayName: "ci"}}
	f.approvals = []adminapi.Approval{
		{ID: "apr_1", Action: "updated", Kind: "Organization", Name: "acme", Rules: []string{"big"}, AskedBy: "ann",
			Reason: "It may spend more.", AskedAt: &at, ExpiresAt: &at, MayDecide: true, Diff: "+usd: 5000\n"},
		{ID: "apr_2", Kind: "Key", Name: "key_1", Rules: []string{"keys"}, AskedBy: "bob", AskedAt: &at, ExpiresAt: &at,
			Own: true},
	}
	out, _ := c.run(t, exitOK, "approval")
	require.Regexp(t, `(?m)^Organization acme +ann +1970-01-01T00:00:00Z +1970-01-01T00:00:00Z +waits for you +apr_1$`, out)
	require.Regexp(t, `(?m)^Key ci +bob .* waits for somebody else +apr_2$`, out)
	out, _ = c.run(t, exitOK, "approval", "show", "apr_1")
	require.Contains(t, out, "Reason    It may spend more.\n")
	require.Contains(t, out, "\n+usd: 5000\n")
	out, _ = c.run(t, exitOK, "approval", "approve", "apr_1")
	require.Equal(t, "Organization acme approved\n", out)
	out, _ = c.run(t, exitOK, "approval", "reject", "apr_1", "--reason", "No.")
	require.Equal(t, "apr_1 rejected\n", out)
	require.JSONEq(t, `{"reason":"No."}`, string(f.body))
	out, _ = c.run(t, exitOK, "approval", "withdraw", "apr_2")
	require.Equal(t, "apr_2 withdrawn\n", out)
	require.Contains(t, f.asked, "DELETE /admin/v1/approvals/apr_2")
}

func TestAChangeThatWaitsIsNotTakenForDone(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	waits := adminapi.Approval{ID: "apr_1", Action: "created", Kind: "Key", Name: "key_new", Rules: []string{"keys"},
		Reason: "The key is new."}
	f.waits = &waits
	out, said := c.run(t, exitWaits, "key", "create", "--name", "ci")
	require.Contains(t, out, "Key  sk-mg-new")
	require.Contains(t, out, "modelgate approval approve apr_1")
	require.Contains(t, said, "waits for a second person's approval")

	out, said = c.run(t, exitWaits, "org", "create", "acme")
	require.Empty(t, out)
	require.Contains(t, said, "apr_1")

	f.applied = adminapi.ApplyAnswer{Revision: 7, Changes: []adminapi.Change{
		{Kind: "Provider", Name: "p", Action: adminapi.Created},
		{Kind: "Organization", Name: "acme", Action: adminapi.Pending, Approval: &waits}}}
	require.NoError(t, os.WriteFile("a.yaml", []byte("kind: Organization\nname: acme\n"), 0o600))
	out, _ = c.run(t, exitWaits, "config", "apply", "-f", "a.yaml")
	require.Equal(t, "Provider p created\nOrganization acme pending: it waits for approval apr_1\n", out)
}
