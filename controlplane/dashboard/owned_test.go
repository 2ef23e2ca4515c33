package dashboard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
)

// The page of an object says by what it is declared, and its form says why a change is refused.
func TestPagesSayByWhatAnObjectIsDeclared(t *testing.T) {
	b := newBench(t)
	w := b.owner(t)
	b.put(t, &configv1.Provider{Name: "p", Vendor: "echo"})
	b.put(t, &configv1.Model{Name: "m", Targets: []*configv1.Target{{Provider: "p", Model: "m"}}})
	b.put(t, &configv1.Organization{Name: "o"})
	for _, key := range []string{"Provider/p", "Model/m", "Organization/o"} {
		_, err := b.etcd.Put(t.Context(), configstore.Owners+key, `{"by":"kubernetes:team/x"}`)
		require.NoError(t, err)
	}
	changed := b.owners.Changed()
	go func() { _ = b.owners.Run(t.Context()) }()
	<-changed
	for _, page := range []string{"/providers/p", "/models/m", "/organizations/o", "/objects/Provider/p"} {
		require.Regexp(t, `Declared by\s+kubernetes:team/x`, text(w.get(page).body), page)
	}
	require.NotContains(t, text(w.get("/new/object/Provider").body), "Declared by")
	refused := w.post("/objects/Provider/p", "text", "kind: Provider\nname: p\nvendor: echo\ndisabled: true\n")
	require.Contains(t, text(refused.body), "is declared by kubernetes:team/x")
}
