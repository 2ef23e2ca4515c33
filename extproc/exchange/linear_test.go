package exchange_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/testenv/work"
)

// The smaller size is more than what is kept of a request as it is.
const (
	smaller = 20 << 10
	larger  = 4 * smaller
)

// What is below these proves nothing.
const (
	floorSteps = 300_000
	floorBytes = 16<<20 + 100*larger
)

// linear fails where four times the size costs more than eight times as many steps, or makes more memory than the size
// may at all.
func linear(t *testing.T, what string, run func(size int)) {
	t.Helper()
	small, large, ok := work.Proportional(floorSteps, func() { run(smaller) }, func() { run(larger) })
	if !ok {
		t.Errorf("%s: %d KB take %d steps, and %d KB %d", what, smaller>>10, small.Steps, larger>>10, large.Steps)
	}
	if large.Bytes > floorBytes {
		t.Errorf("%s: %d KB make %d KB of memory", what, larger>>10, large.Bytes>>10)
	}
}

// A gate is a gateway with one provider, and a key that has limits.
type gate struct {
	env    *exchange.Env
	config *exchange.Config
	key    string
}

func newGate(t *testing.T, p provider.Provider, model string) *gate {
	t.Helper()
	conf := &configv1.Provider{Name: "a", Vendor: p.Name, UnsupportedParameters: configv1.UnsupportedParameters_DROP,
		Region: "eu-west-1", Project: "p"}
	if p.DefaultEndpoint == "" {
		conf.Endpoint = "http://127.0.0.1:1"
	}
	made, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: conf, Credential: "key:secret"}, p)
	require.NoError(t, err, p.Name)
	g := &gate{key: auth.Generate().Reveal()}
	g.config = &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table: routing.Table{Providers: map[string]*routing.Provider{"a": made}, Catalog: catalog.New(nil),
			Models: map[string]*configv1.Model{"any": {Name: "any",
				Targets: []*configv1.Target{{Provider: "a", Model: model}}}}},
	}
	hash := g.config.Hasher.Hash(g.key)
	g.config.Keyring = g.config.Keyring.With(map[string]*configv1.Key{"k": {Name: "k", Hash: hash[:],
		Limits: []*configv1.Limit{
			{Domain: "tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1 << 50}}}})
	g.config.Index()
	var ids atomic.Int64
	g.env = &exchange.Env{Now: time.Now, NewID: func() string { return fmt.Sprint(ids.Add(1)) },
		Limits: limit.NewMemory(limit.Options{})}
	return g
}

// ask sends a request, and returns its exchange and the last reply. The exchange is nil where it was refused.
func (g *gate) ask(s shape, body []byte) (*exchange.Exchange, exchange.Reply) {
	x := exchange.New(g.env, g.config)
	reply := x.RequestHeaders(context.Background(), exchange.Headers{
		{Name: ":method", Value: http.MethodPost}, {Name: ":path", Value: s.path}, {Name: "authorization", Value: "Bearer " +
			g.key},
		{Name: "content-type", Value: s.contentType}, {Name: "x-request-id", Value: "r"},
	}, false)
	if reply.Immediate == nil {
		reply = x.RequestBody(context.Background(), body)
	}
	return x, reply
}

// models are models of vendors whose requests depend on them.
func models(vendor string) []string {
	switch vendor {
	case "bedrock":
		return []string{"anthropic.claude-sonnet-4-5-20250929-v1:0", "amazon.nova-pro-v1:0", "cohere.embed-english-v3"}
	case "vertex":
		return []string{"gemini-3-pro-preview", "claude-sonnet-4-5@20250929"}
	case "gemini":
		return []string{"gemini-2.5-pro"}
	case "anthropic":
		return []string{"claude-sonnet-4-5"}
	case "cohere":
		return []string{"command-a"}
	case "mistral":
		return []string{"mistral-large"}
	case "openai":
		return []string{"gpt-4o"}
	}
	return []string{"some-model"}
}
