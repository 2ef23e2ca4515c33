package kubernetes

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/controlplane/owned"
	"github.com/modelgate/modelgate/internal/configstore"
)

// A writer refuses all or nothing, by what it is told of names.
type writer struct {
	named   map[string]bool // it says which they are
	unnamed map[string]bool // it says only that something is wrong
	down    error
	written []string
	calls   int
}

func (w *writer) declare(_ context.Context, all []owned.Declared, _ ...clientv3.Cmp) (*config.Plan, error) {
	w.calls++
	if w.down != nil {
		return nil, w.down
	}
	refused := config.Refusals{}
	for _, d := range all {
		if w.named[d.Name] {
			refused[d.Ref()] = errors.New("bad " + d.Name)
		}
		if w.unnamed[d.Name] {
			return nil, openai.CodeInUse.New("something is still in use")
		}
	}
	if len(refused) > 0 {
		return nil, refused
	}
	p := &config.Plan{Revision: 7}
	for _, d := range all {
		w.written = append(w.written, d.Name)
		p.Changes = append(p.Changes, adminapi.Change{Kind: d.Kind.Name, Name: d.Name, Action: adminapi.Created})
	}
	return p, nil
}

func declared(names ...string) (all []owned.Declared) {
	kind := configv1.KindOf((*configv1.Provider)(nil))
	for _, name := range names {
		all = append(all, owned.Declared{Kind: kind, Name: name})
	}
	return all
}

func ref(name string) configstore.Ref { return configstore.Ref{Kind: "Provider", Name: name} }

func TestABadObjectKeepsNoOtherFromBeingWritten(t *testing.T) {
	w := &writer{named: map[string]bool{"b": true, "d": true}}
	results, wrote, err := settle(t.Context(), w.declare, declared("a", "b", "c", "d"), clientv3.Cmp{})
	require.NoError(t, err)
	require.True(t, wrote)
	require.ElementsMatch(t, []string{"a", "c"}, w.written)
	require.ErrorContains(t, results[ref("b")].err, "bad b")
	require.EqualValues(t, 7, results[ref("a")].revision)
	require.Equal(t, 2, w.calls)
}

func TestABadObjectThatIsNotNamedIsFound(t *testing.T) {
	w := &writer{unnamed: map[string]bool{"c": true}}
	results, _, err := settle(t.Context(), w.declare, declared("a", "b", "c", "d", "e"), clientv3.Cmp{})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b", "d", "e"}, w.written)
	require.ErrorContains(t, results[ref("c")].err, "in use")
}

func TestAStoreThatIsDownIsNoRefusal(t *testing.T) {
	for _, down := range []error{context.DeadlineExceeded, configstore.ErrConflict, openai.CodeStoreFull.New("full")} {
		_, _, err := settle(t.Context(), (&writer{down: down}).declare, declared("a"), clientv3.Cmp{})
		require.ErrorIs(t, err, down)
	}
}

func TestWhatRefersToAnObjectIsKnown(t *testing.T) {
	n := newNeeds()
	a, b, secret := key{"Model", "p", "a"}, key{"Model", "p", "b"}, key{secrets, "p", "s"}
	n.set(a, []key{secret})
	n.set(b, []key{secret})
	require.ElementsMatch(t, []key{a, b}, n.users(secret))
	n.set(a, nil)
	require.Equal(t, []key{b}, n.users(secret))
	n.set(b, nil)
	require.Empty(t, n.from)
}
