package api_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// exported returns the documents of an export, and the objects in them.
func (b *bench) exported(t *testing.T) ([]json.RawMessage, []configv1.Object) {
	t.Helper()
	all, err := b.client.Export(t.Context())
	require.NoError(t, err)
	require.Positive(t, all.Revision)
	var objects []configv1.Object
	for _, document := range all.Objects {
		docs, err := configv1.ParseJSON(document)
		require.NoError(t, err)
		objects = append(objects, docs[0].Object)
	}
	return all.Objects, objects
}

func labels(objects []configv1.Object) []string {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = configv1.Label(o)
	}
	return names
}

// outcomes says what an apply did, without what it did not change.
func outcomes(a adminapi.ApplyAnswer) []string {
	done := []string{}
	for _, c := range a.Changes {
		if c.Action != adminapi.Unchanged {
			done = append(done, c.Kind+" "+c.Name+" "+c.Action)
		}
	}
	return done
}

// settled is an installation with something of each sort.
func settled(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	tuned := model("tuned", "p")
	tuned.FineTuned = &configv1.FineTuned{Job: "ftjob_1", BaseModel: "m"}
	_, err := b.client.Apply(t.Context(), []configv1.Object{model("m", "p"), tuned, withValue("p", "sk-upstream-1"),
		&configv1.Provider{Name: "q", Vendor: "echo"}, &configv1.Organization{Name: "acme"},
		&configv1.Project{Name: "acme/web"}, &configv1.Organization{Name: "zeta"},
		&configv1.ResponseCache{Name: "cache"}, &configv1.Policy{Name: "rules", Rules: []*configv1.PolicyRule{
			{Name: "one", Deny: "size > 1000"}}},
		&configv1.Account{Name: "ann", Role: configv1.Role_VIEWER, Password: "correct horse battery"}}, false)
	require.NoError(t, err)
	_, err = b.client.CreateKey(t.Context(), adminapi.KeyRequest{DisplayName: "k", Organization: "acme", Project: "web"})
	require.NoError(t, err)
	return b
}

func TestExportIsAppliedAgain(t *testing.T) {
	b := settled(t)
	documents, objects := b.exported(t)
	require.Equal(t, []string{"Organization acme", "Organization zeta", "Project acme/web", "Provider p", "Provider q",
		"Model m", "Policy rules", "ResponseCache cache"}, labels(objects), "what others refer to is first; keys, accounts and fine-tuned models are left out")
	require.NotContains(t, string(slices.Concat(documents...)), "sk-upstream")

	same, err := b.client.ApplyPruning(t.Context(), objects, adminapi.PruneAll, false)
	require.NoError(t, err)
	require.Empty(t, outcomes(same), "the stored credential stays")
	stored, _ := b.storedProvider(t, "p")
	value, err := b.sealer.Open("Provider", "p", "credential", stored.GetCredential().GetSealed())
	require.NoError(t, err)
	require.Equal(t, "sk-upstream-1", value.Reveal())

	other := newBench(t)
	_, err = other.client.Apply(t.Context(), objects, false)
	require.ErrorContains(t, err, "Provider p: credential")
	objects[slices.Index(labels(objects), "Provider p")] = withValue("p", "sk-upstream-2")
	_, err = other.client.Apply(t.Context(), objects, false)
	require.NoError(t, err)
	again, _ := other.exported(t)
	require.Equal(t, documents, again)
}

func TestExportFailsForWhatCannotBeRead(t *testing.T) {
	b := settled(t)
	_, err := b.etcd.Put(t.Context(), "/modelgate/v1/providers/garbage", "x")
	require.NoError(t, err)
	_, err = b.client.Export(t.Context())
	require.ErrorContains(t, err, "Provider garbage: cannot be read")
	_, err = b.client.ApplyPruning(t.Context(), nil, adminapi.PruneAll, false)
	require.ErrorContains(t, err, "Provider garbage: cannot be read")
	b.storedProvider(t, "p")
}

func TestPruneDeletesWhatFilesDoNotHave(t *testing.T) {
	b := settled(t)
	_, objects := b.exported(t)
	without := func(names ...string) []configv1.Object {
		return slices.DeleteFunc(slices.Clone(objects), func(o configv1.Object) bool {
			return slices.Contains(names, configv1.Label(o))
		})
	}
	apply := func(prune string, dryRun bool, names ...string) ([]string, error) {
		answer, err := b.client.ApplyPruning(t.Context(), without(names...), prune, dryRun)
		return outcomes(answer), err
	}
	gone := []string{"Organization zeta deleted", "Provider q deleted"}
	done, err := apply(adminapi.PruneSome, true, "Organization zeta", "Provider q")
	require.NoError(t, err)
	require.Equal(t, gone, done)
	_, now := b.exported(t)
	require.Equal(t, labels(objects), labels(now), "a dry run")

	_, err = apply(adminapi.PruneSome, false, "Provider q", "Model m")
	require.ErrorContains(t, err, "every object of the kind Model.")
	_, err = apply(adminapi.PruneSome, false, "Organization acme", "Project acme/web")
	require.ErrorContains(t, err, "still has keys")
	_, err = apply(adminapi.PruneSome, false, "Provider p")
	require.ErrorContains(t, err, "Model m: targets[0].provider")
	_, now = b.exported(t)
	require.Equal(t, labels(objects), labels(now), "all or nothing")

	done, err = apply(adminapi.PruneSome, false, "Organization zeta", "Provider q")
	require.NoError(t, err)
	require.Equal(t, gone, done)
	entries := b.audited(t, adminapi.ListOptions{})
	require.Equal(t, []string{"delete", "delete"}, []string{entries[0].Action, entries[1].Action})

	done, err = apply(adminapi.PruneAll, false, "Organization zeta", "Provider q", "Model m")
	require.NoError(t, err)
	require.Equal(t, []string{"Model m deleted"}, done)
	require.Equal(t, 200, b.do(t, "GET", "/admin/v1/models/tuned", "").status)
	for _, prune := range []string{"some", "true&prune=all"} {
		require.Equal(t, 400, b.do(t, "POST", "/admin/v1/apply?prune="+prune, "[]").status)
	}
}
