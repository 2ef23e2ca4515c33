package extproc

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/limit"
)

// pastLedger knows the past as soon as it has what the spool held.
type pastLedger struct {
	ledgerv1.LedgerClient
	past []*ledgerv1.Past

	mu    sync.Mutex // guards what follows
	asked []*ledgerv1.PastRequest
	err   error
}

func (l *pastLedger) requests() []*ledgerv1.PastRequest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

func (l *pastLedger) fails(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func (l *pastLedger) Spent(context.Context, *ledgerv1.SpentRequest, ...grpc.CallOption) (*ledgerv1.SpentAnswer,
	error) {
	return &ledgerv1.SpentAnswer{Cursor: "c"}, nil
}

func (l *pastLedger) Past(_ context.Context, r *ledgerv1.PastRequest,
	_ ...grpc.CallOption) (grpc.ServerStreamingClient[ledgerv1.PastAnswer], error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, r)
	return &pastStream{of: l}, l.err
}

type pastStream struct {
	grpc.ServerStreamingClient[ledgerv1.PastAnswer]
	of   *pastLedger
	next int
}

func (s *pastStream) Recv() (*ledgerv1.PastAnswer, error) {
	if s.next == len(s.of.past) {
		return nil, io.EOF
	}
	s.next++
	return &ledgerv1.PastAnswer{Past: s.of.past[s.next-1 : s.next]}, nil
}

// A replayedSpool is one that had something when it was opened.
type replayedSpool struct {
	recordSpool
	replayed chan struct{}
	hurried  atomic.Int64
}

func (s *replayedSpool) Replayed() <-chan struct{} { return s.replayed }
func (s *replayedSpool) Hurry()                    { s.hurried.Add(1) }

// TestWindowsFollowTheLedgerAfterARestart: limits of hours and days, of every scope, count what the ledger knows to
// have been used before, once what the spool held is there.
func TestWindowsFollowTheLedgerAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := func(domain string, unit configv1.Unit, n uint64) *configv1.Limit {
			return &configv1.Limit{Domain: domain, Unit: unit, RequestsPerUnit: n}
		}
		ofUsers := &rlsv3.RateLimitDescriptor{Key: "user", RateLimit: &rlsv3.RateLimitPolicy{Unit: rlsv3.RateLimitUnit_DAY,
			RequestsPerUnit: 100}}
		users, err := access.NewRateLimit(&rlsv3.RateLimitConfig{Name: "users", Domain: "requests",
			Descriptors: []*rlsv3.RateLimitDescriptor{ofUsers}})
		require.NoError(t, err)
		some, err := access.NewRateLimit(&rlsv3.RateLimitConfig{Name: "some", Domain: "requests",
			Descriptors: []*rlsv3.RateLimitDescriptor{{Key: configv1.WhenDescriptor, Value: "size > 1",
				Descriptors: []*rlsv3.RateLimitDescriptor{ofUsers}}}})
		require.NoError(t, err)
		config := &exchange.Config{
			Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper")),
				Organizations: map[string]*configv1.Organization{"acme": {Limits: []*configv1.Limit{rate("tokens",
					configv1.Unit_DAY, 1000)}}},
				Projects: map[string]*configv1.Project{"acme/web": {Limits: []*configv1.Limit{{Domain: "output_tokens",
					Unit: configv1.Unit_HOUR, RequestsPerUnit: 100, Model: "gpt*"}}}},
				RateLimits: map[string]*access.RateLimit{"users": users, "some": some}},
		}
		config.Keyring = keyring(config, map[string]string{"k": "secret"}, &configv1.Key{Name: "k", Organization: "acme",
			Project: "web",
			Limits:  []*configv1.Limit{rate("requests", configv1.Unit_DAY, 100), rate("requests", configv1.Unit_MINUTE, 100)}})
		now := time.Now()
		past := func(ago time.Duration, model string, n int64) *ledgerv1.Past {
			return &ledgerv1.Past{End: timestamppb.New(now.Add(-ago)), Key: "k", Organization: "acme", Project: "web",
				User: "ann", Model: model,
				Provider: "p", Requests: n, InputTokens: 10 * n, OutputTokens: n}
		}
		gone := past(2*time.Hour, "gpt-1", 3)
		gone.Key = "revoked"
		ledger := &pastLedger{past: []*ledgerv1.Past{past(10*time.Minute, "gpt-1", 5), past(10*time.Minute, "claude", 1),
			past(20*time.Hour, "gpt-1", 7), gone}, err: errors.New("away")}
		spool := &replayedSpool{replayed: make(chan struct{})}
		s := &Server{log: zap.NewNop(), ledger: ledger, spool: spool, config: &configClient{},
			env: exchange.Env{Limits: limit.NewMemory(limit.Options{})}, began: now}
		s.config.current.Store(config)
		left := func(counter string, w limit.Window) int64 {
			states, err := s.env.Limits.Peek(t.Context(), []limit.Rule{{Counter: counter, Window: w, Limit: 1000}})
			require.NoError(t, err)
			return states[0].Remaining
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.followSpent(ctx)
		time.Sleep(spentTimeout - time.Second) // of the bubble
		require.Nil(t, s.configuration(), "nobody is served before the spool is shipped")
		require.Empty(t, ledger.requests())
		require.EqualValues(t, 1, spool.hurried.Load())
		time.Sleep(2 * time.Second)
		require.NotNil(t, s.configuration(), "traffic does not wait forever")
		close(spool.replayed)
		time.Sleep(time.Second)
		require.NotEmpty(t, ledger.requests(), "it goes on at once")
		require.EqualValues(t, 1000, left("key/k/requests/day", limit.Day), "the ledger fails")
		ledger.fails(nil)
		time.Sleep(2 * seedEvery)
		first, asked := ledger.requests()[0], len(ledger.requests())
		require.True(t, first.GetUsers() && first.GetUntil().AsTime().Equal(now))
		require.EqualValues(t, 1000-13, left("key/k/requests/day", limit.Day))
		require.EqualValues(t, 1000, left("key/k/requests/minute", limit.Minute))
		require.EqualValues(t, 1000-16*11, left("organization/acme/tokens/day", limit.Day))
		require.EqualValues(t, 1000-5, left("project/acme/web/output_tokens/hour/gpt*", limit.Hour),
			"an hour is an hour, and the model counts")
		time.Sleep(time.Minute)
		require.Len(t, ledger.requests(), asked, "once")
		require.EqualValues(t, 1000-13, left("key/k/requests/day", limit.Day))
		require.Len(t, config.Past(ledger.past[0], nil), 4, "the user's among them")
	})
}
