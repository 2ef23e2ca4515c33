package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

func TestVersions(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		v := func(id, name string, revision int64, document string) adminapi.Version {
			return adminapi.Version{ID: id, Epoch: "e", Revision: revision, At: time.Unix(revision, 0).UTC(), Kind: "Provider",
				Name: name, Action: adminapi.Updated, Document: []byte(document)}
		}
		all := []adminapi.Version{v("1", "p", 5, "{1}"), v("2", "p", 7, "{2}"), v("3", "q", 8, "{3}"), v("4", "p", 9, "{4}")}
		require.NoError(t, l.AppendVersions(t.Context(), all))
		require.NoError(t, l.AppendVersions(t.Context(), all)) // once
		found, err := l.Versions(t.Context(), "e", "Provider", "p", 9, 10)
		require.NoError(t, err)
		require.Equal(t, []adminapi.Version{all[1], all[0]}, found)
		at, after, err := l.VersionsSince(t.Context(), "e", 7)
		require.NoError(t, err)
		require.Equal(t, []adminapi.Version{all[1]}, at)
		require.Len(t, after, 2)
		require.Equal(t, "q", after[0].Name)

		// Of two at one revision, the later is what the object was.
		require.NoError(t, l.AppendVersions(t.Context(), []adminapi.Version{v("2a", "p", 7, "{2a}")}))
		at, _, err = l.VersionsSince(t.Context(), "e", 7)
		require.NoError(t, err)
		require.Len(t, at, 1)
		require.Equal(t, "2a", at[0].ID)
	})
}

func TestPruneKeepsWhatAnObjectWas(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		var all []adminapi.Version
		for i, id := range []string{"1", "2", "3"} {
			all = append(all, adminapi.Version{ID: id, Epoch: "e", Revision: int64(i + 1), At: time.Unix(int64(i+1), 0).UTC(),
				Kind: "Provider", Name: "p", Action: adminapi.Updated, Document: []byte("{}")})
		}
		require.NoError(t, l.AppendVersions(t.Context(), all))
		_, err := l.Prune(t.Context(), ledger.Retention{})
		require.NoError(t, err)
		found, err := l.Versions(t.Context(), "e", "Provider", "p", 0, 10)
		require.NoError(t, err)
		require.Equal(t, all[2:], found)
	})
}
