package exchange_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider/vendors/compatible"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
)

// A meter is a gateway of which everything that is counted is seen.
type meter struct {
	t      *testing.T
	env    *exchange.Env
	config *exchange.Config
	secret string
	key    *configv1.Key
	now    time.Time

	mu       sync.Mutex // guards what follows
	reserved []limit.Demand
	settled  []limit.Amounts
	begun    []*ledgerv1.Record
	ended    []*ledgerv1.Record
	refusals []string

	ids atomic.Int64
}

// newMeter returns one with two providers, "a" and "b", where m-1 costs 1 and 2 dollars a million tokens, and a key.
func newMeter(t *testing.T, key *configv1.Key, concurrency ...*configv1.Concurrency) *meter {
	m := &meter{t: t, secret: auth.Generate().Reveal(), key: key, now: time.Unix(1_700_000_000, 0)}
	memory := limit.NewMemory(limit.Options{Clock: func() time.Time { return m.now }})
	m.env = &exchange.Env{
		Now: func() time.Time { return m.now }, Random: func(uint32) uint32 { return 0 }, Spool: m, Observer: m,
		NewID:  func() string { return fmt.Sprint("x-", m.ids.Add(1)) },
		Limits: &spyLimiter{memory, m},
	}
	price := &configv1.ModelFacts{Models: []string{"m-1"}, Price: &configv1.Price{Input: "1", Output: "2"},
		Capabilities: &configv1.Capabilities{MaxOutputTokens: proto.Int64(4000)}}
	m.config = &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table: routing.Table{Catalog: catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{price}}),
			Providers: map[string]*routing.Provider{}, Models: map[string]*configv1.Model{}},
		Routes: routing.NewRoutes(map[string]*configv1.Route{"r": {PathPrefix: "/r", Provider: "a"}}),
	}
	for i, name := range []string{"a", "b"} {
		config := &configv1.Provider{Name: name, Vendor: "openai", Concurrency: nil, SharedObjects: true}
		if i < len(concurrency) {
			config.Concurrency = concurrency[i]
		}
		p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: config, Credential: "sk-provider"},
			openai.Provider())
		require.NoError(t, err)
		m.config.Providers[name] = p
	}
	m.config.Models["both"] = &configv1.Model{Name: "both", Targets: []*configv1.Target{{Provider: "a", Model: "m-1"},
		{Provider: "b", Model: "m-1", Priority: 1}}}
	m.configure()
	return m
}

// configure has what has changed take effect.
func (m *meter) configure() {
	hash := m.config.Hasher.Hash(m.secret)
	m.key.Hash = hash[:]
	next := *m.config
	next.Keyring = next.Keyring.With(map[string]*configv1.Key{m.key.GetName(): m.key})
	m.config = &next
}

func (m *meter) Begin(r *ledgerv1.Record) { noted(m, &m.begun, proto.CloneOf(r)) }
func (m *meter) End(r *ledgerv1.Record)   { noted(m, &m.ended, proto.CloneOf(r)) }

// noted adds to a list of the meter. Exchanges of one test may run at the same time.
func noted[T any](m *meter, list *[]T, v T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*list = append(*list, v)
}

func (m *meter) Run(context.Context, ledgerv1.LedgerClient) {}
func (m *meter) Close() error                               { return nil }

func (m *meter) Shed(why string)                             { noted(m, &m.refusals, why) }
func (m *meter) Degraded()                                   {}
func (m *meter) Chunks(*metering.Record, int, time.Duration) {}
func (m *meter) Refused(domain, scope string)                { noted(m, &m.refusals, scope+" "+domain) }

// A spyLimiter tells the meter what is reserved and settled.
type spyLimiter struct {
	limit.Limiter
	m *meter
}

func (l *spyLimiter) Reserve(ctx context.Context, d limit.Demand) (limit.Decision, error) {
	decided, err := l.Limiter.Reserve(ctx, d)
	if decided.Reservation != nil {
		noted(l.m, &l.m.reserved, d)
		decided.Reservation = &spyReservation{decided.Reservation, l.m}
	}
	return decided, err
}

type spyReservation struct {
	limit.Reservation
	m *meter
}

func (r *spyReservation) Settle(used limit.Amounts) {
	noted(r.m, &r.m.settled, used)
	r.Reservation.Settle(used)
}

// ask begins an exchange and returns the reply to the request's body.
func (m *meter) ask(path, body string, more ...exchange.Header) (*exchange.Exchange, exchange.Reply) {
	x := exchange.New(m.env, m.config)
	media := "application/json"
	if strings.HasPrefix(body, "--b") {
		media = "multipart/form-data; boundary=b"
	}
	h := append(exchange.Headers{
		{Name: ":method", Value: "POST"}, {Name: ":path", Value: path}, {Name: "authorization", Value: "Bearer " + m.secret},
		{Name: "content-type", Value: media}, {Name: "x-request-id", Value: "req"},
	}, more...)
	if reply := x.RequestHeaders(m.t.Context(), h, false); reply.Immediate != nil || reply.PassRequest {
		return x, reply
	}
	return x, x.RequestBody(m.t.Context(), []byte(body))
}

// takeAll puts servers that take what OpenAI refuses in the place of the providers.
func (m *meter) takeAll(t *testing.T) {
	for name := range m.config.Providers {
		config := &configv1.Provider{Name: name, Vendor: "compatible", Endpoint: "https://a.test"}
		p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: config, Credential: "sk-provider"},
			compatible.Provider())
		require.NoError(t, err)
		m.config.Providers[name] = p
	}
	m.configure()
}

func (m *meter) chat(body string) (*exchange.Exchange, exchange.Reply) {
	return m.ask("/v1/chat/completions", body)
}

// answer has a provider begin to answer.
func answer(x *exchange.Exchange, status, contentType string) exchange.Reply {
	return x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: status},
		{Name: "content-type", Value: contentType}},
		exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
}

const (
	ask40    = `{"model":"a/m-1","messages":[{"role":"user","content":"hi"}],"max_tokens":40}`
	stream40 = `{"model":"a/m-1","messages":[{"role":"user","content":"hi"}],"max_tokens":40,"stream":true}`
	whole    = `{"id":"c","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}`
	usage11  = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}` + "\n\n"
	over     = "data: [DONE]\n\n"
)

func fullKey() *configv1.Key {
	return &configv1.Key{Name: "key_1", Organization: "acme", Limits: []*configv1.Limit{
		{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 10},
		{Domain: "tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1000},
		{Domain: "concurrency", RequestsPerUnit: 2},
	}, Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "1"}}}
}
