package incidents

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Run(m)) }

// A gateway is a ledger with a configuration, and what the facts of the configuration are.
type gateway struct {
	t        *testing.T
	book     *ledger.Ledger
	facts    attention.Facts
	versions []adminapi.Version
	stays    bool // what was changed, after a rollback
	now      time.Time
}

func newGateway(t *testing.T) *gateway {
	return newGatewayOn(t, "sqlite://"+filepath.Join(t.TempDir(), "ledger.db"))
}

func newGatewayOn(t *testing.T, dsn string) *gateway {
	book, err := ledger.Open(t.Context(), dsn, zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, book.Close()) })
	return &gateway{t: t, book: book, now: time.Now().UTC().Truncate(time.Second)}
}

// keeper returns a keeper of its own process.
func (g *gateway) keeper() *Keeper {
	return New(Options{
		Facts: func(ctx context.Context) (attention.Facts, error) {
			f := g.facts
			f.Now = g.now
			var err, other error
			f.Providers, err = g.book.Health(ctx)
			f.Rejected, other = g.book.Rejected(ctx)
			return f, errors.Join(err, other)
		},
		Versions: func(context.Context, configv1.Kind, string) ([]adminapi.Version, error) { return g.versions, nil },
		Undoes:   func(context.Context, configv1.Kind, string, int64) (bool, error) { return !g.stays, nil },
		KeyName:  func(id string) string { return map[string]string{"key_1": "ci"}[id] },
		State: func() (configstore.State, bool) {
			return configstore.State{Objects: map[string]map[string]configv1.Object{"Model": {
				"smart": &configv1.Model{Name: "smart", Targets: []*configv1.Target{{Provider: "frost"}, {Provider: "echo"}}},
				"cold":  &configv1.Model{Name: "cold", Targets: []*configv1.Target{{Provider: "frost"}}}}}}, true
		},
		Log: g.book, Store: NewStore(g.book.Database()), Logger: zap.NewNop(),
		Now: func() time.Time { return g.now }})
}

// sent records a request of some time ago, which frost has answered with a status, and echo then if it is to.
func (g *gateway) sent(n int, ago time.Duration, status uint32, fallback bool) {
	at := g.now.Add(-ago)
	r := &ledgerv1.Record{Id: fmt.Sprint("x", n), RequestId: fmt.Sprint("x", n), Start: timestamppb.New(at),
		End: timestamppb.New(at.Add(time.Second)), Key: "key_1", Organization: "acme", Operation: "chat/completions",
		Model: "smart", Provider: "frost", Status: 200, Outcome: "finished", Attempts: 1, CostNanoUsd: 2e6, Priced: true}
	a := &ledgerv1.Attempt{Kind: "first", Provider: "frost", Status: status, DurationMs: 100}
	if status != 200 {
		a.Error = "invalid_api_key"
		r.Status, r.Outcome = 502, "failed"
	}
	r.AttemptList = []*ledgerv1.Attempt{a}
	if fallback {
		r.Provider, r.Status, r.Outcome, r.Attempts = "echo", 200, "finished", 2
		r.AttemptList = append(r.AttemptList, &ledgerv1.Attempt{Kind: "fallback", Provider: "echo", Status: 200,
			StartMs: 200})
	}
	require.NoError(g.t, g.book.Record(g.t.Context(), []*ledgerv1.Record{r}))
}

func (g *gateway) incidents(closed bool) []adminapi.Incident {
	all, err := NewStore(g.book.Database()).List(g.t.Context(), closed)
	require.NoError(g.t, err)
	return all
}

// TestAnIncidentSaysSinceWhenForWhomWhyAndHowToUndoIt is a provider whose credential is refused from a second on.
func TestAnIncidentSaysSinceWhenForWhomWhyAndHowToUndoIt(t *testing.T) {
	g := newGateway(t)
	refused := g.now.Add(-8 * time.Minute)
	g.versions = []adminapi.Version{
		{Revision: 9, At: g.now.Add(-time.Minute), Actor: "late", Action: "updated", Kind: "Provider", Name: "frost"},
		{Revision: 7, At: refused.Add(-3 * time.Second), Actor: "ann", Action: "updated", Kind: "Provider", Name: "frost"},
		{Revision: 4, At: refused.Add(-time.Hour), Actor: "bob", Action: "created", Kind: "Provider", Name: "frost"}}
	for i := range 10 {
		g.sent(i, 10*time.Minute+time.Duration(i)*time.Second, 200, false)
	}
	g.sent(20, 8*time.Minute, 401, true) // the first is served by another provider
	for i := range 29 {
		g.sent(30+i, 8*time.Minute-time.Duration(i+1)*time.Second, 401, false)
	}
	require.NoError(t, g.keeper().judge(t.Context()))
	all := g.incidents(false)
	require.Len(t, all, 1)
	i := all[0]
	require.Equal(t, refused, i.Since)
	require.Equal(t, "frost refuses our credential since "+refused.Format(time.TimeOnly)+
		" UTC: 401 or 403 at 30 of 40 attempts in 15 minutes.", i.Why)
	require.Equal(t, adminapi.IncidentHit{Requests: 29, CostUSD: "0.058", Organizations: []string{"acme"},
		Keys: []string{"ci"}, Models: []string{"smart"}, Batches: []string{}}, i.Hit)
	require.Equal(t, &adminapi.IncidentChange{At: refused.Add(-3 * time.Second), Actor: "ann", Action: "updated",
		Kind: "Provider", Name: "frost", Revision: 4, Undo: "/rollback/providers/frost?revision=4",
		Command: "modelgate config rollback --revision 4 provider frost"}, i.Change)
	require.Equal(t, "It falls back to echo for smart. No other provider serves cold.", i.Gateway)
	require.Contains(t, i.Requests, "/requests?")
	require.Contains(t, i.Requests, "provider=frost")
	require.Len(t, i.Transitions, 1)

	// It closes by itself, with its last bad event.
	g.now = g.now.Add(30 * time.Minute)
	keeper := g.keeper()
	for range 3 {
		require.NoError(t, keeper.judgeWell(t.Context()))
		g.now = g.now.Add(clears)
	}
	require.Empty(t, g.incidents(false))
	i = g.incidents(true)[0]
	require.Equal(t, adminapi.IncidentClosed, i.State)
	require.Equal(t, refused.Add(29*time.Second), i.Until.Truncate(time.Second))
	require.Len(t, i.Transitions, 2)
}

// TestEachRequestOfALargeIncidentCounts has more requests than a page of the request log, in two parts with a long
// pause between them.
func TestEachRequestOfALargeIncidentCounts(t *testing.T) {
	const n = 9_000
	g := newGateway(t)
	first := g.now.Add(-10 * time.Minute)
	var batch []*ledgerv1.Record
	for i := range n {
		at := first.Add(time.Duration(i) * 50 * time.Millisecond)
		if i == 0 {
			at = first.Add(-time.Hour) // one that was before
		}
		batch = append(batch, &ledgerv1.Record{Id: fmt.Sprint("x", i), Start: timestamppb.New(at), End: timestamppb.New(at),
			Key: "key_1", Model: "smart", Operation: "chat/completions", Outcome: "rejected", Status: 429, Requests: 2,
			RefusedBy: "key/key_1 limit requests per minute", CostNanoUsd: 1e6, Priced: true})
	}
	require.NoError(t, g.book.Record(t.Context(), batch))
	g.facts.Refusals = []attention.Refusals{{Key: "key_1", Known: true, By: "key/key_1 limit requests per minute",
		Requests: n}}
	require.NoError(t, g.keeper().judge(t.Context()))
	i := g.incidents(false)[0]
	require.Equal(t, first.Add(50*time.Millisecond), i.Since)
	require.Equal(t, adminapi.IncidentHit{Requests: 2 * (n - 1), CostUSD: "8.999", Organizations: []string{},
		Keys: []string{"ci"}, Models: []string{"smart"}, Batches: []string{}}, i.Hit)
}

// judgeWell judges without facts of the ledger.
func (k *Keeper) judgeWell(ctx context.Context) error {
	well := *k
	well.options.Facts = func(context.Context) (attention.Facts, error) { return attention.Facts{}, nil }
	return well.judge(ctx)
}

// TestATransitionIsKeptOnce is of control planes that judge at the same time, or in the place of one that was killed.
func TestATransitionIsKeptOnce(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { transitionIsKeptOnce(t, newGateway(t)) })
	t.Run("postgres", func(t *testing.T) { transitionIsKeptOnce(t, newGatewayOn(t, pgtest.Start(t))) })
}

func transitionIsKeptOnce(t *testing.T, g *gateway) {
	for i := range 20 {
		g.sent(i, time.Minute, 500, false)
	}
	a, b := g.keeper(), g.keeper()
	store := NewStore(g.book.Database())
	for range 2 {
		require.NoError(t, a.judge(t.Context()))
		require.NoError(t, b.judge(t.Context()))
		require.NoError(t, g.keeper().judge(t.Context())) // one that has begun just now
	}
	all := g.incidents(true)
	require.Len(t, all, 1)
	require.Len(t, all[0].Transitions, 1)

	open, err := store.open(t.Context())
	require.NoError(t, err)
	end := closed(g.now.Add(time.Hour), open["provider/frost"])
	require.NoError(t, store.apply(t.Context(), end))
	require.ErrorIs(t, store.apply(t.Context(), end), errLost)
	again := end
	again.after.version = 0
	again.after.Until = nil
	require.NoError(t, store.apply(t.Context(), again))
	require.ErrorIs(t, store.apply(t.Context(), again), errLost, "one incident of a subject is open")
	require.Len(t, g.incidents(true), 2)
}

// TestNotesAndAcknowledgementsStay is of what people write, whatever the keeper does meanwhile.
func TestNotesAndAcknowledgementsStay(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { notesStay(t, newGateway(t)) })
	t.Run("postgres", func(t *testing.T) { notesStay(t, newGatewayOn(t, pgtest.Start(t))) })
}

func notesStay(t *testing.T, g *gateway) {
	g.facts.NoJobs = true
	k := g.keeper()
	require.NoError(t, k.judge(t.Context()))
	require.Empty(t, g.incidents(true), "it may come by itself")
	g.now = g.now.Add(settles)
	require.NoError(t, k.judge(t.Context()))
	i := g.incidents(true)[0]
	require.Equal(t, g.now.Add(-settles), i.Since)
	store := NewStore(g.book.Database())
	require.NoError(t, store.Note(t.Context(), i.ID, adminapi.IncidentNote{At: g.now, Author: "ann", Acknowledged: true}))
	require.NoError(t, store.Note(t.Context(), i.ID, adminapi.IncidentNote{At: g.now.Add(time.Second), Author: "bob",
		Text: "I restart it."}))
	require.NoError(t, k.judge(t.Context()))
	i, found, err := store.Get(t.Context(), i.ID)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "ann", i.AcknowledgedBy)
	require.Equal(t, "I restart it.", i.Notes[1].Text)
	_, found, err = store.Get(t.Context(), "inc_none")
	require.NoError(t, err)
	require.False(t, found)
	require.NoError(t, store.Note(t.Context(), i.ID, adminapi.IncidentNote{At: g.now, Author: "bob", Text: "x"}))
	end := closed(g.now, kept{Incident: i, Better: g.now, version: 1})
	require.NoError(t, store.apply(t.Context(), end))
	require.NoError(t, store.prune(t.Context(), g.now.Add(keeps)))
	require.Len(t, g.incidents(true), 1)
	require.NoError(t, store.prune(t.Context(), g.now.Add(keeps+time.Second)))
	require.Empty(t, g.incidents(true))
}

// TestIncidentsAreInABackup restores into a ledger in which a control plane has opened one by itself.
func TestIncidentsAreInABackup(t *testing.T) {
	g, into := newGateway(t), newGateway(t)
	for i := range 20 {
		g.sent(i, time.Minute, 500, false)
	}
	require.NoError(t, g.keeper().judge(t.Context()))
	was := g.incidents(true)
	require.NoError(t, NewStore(g.book.Database()).Note(t.Context(), was[0].ID, adminapi.IncidentNote{At: g.now,
		Author: "ann", Text: "I restart it."}))
	was = g.incidents(true)
	into.facts.Ledger = "it was lost."
	require.NoError(t, into.keeper().judge(t.Context()))
	require.Len(t, into.incidents(true), 1)

	loader, err := into.book.Load(t.Context())
	require.NoError(t, err)
	require.NoError(t, g.book.Dump(t.Context(), loader))
	require.NoError(t, loader.Commit())
	require.Equal(t, was, into.incidents(true))
}

// TestWhatOpensWithoutTheLedgersKnowledgeIsDescribedLater is of an incident whose last change is not known at first.
func TestWhatOpensWithoutTheLedgersKnowledgeIsDescribedLater(t *testing.T) {
	g := newGateway(t)
	expired := g.now.Add(-time.Hour)
	g.facts = attention.Facts{Ledger: "it is away.", Certificates: map[string]time.Time{"c": expired}}
	g.versions = []adminapi.Version{{Revision: 2, At: expired.Add(-time.Hour), Actor: "ann", Action: "created",
		Kind: "Certificate", Name: "c"}}
	require.NoError(t, g.keeper().judge(t.Context()))
	require.Len(t, g.incidents(true), 2)
	g.facts.Ledger = ""
	require.NoError(t, g.keeper().judge(t.Context()))
	for _, i := range g.incidents(true) {
		if i.Subject == "certificate/c" {
			require.Equal(t, expired, i.Since)
			require.Equal(t, "ann", i.Change.Actor)
			require.Zero(t, i.Change.Revision, "there is nothing before it was created")
		}
	}
}

// TestNoRollbackIsOfferedThatChangesNothing is of an incident before which a credential was changed, and nothing else.
func TestNoRollbackIsOfferedThatChangesNothing(t *testing.T) {
	g := newGateway(t)
	g.sent(1, time.Minute, 401, false)
	g.stays = true
	g.versions = []adminapi.Version{
		{Revision: 7, At: g.now.Add(-2 * time.Minute), Actor: "ann", Action: "updated", Kind: "Provider", Name: "frost"},
		{Revision: 4, At: g.now.Add(-time.Hour), Actor: "bob", Action: "created", Kind: "Provider", Name: "frost"}}
	require.NoError(t, g.keeper().judge(t.Context()))
	require.Equal(t, &adminapi.IncidentChange{At: g.now.Add(-2 * time.Minute), Actor: "ann", Action: "updated",
		Kind: "Provider", Name: "frost", Stays: true}, g.incidents(false)[0].Change)
}
