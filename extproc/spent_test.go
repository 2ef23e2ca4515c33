package extproc

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/limit"
)

// A fakeLedger says what a test has it say.
type fakeLedger struct {
	ledgerv1.LedgerClient

	mu      sync.Mutex // guards what follows
	cursors []string
	answer  *ledgerv1.SpentAnswer
	err     error
}

func (l *fakeLedger) Spent(_ context.Context, r *ledgerv1.SpentRequest, _ ...grpc.CallOption) (*ledgerv1.SpentAnswer,
	error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cursors = append(l.cursors, r.GetCursor())
	return l.answer, l.err
}

func (l *fakeLedger) says(cursor string, err error, spent ...*ledgerv1.Spent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range spent {
		s.At = timestamppb.Now()
	}
	l.answer, l.err = &ledgerv1.SpentAnswer{Cursor: cursor, Spent: spent}, err
}

// TestBudgetsFollowTheLedger is pitfall 95 after a restart, and between replicas.
func TestBudgetsFollowTheLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &fakeLedger{}
		budgets := []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "1"}, {Unit: configv1.Unit_MONTH, Usd: "5"}}
		config := &exchange.Config{
			Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper")),
				Organizations: map[string]*configv1.Organization{"acme": {Budgets: budgets}},
				Projects:      map[string]*configv1.Project{"acme/web": {Budgets: budgets[1:]}}},
		}
		config.Keyring = keyring(config, map[string]string{"k": "secret", "free": "other"},
			&configv1.Key{Name: "k", Budgets: budgets[:1]})
		s := &Server{log: zap.NewNop(), ledger: ledger, config: &configClient{},
			env: exchange.Env{Limits: limit.NewMemory(limit.Options{})}}
		left := func(counter string, w limit.Window) int64 {
			states, err := s.env.Limits.Peek(t.Context(),
				[]limit.Rule{{Counter: counter, Window: w, Measure: limit.Cost, Limit: 1000}})
			require.NoError(t, err)
			return states[0].Remaining
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.followSpent(ctx)
		time.Sleep(time.Second) // of the bubble
		require.Empty(t, ledger.cursors, "without a configuration nobody is served")

		ledger.says("c1", nil, &ledgerv1.Spent{Subject: "key/k", DayNanoUsd: 100, MonthNanoUsd: 300},
			&ledgerv1.Spent{Subject: "key/free", DayNanoUsd: 7, MonthNanoUsd: 7},
			&ledgerv1.Spent{Subject: "organization/acme", DayNanoUsd: 10, MonthNanoUsd: 20},
			&ledgerv1.Spent{Subject: "project/acme/web", DayNanoUsd: 1, MonthNanoUsd: 2}, &ledgerv1.Spent{Subject: "key/gone"})
		s.config.current.Store(config)
		require.Nil(t, s.configuration(), "nobody is served before it is known what was spent")
		time.Sleep(100 * time.Millisecond)
		require.NotNil(t, s.configuration())
		require.EqualValues(t, 900, left("budget/key/k/day", limit.CalendarDay))
		require.EqualValues(t, 1000, left("budget/key/k/month", limit.CalendarMonth), "it has no such budget")
		require.EqualValues(t, 1000, left("budget/key/free/day", limit.CalendarDay))
		require.EqualValues(t, 990, left("budget/organization/acme/day", limit.CalendarDay))
		require.EqualValues(t, 980, left("budget/organization/acme/month", limit.CalendarMonth))
		require.EqualValues(t, 998, left("budget/project/acme/web/month", limit.CalendarMonth))

		ledger.says("", errors.New("away"))
		time.Sleep(spentEvery)
		ledger.says("c2", nil, &ledgerv1.Spent{Subject: "key/k", DayNanoUsd: 150, MonthNanoUsd: 350})
		time.Sleep(spentEvery)
		require.EqualValues(t, 850, left("budget/key/k/day", limit.CalendarDay))

		next := *config
		next.Keyring = next.Keyring.With(map[string]*configv1.Key{"free": {Name: "free", Hash: make([]byte, 32),
			Budgets: budgets[:1]}})
		s.config.current.Store(&next)
		ledger.says("c3", nil)
		time.Sleep(spentEvery)
		require.EqualValues(t, 993, left("budget/key/free/day", limit.CalendarDay),
			"a budget that is new knows what was spent before")
		require.Equal(t, []string{"", "c1", "c1", "c2"}, ledger.cursors)
	})
}

// A recordSpool keeps what it is told.
type recordSpool struct {
	mu    sync.Mutex // guards ended
	ended []*ledgerv1.Record
}

func (s *recordSpool) Begin(*ledgerv1.Record) {}

func (s *recordSpool) End(r *ledgerv1.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, proto.CloneOf(r))
}

func (s *recordSpool) Run(ctx context.Context, _ ledgerv1.LedgerClient) { <-ctx.Done() }
func (s *recordSpool) Close() error                                     { return nil }

// TestTheLedgerHearsOfTheEndOnce is about records that wait for what only Envoy knows.
func TestTheLedgerHearsOfTheEndOnce(t *testing.T) {
	spool := &recordSpool{}
	j := newJournal(zap.NewNop(), newMetrics(prometheus.NewRegistry(), nil), newSampler(prometheus.NewRegistry()), spool,
		"p-")
	cut := metering.Record{ID: "p-1", Dispatched: true, Outcome: metering.OutcomeCut, End: time.Now()}
	j.exchange(cut)
	require.Empty(t, spool.ended, "by whom it was cut is not known yet")
	j.sweep(time.Now().Add(2 * flushWait))
	require.Len(t, spool.ended, 1)
	require.Equal(t, "interrupted", spool.ended[0].GetOutcome())

	j.exchange(metering.Record{ID: "p-2", Dispatched: true, Outcome: metering.OutcomeFinished, End: time.Now()})
	j.exchange(metering.Record{ID: "p-3", Outcome: metering.OutcomeCut, End: time.Now()})
	j.sweep(time.Now().Add(2 * flushWait))
	require.Len(t, spool.ended, 1,
		"one that finished has told it itself, and one that did not go out has nothing to tell")
}
