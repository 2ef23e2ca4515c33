package dashboard_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/bodies"
	realledger "github.com/modelgate/modelgate/controlplane/ledger"
)

// keptBodies are those of the exchange "kept".
type keptBodies struct{}

// Read returns them.
func (keptBodies) Read(_ context.Context, id string) (*ledgerv1.KeptBodies, error) {
	if id != "kept" {
		return nil, bodies.ErrNone
	}
	return &ledgerv1.KeptBodies{Id: id, Key: "key_1", Request: &ledgerv1.KeptBody{Text: evil, Bytes: 9, Cut: true},
		Answer: &ledgerv1.KeptBody{Omitted: "It is not text."}}, nil
}

// Erase deletes none.
func (keptBodies) Erase(context.Context, realledger.BodiesQuery) (int64, error) { return 0, nil }

func TestBodiesAreShownOnDemand(t *testing.T) {
	b := newBench(t)
	owner := b.owner(t)
	vera := b.person(t, owner, "vera", "VIEWER")
	for _, w := range []*browser{owner, vera} {
		require.Equal(t, 403, w.get("/requests/kept/bodies").status)
	}
	owner.get("/accounts/vera")
	p := owner.post("/accounts/vera", "role", "VIEWER", "read_bodies", "on")
	require.Equal(t, 303, p.status, text(p.body))

	p = vera.get("/requests/kept/bodies")
	require.Equal(t, 200, p.status)
	require.Contains(t, text(p.body), "The audit log records that you have seen them.")
	require.NotContains(t, text(p.body), "Only the beginning is kept.", "whoever follows a link has not looked")
	p = vera.post("/requests/kept/bodies")
	require.Equal(t, 200, p.status, text(p.body))
	require.Contains(t, text(p.body), "Only the beginning is kept.")
	require.Contains(t, text(p.body), "Not kept: It is not text.")
	require.NotContains(t, p.body, evil)
	require.Equal(t, "no-store", p.header.Get("Cache-Control"))
	require.Equal(t, 404, vera.post("/requests/other/bodies").status)
}
