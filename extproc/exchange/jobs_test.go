package exchange

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider"
)

// A tenancy is a configuration with keys of several organizations, by what they are called here.
type tenancy struct {
	*Config
	env  *Env
	keys map[string]string

	configured map[string]*configv1.Key
}

func newTenancy(t testing.TB, keys ...*configv1.Key) *tenancy {
	t.Helper()
	v := provider.Provider{Name: "v", DefaultEndpoint: "https://p.test/base", CredentialHeaders: []string{"Authorization",
		"X-Account"},
		DecodeError: func(int, http.Header, []byte) *openai.Error { return nil },
		Sign: func(r *provider.Request, s provider.Signing) error {
			r.Header.Set("Authorization", "Bearer "+s.Credential.Reveal())
			return nil
		}}
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "p"},
		Credential: "credential"}, v)
	require.NoError(t, err)
	off, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "off", Disabled: true}},
		v)
	require.NoError(t, err)
	e := &tenancy{
		Config: &Config{
			Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
			Table: routing.Table{Providers: map[string]*routing.Provider{"p": p, "off": off},
				Models: map[string]*configv1.Model{}},
			Routes: routing.NewRoutes(map[string]*configv1.Route{"r": {PathPrefix: "/p", Provider: "p"}}),
		},
		env:  &Env{Now: func() time.Time { return time.Unix(1700000000, 0) }, NewID: func() string { return "id" }},
		keys: map[string]string{}, configured: map[string]*configv1.Key{},
	}
	for _, k := range keys {
		e.keys[k.GetName()] = auth.Generate().Reveal()
		hash := e.Hasher.Hash(e.keys[k.GetName()])
		k.Hash = hash[:]
		e.configured[k.GetName()] = k
		e.Keyring = e.Keyring.With(e.configured)
	}
	return e
}

// change has a key changed.
func (e *tenancy) change(name string, change func(*configv1.Key)) {
	change(e.configured[name])
	e.Keyring = e.Keyring.With(e.configured)
}

// request returns the headers of a client's request with a key, or without one.
func (e *tenancy) request(method, path, key string, more ...Header) Headers {
	h := Headers{{Name: ":method", Value: method}, {Name: ":path", Value: path}, {Name: "x-request-id", Value: "req"}}
	if key != "" {
		h = append(h, Header{Name: "authorization", Value: "Bearer " + e.keys[key]})
	}
	return append(h, more...)
}

// forged are the headers that only the job service is believed.
func forged(key string) []Header {
	return []Header{{Name: envoy.HeaderKey, Value: key}, {Name: envoy.HeaderKey, Value: key},
		{Name: envoy.HeaderOrganization, Value: "victim"}, {Name: envoy.HeaderProject, Value: "victim"},
		{Name: envoy.HeaderProvider, Value: "p"}, {Name: envoy.HeaderLength, Value: "1"},
		{Name: envoy.HeaderCharge, Value: "batch_1/1"}, {Name: "x-modelgate-other", Value: "x"}}
}

func twoTenants(t *testing.T) *tenancy {
	return newTenancy(t,
		&configv1.Key{Name: "key_a", Organization: "a", Project: "pa"},
		&configv1.Key{Name: "key_victim", Organization: "victim"},
		&configv1.Key{Name: "key_none"},
		&configv1.Key{Name: "key_bound", Endpoints: []string{"batches", "files", "embeddings"}},
		&configv1.Key{Name: "key_off", Disabled: true},
		&configv1.Key{Name: "key_old", ExpiresAt: timestamppb.New(time.Unix(1600000000, 0))},
	)
}

func TestAClientIsNeverBelievedWhoItSaysItIs(t *testing.T) {
	e := twoTenants(t)
	paths := []string{"/v1/files", "/v1/files/f/content", "/v1/batches", "/v1/models", "/v1/chat/completions", "/p/x",
		"/x"}
	for _, path := range paths {
		h := e.request("POST", path, "", forged("key_victim")...)
		want := 401
		if path == "/x" {
			want = 404
		}
		require.Equal(t, want, New(e.env, e.Config).RequestHeaders(context.Background(), h, false).Immediate.Status,
			"%s without a key", path)
		h = append(h, Header{Name: "authorization", Value: "Bearer " + auth.Generate().Reveal()})
		require.Equal(t, want, New(e.env, e.Config).RequestHeaders(context.Background(), h, false).Immediate.Status,
			"%s with a key that is not known", path)
	}
	for _, path := range []string{"/v1/files", "/v1/chat/completions", "/p/x"} {
		x := New(e.env, e.Config)
		reply := x.RequestHeaders(context.Background(), e.request("POST", path, "key_a", forged("key_victim")...), false)
		require.Nil(t, reply.Immediate, path)
		for _, f := range forged("key_victim") {
			set := reply.Set.Get(f.Name)
			require.NotEqual(t, f.Value, set, "%s: %s", path, f.Name)
			require.True(t, set != "" || slices.Contains(reply.Remove, f.Name), "%s: %s passes", path, f.Name)
		}
		if path == "/v1/files" {
			require.Equal(t, "key_a", reply.Set.Get(envoy.HeaderKey))
			require.Equal(t, "a", reply.Set.Get(envoy.HeaderOrganization))
			require.Equal(t, "pa", reply.Set.Get(envoy.HeaderProject))
		}
		r := x.Close()
		require.Equal(t, "a", r.Organization)
		require.Empty(t, r.Charge, path)
		require.False(t, r.Internal, path)
	}
	x := New(e.env, e.Config)
	reply := x.RequestHeaders(context.Background(), e.request("GET", "/v1/files", "key_none", forged("key_victim")...),
		true)
	require.Equal(t, Headers{{Name: envoy.HeaderKey, Value: "key_none"}}, reply.Set)
	require.Contains(t, reply.Remove, envoy.HeaderOrganization, "a key without an organization has none")
	require.Contains(t, reply.Remove, envoy.HeaderProject)
	require.Contains(t, reply.Remove, envoy.HeaderLength)
}

func TestWhatGoesToTheJobService(t *testing.T) {
	e := twoTenants(t)
	e.change("key_a", func(k *configv1.Key) { k.Organization = "a b/c" }) // never from configuration, which is stricter
	for request, operation := range map[string]string{
		"POST /v1/files": "files", "GET /v1/files?limit=1": "files", "DELETE /v1/files/f": "files",
		"GET /v1/files/f/content": "files",
		"POST /v1/uploads":        "uploads", "POST /v1/uploads/u/parts": "uploads",
		"POST /v1/batches": "batches", "POST /v1/batches/b/cancel": "batches",
		"POST /v1/fine_tuning/jobs": "fine_tuning", "GET /v1/fine_tuning/jobs/j/events?after=x": "fine_tuning",
		"DELETE /v1/models/ft:x": "models", "DELETE /v1/models/a%2Fb": "models", "DELETE /v1/models/a/b": "models",
	} {
		method, path, _ := strings.Cut(request, " ")
		x := New(e.env, e.Config)
		h := e.request(method, path, "key_a", Header{Name: "content-type", Value: "multipart/form-data"},
			Header{Name: "content-length", Value: "7"}, Header{Name: "accept", Value: "*/*"},
			Header{Name: "range", Value: "bytes=1-"}, Header{Name: "idempotency-key", Value: "i"},
			Header{Name: "cookie", Value: "c"}, Header{Name: "user-agent", Value: "u"}, Header{Name: "x-api-key", Value: "k"})
		reply := x.RequestHeaders(context.Background(), h, false)
		require.Nil(t, reply.Immediate, request)
		require.True(t, reply.PassRequest)
		require.Equal(t, None, reply.ResponseBody)
		require.Equal(t, &routing.Plan{ID: "id", Kind: envoy.KindJobs}, reply.Plan)
		require.Equal(t, Headers{{Name: envoy.HeaderKey, Value: "key_a"}, {Name: envoy.HeaderOrganization, Value: "a+b%2Fc"},
			{Name: envoy.HeaderProject, Value: "pa"}, {Name: envoy.HeaderLength, Value: "7"}}, reply.Set)
		require.Equal(t, []string{"content-length", "authorization", "cookie", "user-agent", "x-api-key"}, reply.Remove)

		answer := x.ResponseHeaders(Headers{{Name: ":status", Value: "200"}}, Facts{Cluster: envoy.ClusterJobs, Attempts: 1,
			CodeDetails: envoy.CodeDetailsUpstream}, false)
		require.Equal(t, Reply{Set: Headers{{Name: "x-request-id", Value: "req"}}, Log: true}, answer,
			"the body passes unseen")
		r := x.Close()
		require.Equal(t, operation, r.Operation)
		require.Equal(t, metering.OutcomeFinished, r.Outcome)
		require.Equal(t, 200, r.Status)
		require.True(t, r.Unseen)
	}
	for request, status := range map[string]int{
		"GET /v1/filesystem": 404, "GET /v1/fine_tuning": 404, "DELETE /v1/models": 405, "POST /v1/models/x": 405,
		"GET /v1/batch":                404,
		"GET /v1/files/%2e%2e/batches": 400, "GET /v1/files/..%2fbatches": 400,
	} {
		method, path, _ := strings.Cut(request, " ")
		reply := New(e.env, e.Config).RequestHeaders(context.Background(), e.request(method, path, "key_a"), true)
		require.Equal(t, status, reply.Immediate.Status, request)
	}
}

func TestTheEndsOfARequestToTheJobService(t *testing.T) {
	e := twoTenants(t)
	for status, want := range map[string]metering.Outcome{"200": metering.OutcomeFinished,
		"404": metering.OutcomeRejected, "429": metering.OutcomeRejected, "500": metering.OutcomeFailed} {
		x := New(e.env, e.Config)
		x.RequestHeaders(context.Background(), e.request("GET", "/v1/files", "key_a"), true)
		x.ResponseHeaders(Headers{{Name: ":status", Value: status}}, Facts{CodeDetails: envoy.CodeDetailsUpstream}, true)
		r := x.Close()
		require.Equal(t, want, r.Outcome, status)
		require.False(t, r.Unseen)
	}
	x := New(e.env, e.Config)
	x.RequestHeaders(context.Background(), e.request("GET", "/v1/files", "key_a"), true)
	x.ResponseHeaders(Headers{{Name: ":status", Value: "503"}}, Facts{CodeDetails: "no_healthy_upstream"}, false)
	require.Equal(t, metering.OutcomeGateway, x.Close().Outcome)
	x = New(e.env, e.Config)
	x.RequestHeaders(context.Background(), e.request("POST", "/v1/files", "key_a"), false)
	require.Equal(t, metering.OutcomeCut, x.Close().Outcome)
}

func TestTheJobServiceAsksOnBehalfOfKeys(t *testing.T) {
	e := twoTenants(t)
	ask := func(method, path string, h ...Header) (*Exchange, Reply) {
		x := NewInternal(e.env, e.Config)
		return x, x.RequestHeaders(context.Background(), e.request(method, path, "", h...), method == "GET")
	}
	x, reply := ask("POST", "/v1/chat/completions", Header{Name: envoy.HeaderKey, Value: "key_a"},
		Header{Name: envoy.HeaderCharge, Value: "batch_1/7"})
	require.Nil(t, reply.Immediate)
	require.Equal(t, []string{envoy.HeaderKey, envoy.HeaderCharge}, reply.Remove, "neither reaches a provider")
	r := x.Close()
	require.Equal(t, []string{"key_a", "a", "pa", "batch_1/7"}, []string{r.Key, r.Organization, r.Project, r.Charge})
	require.True(t, r.Internal)

	_, reply = ask("GET", "/v1/models/p%2Fm", Header{Name: envoy.HeaderKey, Value: "key_a"})
	require.Equal(t, 200, reply.Immediate.Status)
	for _, key := range []string{"", "gone", "key_off", "key_old"} {
		_, reply = ask("GET", "/v1/models/p%2Fm", Header{Name: envoy.HeaderKey, Value: key},
			Header{Name: "authorization", Value: "Bearer " + e.keys["key_a"]})
		require.Equal(t, 401, reply.Immediate.Status, "%q: a client's key is nothing here", key)
		require.Contains(t, string(reply.Immediate.Body), "invalid_api_key")
	}
	_, reply = ask("GET", "/v1/models/p%2Fm", Header{Name: envoy.HeaderKey, Value: "key_bound"})
	require.Equal(t, 200, reply.Immediate.Status, "of a key that is bound to other endpoints, too")
	_, reply = ask("POST", "/v1/chat/completions", Header{Name: envoy.HeaderKey, Value: "key_bound"})
	require.Equal(t, 403, reply.Immediate.Status)
	_, reply = ask("POST", "/v1/files", Header{Name: envoy.HeaderKey, Value: "key_a"})
	require.Equal(t, 404, reply.Immediate.Status, "it does not ask itself")
}

func TestTheJobServiceAsksProviders(t *testing.T) {
	e := twoTenants(t)
	x := NewInternal(e.env, e.Config)
	h := e.request("POST", "/fine_tuning/jobs?limit=2", "", Header{Name: envoy.HeaderProvider, Value: "p"},
		Header{Name: envoy.HeaderCharge, Value: "c"}, Header{Name: "content-type", Value: "application/json"},
		Header{Name: "x-account", Value: "other"}, Header{Name: "authorization", Value: "Bearer none"},
		Header{Name: "user-agent", Value: "Go"})
	reply := x.RequestHeaders(context.Background(), h, false)
	require.Nil(t, reply.Immediate)
	require.True(t, reply.PassRequest)
	require.Equal(t, envoy.KindPassed, reply.Plan.Kind)
	require.Equal(t, "p/first", reply.Plan.Targets[0].Cluster)
	require.Equal(t, "/base/fine_tuning/jobs?limit=2", reply.Set.Get(":path"))
	require.Equal(t, "Bearer credential", reply.Set.Get("authorization"))
	require.Equal(t, []string{envoy.HeaderProvider, envoy.HeaderCharge, "x-account", "user-agent"}, reply.Remove)

	answer := x.ResponseHeaders(Headers{{Name: ":status", Value: "404"}, {Name: "x-request-id", Value: "theirs"},
		{Name: "set-cookie", Value: "c"}},
		Facts{Cluster: "p/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
	require.Equal(t, Reply{ResponseBody: Streamed, PassRequest: true, Remove: []string{"content-length"}}, answer,
		"but for the gateway's credential it is not changed")
	require.Equal(t, "no such key [redacted]",
		string(x.ResponseBody(context.Background(), []byte("no such key credential"), true).Body))
	r := x.Close()
	require.Equal(t, "provider", r.Operation)
	require.Equal(t, "p", r.Provider)
	require.Equal(t, "c", r.Charge)
	require.Equal(t, metering.OutcomeRejected, r.Outcome)

	beside := NewInternal(e.env, e.Config).RequestHeaders(context.Background(),
		e.request("GET", provider.Root+"/v1/accounts?x=1", "", Header{Name: envoy.HeaderProvider, Value: "p"}), true)
	require.Equal(t, "/v1/accounts?x=1", beside.Set.Get(":path"), "what the vendor serves beside its endpoint")
	require.Equal(t, "Bearer credential", beside.Set.Get("authorization"))

	for name, status := range map[string]int{"gone": 404, "off": 404} {
		reply = NewInternal(e.env, e.Config).RequestHeaders(context.Background(),
			e.request("GET", "/models", "", Header{Name: envoy.HeaderProvider, Value: name}), true)
		require.Equal(t, status, reply.Immediate.Status)
		require.Contains(t, string(reply.Immediate.Body), "provider_not_found")
	}
	reply = NewInternal(e.env, e.Config).RequestHeaders(context.Background(), e.request("GET", "/files/..%2f..%2fadmin",
		"", Header{Name: envoy.HeaderProvider, Value: "p"}), true)
	require.Equal(t, 400, reply.Immediate.Status)
}
