package batches_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/usage"
)

// A ledger keeps records by their ids, where a test lets it.
type ledger struct {
	ledgerv1.LedgerClient

	mu      sync.Mutex
	away    bool
	unsaid  int // records that are kept while the answer does not come
	records map[string]*ledgerv1.Record
	calls   int
	differ  bool // of two records with an id
}

func (l *ledger) Record(_ context.Context, r *ledgerv1.RecordRequest, _ ...grpc.CallOption) (*ledgerv1.RecordAnswer,
	error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls++
	if l.away {
		return nil, errReset
	}
	for _, one := range r.GetRecords() {
		before := l.records[one.GetId()]
		l.differ = l.differ || before != nil && !proto.Equal(before, one)
		l.records[one.GetId()] = one
	}
	if l.unsaid > 0 {
		l.unsaid--
		return nil, errReset
	}
	return &ledgerv1.RecordAnswer{}, nil
}

func (l *ledger) set(change func(*ledger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// only returns the one record that there is.
func (l *ledger) only(t *testing.T) *ledgerv1.Record {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	require.Len(t, l.records, 1)
	require.False(t, l.differ, "a record that is sent again says the same")
	for _, r := range l.records {
		return r
	}
	return nil
}

// sums returns the lines and the tokens of all records.
func (l *ledger) sums() (lines, tokens int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		lines += r.GetRequests()
		tokens += r.GetInputTokens() + r.GetOutputTokens()
	}
	return lines, tokens
}

// price is that of the model m-1: a dollar for a million tokens of a prompt, and more for those of a long one.
func price() *configv1.Price {
	return &configv1.Price{Input: "1", Output: "2", CachedInput: "0.5", BatchFactor: "0.25",
		Tiers: []*configv1.PriceTier{{AbovePromptTokens: 200_000, Input: "4"}}}
}

func pricedWorld(t *testing.T) (*world, *vendor) {
	w, v := nativeWorld(t)
	w.config.Catalog = catalog.New(&configv1.Catalog{Models: []*configv1.ModelFacts{
		{Vendors: []string{"acme-ai"}, Models: []string{"m-1"}, Price: price()},
	}})
	v.report.Over = true
	return w, v
}

func TestWhatAProviderRanIsCharged(t *testing.T) {
	t.Parallel()
	w, v := pricedWorld(t)
	w.ledger.away = true
	v.broken = 2 // what was read before counts once
	v.results = func(line int, request []byte) *provider.BatchAnswer {
		a := answered(line, request)
		switch line {
		case 1:
			return &provider.BatchAnswer{Status: 400, Body: []byte(`{"error":{"message":"no"}}`)}
		case 2:
			a.Usage = openai.Usage{PromptTokens: 300_000, CompletionTokens: 1000, TotalTokens: 301_000}
		default:
			a.Usage = openai.Usage{PromptTokens: 100_000, CachedTokens: 40_000, CompletionTokens: 500, ReasoningTokens: 100,
				TotalTokens: 100_500}
		}
		return a
	}
	began := time.Now().Add(-time.Second)
	w.run(nil)
	id := w.create(requests(12))
	b := w.until(id, func(b wire) bool { return b.status() == "completed" })
	require.Len(t, w.file(b, "output_file_id"), 11, "results do not wait for the ledger")
	w.eventually(func() bool { w.ledger.mu.Lock(); defer w.ledger.mu.Unlock(); return w.ledger.calls > 1 })
	require.Empty(t, w.ledger.records)
	w.ledger.set(func(l *ledger) { l.away, l.unsaid = false, 1 })
	w.over(id)

	r := w.ledger.only(t)
	require.WithinRange(t, r.GetStart().AsTime(), began, time.Now())
	// In micro-dollars: the long prompt is at its tier's price, and no other is, however many tokens they have together.
	full := int64(1_200_000+2000) + 10*(60_000+20_000+1000)
	want := &ledgerv1.Record{
		Id: id, Start: r.GetStart(), End: r.GetStart(), Key: "key-1", Organization: "acme", Project: "p1",
		Operation: "chat/completions",
		Model:     "m", Provider: "acme-ai", UpstreamModel: "m-1", Attempts: 1, Status: 200, Outcome: "finished",
		Requests:    12,
		Batch:       true,
		InputTokens: 1_300_000, CachedTokens: 400_000, OutputTokens: 6000, ReasoningTokens: 1000,
		CostNanoUsd: full * 1000 / 4, Priced: true, PriceVersion: usage.Version(price()),
	}
	require.Empty(t, diff(want, r))
	require.NotEmpty(t, r.GetPriceVersion())
}

// diff says where two records are not the same.
func diff(want, got *ledgerv1.Record) string {
	if proto.Equal(want, got) {
		return ""
	}
	return "want " + want.String() + "\ngot  " + got.String()
}

func TestAChargeOutlivesItsWorkers(t *testing.T) {
	t.Parallel()
	w, v := pricedWorld(t)
	v.report.Over = false
	w.ledger.away = true
	kill := w.mortal()
	id := w.create(requests(200))
	w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
	for i := range 8 {
		next := w.mortal()
		kill()
		kill = next
		switch i {
		case 1:
			v.set(func(v *vendor) { v.report.Over, v.broken = true, 2 })
		case 4:
			w.until(id, func(b wire) bool { return b.status() == "completed" })
			w.ledger.set(func(l *ledger) { l.away, l.unsaid = false, 3 })
		}
	}
	w.over(id)
	r := w.ledger.only(t)
	require.EqualValues(t, 200, r.GetRequests())
	require.EqualValues(t, 600, r.GetInputTokens())
	require.EqualValues(t, 800, r.GetOutputTokens())
}

func TestOnlyWhatAProviderRanIsCharged(t *testing.T) {
	t.Parallel()
	t.Run("half of the lines", func(t *testing.T) {
		w, v := pricedWorld(t)
		v.results = func(line int, request []byte) *provider.BatchAnswer {
			if line%2 == 0 {
				return nil
			}
			return answered(line, request)
		}
		w.asked.answer = fine
		w.run(nil)
		b := w.over(w.create(requests(20)))
		require.EqualValues(t, 140, b.Get("usage.total_tokens").Int())
		r := w.ledger.only(t)
		require.EqualValues(t, 10, r.GetRequests())
		require.EqualValues(t, 30, r.GetInputTokens())
		require.Zero(t, r.GetCachedTokens(), "a line's own exchange is charged by itself")
	})
	t.Run("until it was cancelled, of a model without a price", func(t *testing.T) {
		w, v := nativeWorld(t)
		v.results = func(line int, request []byte) *provider.BatchAnswer {
			if line > 4 {
				return nil
			}
			return answered(line, request)
		}
		w.run(nil)
		id := w.create(requests(10))
		w.until(id, func(wire) bool { v.mu.Lock(); defer v.mu.Unlock(); return v.polls > 0 })
		require.Equal(t, http.StatusOK, w.call("POST", "/v1/batches/"+id+"/cancel", "").Code)
		v.set(func(v *vendor) { v.report.Over = true })
		require.Equal(t, "cancelled", w.over(id).status())
		r := w.ledger.only(t)
		require.EqualValues(t, 4, r.GetRequests())
		require.False(t, r.GetPriced())
		require.Zero(t, r.GetCostNanoUsd())
	})
	t.Run("nothing", func(t *testing.T) {
		w, v := pricedWorld(t)
		v.refuse = openai.Code("no").On("", "This model has no batches.")
		w.asked.answer = fine
		w.run(nil)
		w.over(w.create(requests(5)))
		require.Empty(t, w.ledger.records)
	})
}

func TestABatchThatLimitsHoldForRunsLineByLine(t *testing.T) {
	t.Parallel()
	limit := []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 1000}}
	budget := []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "1"}}
	of := func(key, value string, below ...*configv1.RateLimitDescriptor) *configv1.RateLimitDescriptor {
		d := &configv1.RateLimitDescriptor{Key: key, Value: value, Descriptors: below}
		if len(below) == 0 {
			d.RateLimit = &configv1.RateLimitPolicy{Unit: configv1.Unit_MINUTE, RequestsPerUnit: 5}
		}
		return d
	}
	rates := func(d ...*configv1.RateLimitDescriptor) configv1.Object {
		return &configv1.RateLimit{Name: "r", Domain: "tokens", Descriptors: d}
	}
	some := rates(of("key", "key-1")).(*configv1.RateLimit)
	some.When = "size > 1000000" // no line is, but lines have to be read to know
	shadow := of("key", "")
	shadow.ShadowMode = true
	guardRules := []*configv1.GuardRule{{Name: "r", Mode: configv1.GuardMode_MASK, Words: []string{"x"}}}
	policyRules := []*configv1.PolicyRule{{Name: "r", Deny: "stream"}}
	for name, c := range map[string]struct {
		object  configv1.Object
		limited bool
	}{
		"a budget of the key":         {&configv1.Key{Name: "key-1", Budgets: budget}, true},
		"a limit of the key":          {&configv1.Key{Name: "key-1", Limits: limit}, true},
		"a budget of the project":     {&configv1.Project{Name: "acme/p1", Budgets: budget}, true},
		"a limit of the organization": {&configv1.Organization{Name: "acme", Limits: limit}, true},
		"a limit of users":            {rates(of("organization", "acme", of("user", ""))), true},
		"a limit of models":           {rates(of("project", "acme/p1", of("model", "m*"))), true},
		"a limit of the provider":     {rates(of("provider", "acme-ai")), true},
		"what the key is for":         {&configv1.Key{Name: "key-1", Endpoints: []string{"batches"}}, true},
		"a guardrail": {&configv1.Guardrail{Name: "g", Project: "p1", Organization: "acme", Models: []string{"m*"},
			Rules: guardRules}, true},
		"a guardrail for other models":      {&configv1.Guardrail{Name: "g", Models: []string{"n*"}, Rules: guardRules}, false},
		"a guardrail that is disabled":      {&configv1.Guardrail{Name: "g", Disabled: true, Rules: guardRules}, false},
		"a policy":                          {&configv1.Policy{Name: "p", Organization: "acme", Rules: policyRules}, true},
		"a policy of another key":           {&configv1.Policy{Name: "p", Key: "key-2", Rules: policyRules}, false},
		"a policy that is disabled":         {&configv1.Policy{Name: "p", Disabled: true, Rules: policyRules}, false},
		"none of the key":                   {&configv1.Key{Name: "key-1"}, false},
		"another key's":                     {&configv1.Key{Name: "key-2", Budgets: budget}, false},
		"another project's":                 {&configv1.Project{Name: "acme/p2", Limits: limit}, false},
		"a limit of another model":          {rates(of("key", "key-1", of("model", "n*"))), false},
		"a limit of some requests":          {some, true},
		"a limit that only counts":          {rates(shadow), false},
		"a limit of another organization's": {rates(of("organization", "globex")), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, v := pricedWorld(t)
			_, err := w.objects.Put(t.Context(), c.object, configstore.AnyRevision)
			require.NoError(t, err)
			w.asked.answer = fine
			w.run(nil)
			require.Equal(t, "completed", w.over(w.create(requests(3))).status())
			require.Equal(t, c.limited, len(v.submitted) == 0)
		})
	}
}
