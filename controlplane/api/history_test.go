package api_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// memoryVersions keeps versions in memory.
type memoryVersions struct {
	held     sync.Mutex // guards versions
	versions []adminapi.Version
}

// AppendVersions keeps those whose ids are new.
func (m *memoryVersions) AppendVersions(_ context.Context, versions []adminapi.Version) error {
	m.held.Lock()
	defer m.held.Unlock()
	for _, v := range versions {
		if !slices.ContainsFunc(m.versions, func(o adminapi.Version) bool { return o.ID == v.ID }) {
			m.versions = append(m.versions, v)
		}
	}
	slices.SortFunc(m.versions, func(a, b adminapi.Version) int { return int(a.Revision - b.Revision) })
	return nil
}

// Versions returns those of an object, newest first.
func (m *memoryVersions) Versions(_ context.Context, epoch, kind, name string, before int64,
	limit int) (found []adminapi.Version, err error) {
	m.held.Lock()
	defer m.held.Unlock()
	for _, v := range slices.Backward(m.versions) {
		if v.Epoch == epoch && v.Kind == kind && v.Name == name && (before == 0 || v.Revision < before) &&
			len(found) < limit {
			found = append(found, v)
		}
	}
	return found, nil
}

// VersionsSince returns what was at a revision of all that was changed later.
func (m *memoryVersions) VersionsSince(_ context.Context, _ string, revision int64) (at, after []adminapi.Version,
	err error) {
	m.held.Lock()
	defer m.held.Unlock()
	last := map[string]adminapi.Version{}
	seen := map[string]bool{}
	for _, v := range m.versions {
		of := v.Kind + " " + v.Name
		if v.Revision <= revision {
			last[of] = v
		} else if !seen[of] {
			seen[of] = true
			after = append(after, v)
			if was, ok := last[of]; ok {
				at = append(at, was)
			}
		}
	}
	return at, after, nil
}

func (b *bench) versionsOf(t *testing.T, path string) []adminapi.Version {
	t.Helper()
	a := b.do(t, "GET", "/admin/v1/history/"+path, "")
	require.Equal(t, 200, a.status, a.body)
	require.NotContains(t, a.body, "sk-marker")
	var page adminapi.Page[adminapi.Version]
	require.NoError(t, json.Unmarshal([]byte(a.body), &page))
	return page.Items
}

func TestRollback(t *testing.T) {
	b := newBench(t)
	first := `{"name":"p","vendor":"openai","credential":{"value":"sk-marker-1"},"models":["a"]}`
	require.Equal(t, 201, b.do(t, "POST", "/admin/v1/providers", first).status)
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/providers/p", strings.NewReplacer("marker-1", "marker-2", `"a"`,
		`"b"`).Replace(first)).status)
	require.Equal(t, 201, b.do(t, "POST", "/admin/v1/providers", `{"name":"q","vendor":"echo"}`).status)
	versions := b.versionsOf(t, "providers/p")
	require.Len(t, versions, 2)
	revision := itoa(versions[1].Revision)
	shown := b.do(t, "GET", "/admin/v1/history/providers/p?revision="+revision, "")
	require.Contains(t, shown.body, `"models":["a"]`)
	require.NotContains(t, shown.body, "marker")
	stored, err := b.etcd.Get(t.Context(), "/modelgate/", clientv3.WithPrefix())
	require.NoError(t, err)
	for _, kv := range stored.Kvs {
		require.NotContains(t, string(kv.Value), "marker")
	}

	t.Run("a dry run changes nothing", func(t *testing.T) {
		a := b.do(t, "POST", "/admin/v1/rollback?dry_run=true&revision="+revision, "")
		require.Equal(t, 200, a.status, a.body)
		require.Contains(t, a.body, `"deleted"`)
		require.Len(t, b.versionsOf(t, "providers/p"), 2)
	})
	t.Run("of one, which keeps the credential that was rotated", func(t *testing.T) {
		before := b.stored(t, "providers/p")
		require.Equal(t, 200, b.do(t, "POST", "/admin/v1/rollback/providers/p?revision="+revision, "").status)
		after := b.stored(t, "providers/p")
		require.Equal(t, []any{"a"}, after["models"])
		require.Equal(t, before["credential"], after["credential"])
	})
	t.Run("of all: what was deleted returns, and what was created goes", func(t *testing.T) {
		require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/providers/p", "").status)
		a := b.do(t, "POST", "/admin/v1/rollback?revision="+revision, "")
		require.Equal(t, 200, a.status, a.body)
		require.Equal(t, []any{"a"}, b.stored(t, "providers/p")["models"])
		require.Equal(t, 404, b.do(t, "GET", "/admin/v1/providers/q", "").status)
		require.Equal(t, "rollback to revision "+revision, b.audited(t, adminapi.ListOptions{})[0].Action)
	})
	t.Run("rights have no history", func(t *testing.T) {
		requireError(t, b.do(t, "GET", "/admin/v1/history/accounts/x", ""), 404, "not_found", "rights")
	})
}

func (b *bench) stored(t *testing.T, path string) map[string]any {
	t.Helper()
	r, err := b.etcd.Get(t.Context(), "/modelgate/v1/"+path)
	require.NoError(t, err)
	require.Len(t, r.Kvs, 1)
	var o map[string]any
	require.NoError(t, json.Unmarshal(r.Kvs[0].Value, &o))
	return o
}
