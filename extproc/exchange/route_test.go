package exchange

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

// TestOperationsAreTheGatewaysOwn holds that no route can take the path of an operation.
func TestOperationsAreTheGatewaysOwn(t *testing.T) {
	for path := range dialects.Paths() {
		if path != "/v1/responses/compact" { // an operation comes before the route that may be above it
			require.NotEmpty(t, configv1.OwnPath(path), path)
		}
	}
	for _, path := range []string{"/v1/models", "/v1/files", "/v1/uploads", "/v1/batches", "/v1/fine_tuning/jobs"} {
		require.NotEmpty(t, configv1.OwnPath(path), path)
	}
}

func TestRoutes(t *testing.T) {
	routes := routing.NewRoutes(map[string]*configv1.Route{
		"short": {PathPrefix: "/a", Provider: "short"},
		"long":  {PathPrefix: "/a/b/", Provider: "long", RewritePrefix: new("/c")},
		"other": {PathPrefix: "/v1/ocr", Provider: "other"},
		"none":  {PathPrefix: "/x", Provider: "none", RewritePrefix: new("")},
	})
	for path, want := range map[string]string{
		"/a": "short /a", "/a/": "short /a/", "/a/x": "short /a/x", "/ab": "", "/a/b": "long /c", "/a/b/": "long /c/",
		"/a/b/c/d": "long /c/c/d",
		"/a/bc":    "short /a/bc", "/v1/ocr": "other /ocr", "/v1/ocr/x": "other /ocr/x", "/v1": "", "/": "",
		"":     "",
		"/x/y": "none /y",
	} {
		got := ""
		if r := routes.Find(path); r != nil {
			got = r.Provider + " " + r.Rewrite(path)
		}
		require.Equal(t, want, got, path)
	}
}

func TestClimbs(t *testing.T) {
	for path, want := range map[string]bool{
		"/a/b": false, "/a/..b": false, "/a/b..": false, "/a/...": false, "/a/..": true, "/a/%2e%2e/b": true,
		"/a/x%2F..%2Fb": true, `/a\..\b`: true, "/a/%": true, "/a/.%2e": true,
	} {
		require.Equal(t, want, routing.HasParentSegment(path), path)
	}
}

// routed returns an exchange over a provider "p" with a route "/p".
func routed(t *testing.T, vendor provider.Provider, key *configv1.Key) (*Exchange, Headers) {
	vendor.DefaultEndpoint = "https://p.test/base"
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "p",
		Headers: map[string]string{"X-Team": "blue"}}, Credential: "credential"}, vendor)
	require.NoError(t, err)
	secretKey := auth.Generate().Reveal()
	c := &Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table:     routing.Table{Providers: map[string]*routing.Provider{"p": p}},
		Routes: routing.NewRoutes(map[string]*configv1.Route{"r": {PathPrefix: "/p", Provider: "p",
			RewritePrefix: new("")}, "lost": {PathPrefix: "/lost", Provider: "gone"}}),
	}
	hash := c.Hasher.Hash(secretKey)
	key.Hash = hash[:]
	c.Keyring = c.Keyring.With(map[string]*configv1.Key{"k": key})
	env := &Env{Now: func() time.Time { return time.Unix(1700000000, 0) }, NewID: func() string { return "id" }}
	return New(env, c), Headers{
		{Name: ":method", Value: "PUT"}, {Name: ":path", Value: "/p/x?y=1"}, {Name: "authorization", Value: "Bearer " +
			secretKey}, {Name: "content-type", Value: "text/plain"}, {Name: "x-account", Value: "mine"},
		{Name: "x-vendor-version", Value: "7"},
	}
}

// bodySigner signs what it is given, the body too where it wants that.
func bodySigner(signsBody bool) provider.Provider {
	return provider.Provider{Name: "v", SignsBody: signsBody, CredentialHeaders: []string{"Authorization", "X-Account",
		"X-Vendor-Version"},
		Sign: func(r *provider.Request, s provider.Signing) error {
			sum := sha256.Sum256(r.Body)
			r.Header.Set("Authorization", strings.Join([]string{s.Method, r.Path, s.Credential.Reveal(),
				hex.EncodeToString(sum[:2])}, " "))
			return nil
		}}
}

func TestARouteSignsBodiesWhereItMust(t *testing.T) {
	t.Run("the body passes", func(t *testing.T) {
		x, h := routed(t, bodySigner(false), &configv1.Key{Name: "k"})
		reply := x.RequestHeaders(context.Background(), h, false)
		require.Nil(t, reply.Immediate)
		require.True(t, reply.PassRequest)
		require.Equal(t, None, reply.ResponseBody)
		require.Equal(t, "id", reply.Names.ID)
		require.NotNil(t, reply.Plan)
		require.Equal(t, "p/first", reply.Plan.Targets[0].Cluster)
		require.Equal(t, "/base/x?y=1", reply.Set.Get(":path"))
		require.Equal(t, "PUT /x?y=1 credential e3b0", reply.Set.Get("authorization"))
		require.Equal(t, "blue", reply.Set.Get("x-team"))
		require.Empty(t, reply.Set.Get("content-length"), "the body is not known")
		require.Equal(t, []string{"x-account"}, reply.Remove, "authorization is set, and a version is no account")
	})
	t.Run("the body is waited for", func(t *testing.T) {
		x, h := routed(t, bodySigner(true), &configv1.Key{Name: "k"})
		reply := x.RequestHeaders(context.Background(), h, false)
		require.Nil(t, reply.Plan)
		require.False(t, reply.PassRequest)
		reply = x.RequestBody(context.Background(), []byte("body"))
		require.NotNil(t, reply.Plan)
		require.Equal(t, "PUT /x?y=1 credential 230d", reply.Set.Get("authorization"))
		require.Equal(t, "4", reply.Set.Get("content-length"))
		require.False(t, reply.ReplaceBody)
	})
	t.Run("there is none", func(t *testing.T) {
		x, h := routed(t, bodySigner(true), &configv1.Key{Name: "k"})
		require.NotNil(t, x.RequestHeaders(context.Background(), h, true).Plan)
	})
}

// Who answers a TRACE repeats the request with its credential, with a status of 200.
func TestARouteTracesNothing(t *testing.T) {
	x, h := routed(t, bodySigner(false), &configv1.Key{Name: "k"})
	h[0].Value = "TRACE"
	reply := x.RequestHeaders(context.Background(), h, true)
	require.NotNil(t, reply.Immediate)
	require.Nil(t, reply.Plan)
	require.Equal(t, 405, reply.Immediate.Status)
}

func TestWhoMayUseARoute(t *testing.T) {
	for models, status := range map[string]int{"": 0, "*": 0, "p/*": 0, "p/model": 403, "q/*": 403} {
		key := &configv1.Key{Name: "k"}
		if models != "" {
			key.Models = []string{models}
		}
		x, h := routed(t, bodySigner(false), key)
		reply := x.RequestHeaders(context.Background(), h, true)
		if status == 0 {
			require.Nil(t, reply.Immediate, models)
			continue
		}
		require.Equal(t, status, reply.Immediate.Status, models)
		require.Contains(t, string(reply.Immediate.Body), "route_not_allowed")
	}
	x, h := routed(t, bodySigner(false), &configv1.Key{Name: "k"})
	h[1].Value = "/lost"
	require.Equal(t, 503, x.RequestHeaders(context.Background(), h, true).Immediate.Status)
	x, h = routed(t, provider.Provider{Name: "v",
		Sign: func(*provider.Request, provider.Signing) error { return secretError{} }}, &configv1.Key{Name: "k"})
	reply := x.RequestHeaders(context.Background(), h, true)
	require.Equal(t, 502, reply.Immediate.Status)
	require.NotContains(t, string(reply.Immediate.Body), "sk-secret")
	require.Equal(t, []secret.Value{secret.New("credential")}, x.c.Config.Providers["p"].Secrets())
}

type secretError struct{}

func (secretError) Error() string { return "cannot parse sk-secret" }
