package api_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

func TestAUserIsErased(t *testing.T) {
	b := newBench(t)
	withBodies(t, b)
	var records []*ledgerv1.Record
	for id, user := range map[string]string{"1": "ann@example.com", "2": "ann@example.com", "3": "bob"} {
		records = append(records, &ledgerv1.Record{Id: id, User: user, Key: "key_1", Model: "m", Operation: "chat",
			Start: timestamppb.New(time.Now().Add(-time.Minute)), Outcome: "finished", End: timestamppb.Now()})
	}
	require.NoError(t, b.config.Ledger.Record(t.Context(), records))
	erase := func(dryRun bool) adminapi.Erasure {
		e, err := b.client.EraseUser(t.Context(), adminapi.ErasureRequest{User: "ann@example.com"},
			adminapi.DryRun.If(dryRun)...)
		require.NoError(t, err)
		return e
	}
	of := func(user string) int {
		page, err := b.config.Ledger.Exchanges(t.Context(), adminapi.ListOptions{Filters: map[string]string{"user": user}})
		require.NoError(t, err)
		return len(page.Items)
	}
	dry := erase(true)
	require.Empty(t, dry.ID)
	require.Equal(t, []int64{2, 2}, []int64{dry.Exchanges, dry.Bodies})
	require.Equal(t, 2, of("ann@example.com"), "nothing was erased")

	erased := erase(false)
	require.Equal(t, dry.UserData, erased.UserData)
	require.Equal(t, []int{0, 1}, []int{of("ann@example.com"), of("bob")})
	page, err := b.config.Ledger.Exchanges(t.Context(), adminapi.ListOptions{})
	require.NoError(t, err)
	require.Len(t, page.Items, 3, "the exchanges stay")
	left, err := b.config.Ledger.FindBodies(t.Context(), ledger.BodiesQuery{}, 10)
	require.NoError(t, err)
	require.Len(t, left, 1, "bodies of others stay")
	again := erase(false)
	require.Zero(t, again.UserData)

	b.ship(t, b.audit)
	audit := b.do(t, "GET", "/admin/v1/audit", "").body
	require.Contains(t, audit, erased.ID)
	require.NotContains(t, audit, "ann@example.com")
	for _, body := range []string{`{}`, `{"user":""}`, `{"user":"x","all":true}`} {
		require.Equal(t, 400, b.do(t, "POST", "/admin/v1/erasures", body).status, body)
	}
}
