package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/audit/auditship"
	"github.com/modelgate/modelgate/controlplane/incidents"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

// A later is a clock that a test can put forward.
type later struct{ by atomic.Int64 }

func (l *later) now() time.Time { return time.Now().Add(time.Duration(l.by.Load())) }

// A running is one batch, which was answered last at a time.
type running struct{ answered atomic.Pointer[time.Time] }

func (r *running) Running(context.Context) ([]adminapi.RunningBatch, error) {
	at := *r.answered.Load()
	tried := at.Add(time.Minute)
	return []adminapi.RunningBatch{{ID: "batch_1", Key: "key_3", Model: "big", Done: 3, Total: 9, Answered: at,
		Met: adminapi.BatchProgress{At: tried, TriedAt: &tried, Tries: 7, Status: 429}}}, nil
}

// A signedPlane is a sinkPlane whose sink has a secret.
type signedPlane struct{ sinkPlane }

func (signedPlane) SinkCredential(*configv1.AuditSink) (secret.Value, error) {
	return secret.New("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), nil
}

// A patient is a gateway with a clock, of which is known what took minutes.
type patient struct {
	*bench
	later
	t      *testing.T
	book   *ledger.Ledger
	batch  running
	takes  atomic.Bool  // the sink of the audit log
	looks  atomic.Int64 // how often was judged
	n      int
	closed []adminapi.Incident // all, also those that are open
}

// TestIncidentsThatTakeMinutes has what is an incident only after minutes, and what is over only when the last bad
// event was 15 minutes ago. TestEachKindOfIncidentOpensAndCloses of test/e2e has the others.
func TestIncidentsThatTakeMinutes(t *testing.T) {
	p := &patient{bench: newBench(t), t: t}
	p.book = withLedger(t, p.bench)
	p.book.Database().Now = p.now
	began := p.now()
	answered := began.Add(-9 * time.Minute)
	p.batch.answered.Store(&answered)
	p.config.Running, p.config.Now = &p.batch, p.now
	p.starts()
	_, err := p.client.Apply(t.Context(), []configv1.Object{&configv1.Provider{Name: "openai", Vendor: "openai"},
		&configv1.Guardrail{Name: "harm", Rules: []*configv1.GuardRule{{Name: "violence",
			Mode: configv1.GuardMode_BLOCK, Words: []string{"x"}}}}}, false)
	require.NoError(t, err)

	limited := p.refused(5*time.Minute, 20, "key_1", "key/key_1 limit requests per day", 429, "rate_limit_exceeded")
	p.refused(6*time.Minute, 1, "key_1", "guardrail harm/violence", 400, "content_blocked") // while it was judged
	unjudged := p.refused(5*time.Minute, 2, "key_1", "guardrail harm/violence", 503, "checker_unavailable")
	p.refused(9*time.Minute, 5, "key_2", "key/key_2 limit requests per day", 429, "rate_limit_exceeded")
	barred := p.refused(4*time.Minute, 20, "key_2", "key/key_2 disabled", 401, "invalid_api_key")
	p.refused(8*time.Minute, 1, "9896", "unknown key", 401, "invalid_api_key")
	stranger := p.refused(3*time.Minute, 20, "1234", "unknown key", 401, "invalid_api_key")
	rejected := p.rejected()

	at := map[string]time.Time{"limit/key/key_1 limit requests per day": limited, "guardrail/harm": unjudged,
		"key/key_2": barred, "key/1234": stranger, "provider/openai": rejected}
	hit := map[string]int64{"limit/key/key_1 limit requests per day": 20, "guardrail/harm": 2, "key/key_2": 20,
		"key/1234": 20, "provider/openai": 1, "batch/batch_1": 0, "auditsink/ops": 0}
	p.expect(at, nil, hit)
	p.forward(time.Minute)
	at["batch/batch_1"] = answered
	p.expect(at, nil, hit)

	failing := p.failing()
	p.forward(14 * time.Minute)
	p.expect(at, nil, hit)
	p.forward(time.Minute)
	at["auditsink/ops"] = failing
	p.expect(at, nil, hit)
	p.forward(time.Minute)
	until := map[string]time.Time{}
	for subject, first := range at {
		if subject != "auditsink/ops" && subject != "batch/batch_1" {
			until[subject] = first.Add(time.Duration(max(hit[subject]-1, 0)) * time.Second)
		}
	}
	p.expect(at, until, hit)

	p.takes.Store(true)
	p.well()
	over := p.now()
	p.batch.answered.Store(&over)
	p.forward(time.Minute)
	until["auditsink/ops"], until["batch/batch_1"] = over, over
	p.expect(at, until, hit)
	for _, i := range p.closed {
		require.Len(t, i.Transitions, 2, i.Subject)
	}
}

// starts has the audit log sent to a receiver that takes nothing, and incidents judged, until the test ends.
func (p *patient) starts() {
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !p.takes.Load() {
			w.WriteHeader(http.StatusGone)
		}
	}))
	p.t.Cleanup(receiver.Close)
	_, err := p.etcd.Put(p.t.Context(), configstore.RootKey, "x")
	require.NoError(p.t, err)
	log := audit.New(p.etcd, p.book, p.book, zap.NewNop())
	sinks, err := auditship.New(auditship.Options{Etcd: p.etcd, Ledger: p.book, Chain: log, Allowed: p.config.Allowed,
		Log: zap.NewNop(), Now: p.now, Interval: 5 * time.Millisecond,
		Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Plane: signedPlane{sinkPlane{&configv1.AuditSink{Name: "ops",
			Webhook: &configv1.AuditWebhook{Url: receiver.URL}}}}})
	require.NoError(p.t, err)
	p.config.Audit, p.config.Sinks = log, sinks
	q := api.Queries(p.config)
	keeper := incidents.New(incidents.Options{Etcd: p.etcd, Versions: q.History.Versions,
		Facts: func(ctx context.Context) (attention.Facts, error) {
			p.looks.Add(1)
			return q.Facts(ctx)
		},
		Undoes: q.History.Undoes, KeyName: q.KeyName,
		State: func() (configstore.State, bool) { return configstore.State{}, true }, Log: p.book,
		Store: incidents.NewStore(p.book.Database()), Logger: zap.NewNop(), Interval: 20 * time.Millisecond, Now: p.now})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, run := range []func(context.Context) error{log.Run, sinks.Run, keeper.Run} {
		all.Go(func() { _ = run(ctx) })
	}
	p.t.Cleanup(func() { cancel(); all.Wait() })
}

// forward lets time pass once what is now was judged.
func (p *patient) forward(d time.Duration) {
	before := p.looks.Load()
	require.Eventually(p.t, func() bool { return p.looks.Load() >= before+2 }, 20*time.Second, 5*time.Millisecond)
	p.by.Add(int64(d))
}

// refused records requests that were refused since some time ago, one a second, and returns when the first was. A key
// without an underscore is not known.
func (p *patient) refused(ago time.Duration, n int, key, by string, status uint32, code string) time.Time {
	first := p.now().Add(-ago).Truncate(time.Microsecond)
	for i := range n {
		p.n++
		at := timestamppb.New(first.Add(time.Duration(i) * time.Second))
		r := &ledgerv1.Record{Id: fmt.Sprint("r", p.n), Start: at, End: at, Key: key, Model: "m",
			Operation: "chat/completions", Status: status, Outcome: "rejected", RefusedBy: by, ErrorCode: code}
		if by == "unknown key" {
			r.Key, r.KeyHint = "", key
		}
		require.NoError(p.t, p.book.Record(p.t.Context(), []*ledgerv1.Record{r}))
	}
	return first
}

// rejected records requests that a provider has served, and one that it has rejected, and returns when that was.
func (p *patient) rejected() time.Time {
	at := p.now().Add(-2 * time.Minute).Truncate(time.Microsecond)
	var all []*ledgerv1.Record
	for i := range 10 {
		r := refusedExchange(fmt.Sprint("a", i), 0)
		begun := at.Add(time.Duration(i-9) * time.Minute / 10)
		if r.Start, r.End = timestamppb.New(begun), timestamppb.New(begun); i < 9 {
			r.Status, r.Outcome = 200, "finished"
			r.AttemptList = []*ledgerv1.Attempt{{Kind: "first", Provider: "openai", Status: 200}}
		}
		all = append(all, r)
	}
	require.NoError(p.t, p.book.Record(p.t.Context(), all))
	return at
}

// failing returns since when the sink fails. It begins with the next entry.
func (p *patient) failing() (since time.Time) {
	require.NoError(p.t, p.config.Audit.Audit(p.t.Context(), adminapi.AuditEntry{Actor: "ann", Action: "sign_in"}))
	require.Eventually(p.t, func() bool {
		all, err := p.config.Sinks.Sinks(p.t.Context())
		if err == nil && len(all) == 1 && all[0].FailingSince != nil {
			since = *all[0].FailingSince
		}
		return !since.IsZero()
	}, 20*time.Second, 5*time.Millisecond)
	return since
}

// well waits until the sink does not fail.
func (p *patient) well() {
	require.Eventually(p.t, func() bool {
		all, err := p.config.Sinks.Sinks(p.t.Context())
		return err == nil && len(all) == 1 && all[0].FailingSince == nil
	}, 60*time.Second, 5*time.Millisecond)
}

// expect waits until there is one incident of each subject and no other, and some have closed.
func (p *patient) expect(since, until map[string]time.Time, hit map[string]int64) {
	p.t.Helper()
	require.EventuallyWithT(p.t, func(t *assert.CollectT) {
		all, err := p.client.Incidents(context.Background(), adminapi.Closed)
		require.NoError(t, err)
		found := map[string]time.Time{}
		for _, i := range all.Items {
			found[i.Subject] = i.Since
			require.WithinDuration(t, since[i.Subject], i.Since, time.Second, i.Subject)
			require.Equal(t, hit[i.Subject], i.Hit.Requests, i.Subject)
			end, over := until[i.Subject]
			require.Equal(t, over, i.Until != nil, i.Subject)
			if over {
				slack := time.Second
				if i.Hit.Requests == 0 { // it is over when that was judged
					slack = 10 * time.Second
				}
				require.WithinDuration(t, end, *i.Until, slack, i.Subject)
			}
		}
		require.Len(t, found, len(since))
		require.Len(t, all.Items, len(since))
		p.closed = all.Items
	}, 20*time.Second, 30*time.Millisecond)
}
