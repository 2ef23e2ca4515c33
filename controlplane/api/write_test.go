package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/certs"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/id"
)

func withValue(name, secret string) *configv1.Provider {
	return &configv1.Provider{Name: name, Vendor: "openai",
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: secret}}}
}

func (b *bench) storedProvider(t *testing.T, name string) (*configv1.Provider, int64) {
	t.Helper()
	e, err := b.store.Get(t.Context(), configv1.KindOf((*configv1.Provider)(nil)), name)
	require.NoError(t, err)
	require.NoError(t, e.Err)
	return e.Object.(*configv1.Provider), e.Revision
}

func TestCredentialIsSealedAndNeverShown(t *testing.T) {
	b := newBench(t)
	body, err := configv1.MarshalJSON(withValue("a", "sk-upstream-1"))
	require.NoError(t, err)
	put := b.do(t, "PUT", "/admin/v1/providers/a", string(body))
	require.Equal(t, 201, put.status)
	get := b.do(t, "GET", "/admin/v1/providers/a", "")
	dry := b.do(t, "POST", "/admin/v1/apply?dry_run=true",
		`{"kind":"Provider","name":"a","vendor":"openai","credential":{"value":"sk-upstream-2"}}`)
	require.Equal(t, 200, dry.status)
	raw, err := b.etcd.Get(t.Context(), "/modelgate/v1/providers/a")
	require.NoError(t, err)
	for _, text := range []string{put.body, get.body, dry.body, b.do(t, "GET", "/admin/v1/providers", "").body,
		string(raw.Kvs[0].Value)} {
		require.NotContains(t, text, "sk-upstream")
	}
	require.Contains(t, get.body, `"credential":{"sealed":"[redacted]"}`)
	require.Contains(t, dry.body, `value: '[redacted]'`)

	stored, revision := b.storedProvider(t, "a")
	require.NotContains(t, get.body, stored.GetCredential().GetSealed())
	v, err := b.sealer.Open("Provider", "a", "credential", stored.GetCredential().GetSealed())
	require.NoError(t, err)
	require.Equal(t, "sk-upstream-1", v.Reveal())

	t.Run("redacted, sent again, keeps it", func(t *testing.T) {
		_, err := b.client.Put(t.Context(), &configv1.Provider{Name: "a", Vendor: "openai", Disabled: true,
			Credential: &configv1.Credential{Source: &configv1.Credential_Sealed{Sealed: configv1.Redacted}}}, 0)
		require.NoError(t, err)
		kept, _ := b.storedProvider(t, "a")
		require.True(t, kept.GetDisabled())
		require.Equal(t, stored.GetCredential().GetSealed(), kept.GetCredential().GetSealed())
	})
	t.Run("the same value is no change", func(t *testing.T) {
		_, before := b.storedProvider(t, "a")
		same := withValue("a", "sk-upstream-1")
		same.Disabled = true
		answer, err := b.client.Apply(t.Context(), []configv1.Object{same}, false)
		require.NoError(t, err)
		require.Equal(t, adminapi.Unchanged, answer.Changes[0].Action)
		_, after := b.storedProvider(t, "a")
		require.Equal(t, before, after)
		require.Greater(t, after, revision)
	})
	t.Run("without it, it is gone", func(t *testing.T) {
		_, err := b.client.Put(t.Context(), &configv1.Provider{Name: "a", Vendor: "openai"}, 0)
		require.NoError(t, err)
		gone, _ := b.storedProvider(t, "a")
		require.Nil(t, gone.GetCredential())
	})
}

func TestTheSecretOfAWebhookIsSealedAndNeverShown(t *testing.T) {
	const plain = "whsec_c2Vjb25kc2Vjb25kc2Vjb25kc2Vjb25k"
	b := newBench(t)
	text := `{"kind":"Webhook","name":"hook","url":"https://hooks.test/","events":["batch.completed"],"secret":{"value":"` + plain + `"}}`
	put := b.do(t, "PUT", "/admin/v1/webhooks/hook", text)
	require.Equal(t, 201, put.status, put.body)
	raw, err := b.etcd.Get(t.Context(), "/modelgate/v1/webhooks/hook")
	require.NoError(t, err)
	for _, text := range []string{put.body, b.do(t, "GET", "/admin/v1/webhooks/hook", "").body,
		b.do(t, "GET", "/admin/v1/webhooks", "").body, string(raw.Kvs[0].Value)} {
		require.NotContains(t, text, plain)
	}
	e, err := b.store.Get(t.Context(), configv1.KindOf((*configv1.Webhook)(nil)), "hook")
	require.NoError(t, err)
	v, err := b.sealer.Open("Webhook", "hook", "secret", e.Object.(*configv1.Webhook).GetSecret().GetSealed())
	require.NoError(t, err)
	require.Equal(t, plain, v.Reveal())
	redacted := strings.Replace(text, `"value":"`+plain, `"sealed":"[redacted]`, 1)
	require.Equal(t, 200, b.do(t, "PUT", "/admin/v1/webhooks/hook", redacted).status, "sent again it is kept")
	bad := b.do(t, "PUT", "/admin/v1/webhooks/hook", strings.Replace(text, plain, "whsec_dG9vc2hvcnQ=", 1))
	require.Equal(t, 400, bad.status)
	require.NotContains(t, bad.body, "dG9vc2hvcnQ")
}

func TestKeyIsShownOnceAndStoredAsAHash(t *testing.T) {
	b := newBench(t)
	created := b.do(t, "POST", "/admin/v1/keys?create_missing=true",
		`{"display_name":"CI","organization":"org","project":"p","models":["openai/*"],"expires_at":"2090-01-01T00:00:00Z"}`)
	require.Equal(t, 201, created.status, created.body)
	var made adminapi.NewKey
	require.NoError(t, json.Unmarshal([]byte(created.body), &made))
	require.True(t, auth.CheckFormat(made.Key))
	require.True(t, id.Valid("key", made.ID))

	kind := configv1.KindOf((*configv1.Key)(nil))
	e, err := b.store.Get(t.Context(), kind, made.ID)
	require.NoError(t, err)
	key := e.Object.(*configv1.Key)
	hash := b.hasher.Hash(made.Key)
	require.Equal(t, hash[:], key.GetHash())
	require.Equal(t, made.Key[len(made.Key)-4:], key.GetHint())
	require.WithinDuration(t, time.Now(), key.GetCreatedAt().AsTime(), time.Minute)

	shown := b.do(t, "GET", "/admin/v1/keys/"+made.ID, "")
	require.NotContains(t, shown.body, `"hash"`)
	require.NotContains(t, shown.body, made.Key)
	require.Contains(t, shown.body, `"models":["openai/*"]`)

	disabled := b.do(t, "PUT", "/admin/v1/keys/"+made.ID, `{"name":"`+made.ID+
		`","display_name":"paused","disabled":true,"hint":"zzzz","created_at":"2001-01-01T00:00:00Z"}`)
	require.Equal(t, 200, disabled.status, disabled.body)
	e, err = b.store.Get(t.Context(), kind, made.ID)
	require.NoError(t, err)
	changed := e.Object.(*configv1.Key)
	require.True(t, changed.GetDisabled())
	require.Equal(t, hash[:], changed.GetHash(), "what it is stays")
	require.Equal(t, key.GetHint(), changed.GetHint())
	require.Equal(t, key.GetCreatedAt().AsTime(), changed.GetCreatedAt().AsTime())

	require.NoError(t, b.client.Delete(t.Context(), kind, made.ID))
	_, err = b.store.Get(t.Context(), kind, made.ID)
	require.ErrorIs(t, err, configstore.ErrNotFound)
}

func model(name, provider string) *configv1.Model {
	return &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: provider, Model: "m"}}}
}

func TestApplyIsValidatedAsASetWithWhatIsStored(t *testing.T) {
	b := newBench(t)
	answer, err := b.client.Apply(t.Context(),
		[]configv1.Object{model("m", "p"), &configv1.Provider{Name: "p", Vendor: "echo"}}, false)
	require.NoError(t, err, "the order does not matter")
	require.Equal(t, []string{"created", "created"}, []string{answer.Changes[0].Action, answer.Changes[1].Action})
	require.Positive(t, answer.Revision)

	_, err = b.client.Apply(t.Context(), []configv1.Object{model("n", "p")}, false)
	require.NoError(t, err, "the provider is stored")

	_, err = b.client.Apply(t.Context(), []configv1.Object{
		&configv1.Provider{Name: "q", Vendor: "echo"}, model("x", "nowhere"), &configv1.Provider{Name: "q", Vendor: "echo"},
	}, false)
	require.ErrorContains(t, err, "Provider q: is given twice")
	_, err = b.client.Apply(t.Context(), []configv1.Object{
		&configv1.Provider{Name: "q", Vendor: "acme"}, &configv1.Provider{Name: "r", Vendor: "echo", Endpoint: "x"},
		model("s", ""),
	}, false)
	for _, part := range []string{"Provider q: vendor", "Provider r: endpoint", "Model s: targets[0].provider"} {
		require.ErrorContains(t, err, part, "all at once")
	}
	_, err = b.client.Apply(t.Context(), []configv1.Object{&configv1.Provider{Name: "q", Vendor: "echo"},
		model("x", "nowhere")}, false)
	require.ErrorContains(t, err, "Model x: targets[0].provider: Provider nowhere does not exist")
	requireError(t, b.do(t, "GET", "/admin/v1/providers/q", ""), 404, "not_found", "")
}

func TestWhatIsInUseIsNotDeleted(t *testing.T) {
	b := newBench(t)
	_, err := b.client.Apply(t.Context(), []configv1.Object{model("m", "p"),
		&configv1.Provider{Name: "p", Vendor: "echo"}}, false)
	require.NoError(t, err)
	requireError(t, b.do(t, "DELETE", "/admin/v1/providers/p", ""), 409, "in_use", "Model m")
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/models/m", "").status)
	require.Equal(t, 204, b.do(t, "DELETE", "/admin/v1/providers/p", "").status)
}

func TestAChangeIsNotRedirected(t *testing.T) {
	b := newBench(t)
	for _, path := range []string{"providers//echo", "projects//", "providers/./echo", "../v1/providers/echo"} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			requireError(t, b.do(t, method, "/admin/v1/"+path, ""), 404, "unknown_url", "Invalid URL ("+method+" /admin/v1/"+
				path+")")
		}
	}
	requireError(t, b.do(t, "DELETE", "/admin/v1/providers/", ""), 404, "unknown_url", "must end with the name")
}

func TestWhatOthersBrokeDoesNotKeepAnyoneFromWorking(t *testing.T) {
	b := newBench(t)
	_, err := b.etcd.Put(t.Context(), "/modelgate/v1/models/m",
		`{"name":"m","targets":[{"provider":"gone","model":"x"}]}`)
	require.NoError(t, err)
	_, err = b.client.Put(t.Context(), &configv1.Provider{Name: "p", Vendor: "echo"}, 0)
	require.NoError(t, err)
	_, err = b.client.Put(t.Context(), model("n", "gone"), 0)
	require.ErrorContains(t, err, "Provider gone does not exist", "what this request breaks is refused all the same")
}

func TestTwoGatewaysOnOnePortAreRefused(t *testing.T) {
	b := newBench(t)
	_, err := b.etcd.Put(t.Context(), "/modelgate/v1/gateways/a", `{"name":"a","port":8443}`)
	require.NoError(t, err)
	_, err = b.client.Put(t.Context(), &configv1.Gateway{Name: "b", Port: 8443}, 0)
	require.ErrorContains(t, err, "Gateway b: port: port 8443 is already taken by port of Gateway a")
}

func TestDryRunShowsADiffAndStoresNothing(t *testing.T) {
	b := newBench(t)
	_, err := b.client.Put(t.Context(), &configv1.Provider{Name: "p", Vendor: "echo", Models: []string{"a", "b"}}, 0)
	require.NoError(t, err)
	before, err := b.store.Snapshot(t.Context())
	require.NoError(t, err)
	answer, err := b.client.Apply(t.Context(), []configv1.Object{
		&configv1.Provider{Name: "p", Vendor: "echo", Models: []string{"a", "c"}},
		&configv1.Provider{Name: "q", Vendor: "echo"},
	}, true)
	require.NoError(t, err)
	want := adminapi.ApplyAnswer{Changes: []adminapi.Change{
		{Kind: "Provider", Name: "p", Action: adminapi.Updated,
			Diff: "--- stored Provider p\n+++ new Provider p\n@@ -3,4 +3,4 @@\n vendor: echo\n models:\n - a\n-- b\n+- c\n"},
		{Kind: "Provider", Name: "q", Action: adminapi.Created,
			Diff: "--- /dev/null\n+++ new Provider q\n@@ -0,0 +1,3 @@\n+kind: Provider\n+name: q\n+vendor: echo\n"},
	}}
	require.Empty(t, cmp.Diff(want, answer))
	after, err := b.store.Snapshot(t.Context())
	require.NoError(t, err)
	require.Equal(t, before.Revision, after.Revision)

	same, err := b.client.Apply(t.Context(),
		[]configv1.Object{&configv1.Provider{Name: "p", Vendor: "echo", Models: []string{"a", "b"}}}, true)
	require.NoError(t, err)
	require.Equal(t, adminapi.Change{Kind: "Provider", Name: "p", Action: adminapi.Unchanged}, same.Changes[0])
}

func TestLostRacesEndInAConflict(t *testing.T) {
	b := newBench(t)
	// Something else is written each time between the reading and the commit.
	racing := configstore.New(b.etcd, func(configv1.Object) error {
		_, err := b.etcd.Put(t.Context(), "/modelgate/v1/version", "")
		return err
	}, zap.NewNop())
	b.config.Store = racing
	handler := api.New(b.config)
	r := httptest.NewRequest(http.MethodPut, "/admin/v1/providers/a", strings.NewReader(`{"name":"a","vendor":"echo"}`))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r)
	requireError(t, answer{w.Code, w.Header(), w.Body.String()}, 409, "conflict", "Try again")
}

func TestCertificateMustFitItsKeyAlsoWhereTheKeyIsOnlyStored(t *testing.T) {
	b := newBench(t)
	issue := func() (chain, key string) {
		pair, err := certs.Ensure(t.TempDir(), []string{"127.0.0.1"}, time.Now())
		require.NoError(t, err)
		return string(pair.Certificate), string(pair.Key)
	}
	chain, key := issue()
	certificate := &configv1.Certificate{Name: "default", Chain: chain,
		PrivateKey: &configv1.Credential{Source: &configv1.Credential_Value{Value: key}}}
	_, err := b.client.Put(t.Context(), certificate, 0)
	require.NoError(t, err)
	certificate.PrivateKey.Source = &configv1.Credential_Sealed{Sealed: configv1.Redacted}
	_, err = b.client.Put(t.Context(), certificate, 0)
	require.NoError(t, err)
	certificate.Chain, _ = issue()
	_, err = b.client.Put(t.Context(), certificate, 0)
	require.ErrorContains(t, err, "private_key.value: must be the PEM of the key of the first certificate")
}

func TestConcurrentWritersOfDifferentObjectsAllSucceed(t *testing.T) {
	b := newBench(t)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 5 {
				if _, err := b.client.Put(t.Context(), &configv1.Provider{Name: fmt.Sprintf("p%d-%d", i, j), Vendor: "echo"},
					0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	items, err := b.client.List(t.Context(), configv1.KindOf((*configv1.Provider)(nil)))
	require.NoError(t, err)
	require.Len(t, items, 20)
}

func TestEmptyApply(t *testing.T) {
	b := newBench(t)
	a := b.do(t, "POST", "/admin/v1/apply", "[]")
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"revision":0,"changes":[]}`, a.body)
}
