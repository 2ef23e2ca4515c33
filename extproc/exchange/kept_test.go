package exchange_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/bodies"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
)

// keptBodies takes what is kept.
type keptBodies struct {
	mu  sync.Mutex // guards all
	all []*ledgerv1.KeptBodies
}

func (k *keptBodies) Keep(_ context.Context, r *ledgerv1.KeepRequest, _ ...grpc.CallOption) (*ledgerv1.KeepAnswer,
	error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, r.GetBodies())
	return &ledgerv1.KeepAnswer{}, nil
}

// kept runs an exchange under settings, and returns what is kept of it, or nil.
func kept(t *testing.T, key, project, organization *configv1.Bodies, request string,
	answers func(*exchange.Exchange)) *ledgerv1.KeptBodies {
	t.Helper()
	vendor := openai.Provider()
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "a", Vendor: vendor.Name},
		Credential: "sk"}, vendor)
	require.NoError(t, err)
	secret := auth.Generate().Reveal()
	c := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper")),
			Organizations: map[string]*configv1.Organization{"o": {Bodies: organization}},
			Projects:      map[string]*configv1.Project{"o/p": {Bodies: project}}},
		Table: routing.Table{Providers: map[string]*routing.Provider{"a": p}, Catalog: catalog.New(nil)},
	}
	hash := c.Hasher.Hash(secret)
	c.Keyring = c.Keyring.With(map[string]*configv1.Key{"k": {Name: "k", Organization: "o", Project: "p", Hash: hash[:],
		Bodies: key, Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 500}}}})
	c.Index()
	taken := &keptBodies{}
	keeper := bodies.New(taken, prometheus.NewRegistry(), zap.NewNop())
	env := &exchange.Env{Now: time.Now, NewID: func() string { return "x-1" }, Bodies: keeper,
		Limits: limit.NewMemory(limit.Options{})}
	x := exchange.New(env, c)
	x.RequestHeaders(t.Context(), exchange.Headers{{Name: ":method", Value: "POST"},
		{Name: ":path", Value: "/v1/chat/completions"}, {Name: "authorization", Value: "Bearer " + secret},
		{Name: "content-type", Value: "application/json"}}, false)
	x.RequestBody(t.Context(), []byte(request))
	answers(x)
	x.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	keeper.Run(ended) // what waits is sent at the end
	require.LessOrEqual(t, len(taken.all), 1)
	if len(taken.all) == 0 {
		return nil
	}
	return taken.all[0]
}

const asked = `{"model":"a/m","messages":[{"role":"user","content":"I am ann@example.com"}],"max_tokens":9}`

func answering(status, media string, pieces ...string) func(*exchange.Exchange) {
	return func(x *exchange.Exchange) {
		x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: status}, {Name: "content-type", Value: media}},
			exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
		for i, p := range pieces {
			x.ResponseBody(context.Background(), []byte(p), i == len(pieces)-1)
		}
	}
}

const toldWhole = `{"id":"1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello, ann@example.com!"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`

func TestBodiesAreKeptAsTheClientSeesThem(t *testing.T) {
	all := &configv1.Bodies{Share: 1}
	b := kept(t, nil, nil, all, asked, answering("200", "application/json", toldWhole[:40], toldWhole[40:]))
	require.NotNil(t, b)
	require.Equal(t, []string{"x-1", "k", "o", "p", "organization/o"},
		[]string{b.GetId(), b.GetKey(), b.GetOrganization(), b.GetProject(), b.GetSubject()})
	require.Equal(t, strings.Replace(asked, "ann@example.com", "[email]", 1), b.GetRequest().GetText())
	require.EqualValues(t, len(asked), b.GetRequest().GetBytes())
	require.Equal(t, "application/json", b.GetAnswer().GetContentType())
	require.Contains(t, b.GetAnswer().GetText(), "Hello, [email]!")
	require.Contains(t, b.GetAnswer().GetText(), `"model":"a/m"`) // the client's name

	chunk := func(content string) string {
		return `data: {"id":"1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` +
			content + `"},"finish_reason":null}]}` + "\n\n"
	}
	stream := strings.Replace(asked, `"max_tokens"`, `"stream":true,"max_tokens"`, 1)
	b = kept(t, nil, nil, all, stream, answering("200", "text/event-stream", chunk("Hello, ann"), chunk("@exam"),
		chunk("ple.com!"), "data: [DONE]\n\n"))
	require.Equal(t, "text/event-stream", b.GetAnswer().GetContentType())
	require.Contains(t, b.GetAnswer().GetText(), `"choices.0.delta.content":"Hello, [email]!"`)

	b = kept(t, nil, nil, all, asked, answering("500", "application/json", `{"error":{"message":"it broke"}}`))
	require.Contains(t, b.GetAnswer().GetText(), `"error"`)
	b = kept(t, nil, nil, all, strings.Replace(asked, `:9}`, `:9000}`, 1), func(*exchange.Exchange) {})
	require.Contains(t, b.GetRequest().GetText(), "9000", "what a limit refuses is kept too")
	b = kept(t, nil, nil, all, asked, func(*exchange.Exchange) {}) // the client has left
	require.Zero(t, b.GetAnswer().GetBytes())
}

func TestTheMostSpecificSettingSaysWhatIsKept(t *testing.T) {
	all, none := &configv1.Bodies{Share: 1}, &configv1.Bodies{}
	for name, tc := range map[string]struct {
		key, project, organization *configv1.Bodies
		subject                    string
	}{
		"nothing":          {nil, nil, nil, ""},
		"the key":          {all, none, none, "key/k"},
		"the project":      {nil, all, none, "project/o/p"},
		"the organization": {nil, nil, all, "organization/o"},
		"not this key":     {none, all, all, ""},
		"not this project": {nil, none, all, ""},
	} {
		b := kept(t, tc.key, tc.project, tc.organization, asked, answering("200", "application/json", toldWhole))
		require.Equal(t, tc.subject, b.GetSubject(), name)
		require.Equal(t, tc.subject != "", b != nil, name)
	}
}
