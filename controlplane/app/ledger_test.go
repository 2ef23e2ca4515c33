package app

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestTheConfigurationSaysHowLongTheLedgerKeepsWhat(t *testing.T) {
	const day = 24 * time.Hour
	server := etcdtest.New(t)
	etcd := server.Client(t)
	store := configstore.New(etcd, func(configv1.Object) error { return nil }, zap.NewNop())
	kept, err := retentionIn(store)(t.Context())
	require.NoError(t, err)
	require.Equal(t, ledger.Retention{Exchanges: 30 * day, Refused: 7 * day, Aggregates: 400 * day,
		Audit: 400 * day}, kept)

	said := &configv1.Retention{Name: "default", Requests: durationpb.New(5 * day), Audit: durationpb.New(3650 * day)}
	_, err = store.Swap(t.Context(), configstore.Change{Kind: configv1.KindOf(said), Name: "default", Object: said}, 0,
		configstore.Also{})
	require.NoError(t, err)
	kept, err = retentionIn(store)(t.Context())
	require.NoError(t, err)
	require.Equal(t, ledger.Retention{Exchanges: 5 * day, Refused: 5 * day, Aggregates: 400 * day,
		Audit: 3650 * day}, kept)

	_, err = etcd.Put(t.Context(), "/modelgate/v1/retentions/default", "{")
	require.NoError(t, err)
	_, err = retentionIn(store)(t.Context())
	require.ErrorContains(t, err, "cannot be read", "what is not known deletes nothing")
}
