package api_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
)

func TestWhatIsDoneWithABatchIsInTheAuditLog(t *testing.T) {
	b := newBench(t)
	withLedger(t, b)
	auditor := authz.Principal{Name: "ann", Scopes: []authz.Scope{authz.BodiesRead}}
	a := b.as(t, auditor, "GET", "/admin/v1/batches/batch_1/files/output")
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, "output", a.body)
	require.Equal(t, `attachment; filename=output.jsonl`, a.header.Get("Content-Disposition"))
	require.Equal(t, 400, b.as(t, auditor, "GET", "/admin/v1/batches/batch_1/files/secrets").status)
	operator := authz.Principal{Name: "otto", Scopes: []authz.Scope{authz.JobsRead, authz.JobsWrite}}
	require.Equal(t, 200, b.as(t, operator, "POST", "/admin/v1/batches/batch_1/cancel").status)
	a = b.as(t, operator, "GET", "/admin/v1/batches/batch_1/failures")
	require.Contains(t, a.body, `"custom_id":"a"`)

	b.ship(t, b.audit)
	page, err := b.ledger.Audit(t.Context(), adminapi.ListOptions{Limit: 10})
	require.NoError(t, err)
	entries := map[string]string{}
	for _, e := range page.Items {
		entries[e.Actor+" "+e.Action+" "+e.Kind+" "+e.Name] = e.Diff
	}
	require.Equal(t, map[string]string{"ann look Batch batch_1": "output file", "otto cancel Batch batch_1": ""}, entries)

	b.server.Stop() // and where the audit log cannot be written, nothing is done
	a = b.as(t, auditor, "GET", "/admin/v1/batches/batch_1/files/output")
	require.Equal(t, 503, a.status)
	require.NotContains(t, a.body, "output")
}
