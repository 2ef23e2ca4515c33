package auditship

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
	"github.com/modelgate/modelgate/internal/allowed"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/etcdtest"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	signing  = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	patience = time.Minute
	tick     = 10 * time.Millisecond
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// A world is what a service looks at: a configuration, a ledger, and what is on its way to it. It is safe for
// concurrent use.
type world struct {
	t    *testing.T
	etcd *clientv3.Client
	list *allowed.List
	file string // that may be written

	mu      sync.Mutex // guards what follows
	objects []configv1.Object
	entries map[string]adminapi.AuditEntry
	head    auditchain.Head
	pending bool
	away    bool // the ledger
	ahead   time.Duration
	reads   int
}

func newWorld(t *testing.T, sinks ...configv1.Object) *world {
	w := &world{t: t, etcd: etcdtest.Start(t), objects: sinks, entries: map[string]adminapi.AuditEntry{},
		file: filepath.Join(t.TempDir(), "audit.jsonl")}
	_, err := w.etcd.Put(t.Context(), configstore.RootKey, "x")
	require.NoError(t, err)
	list, err := allowed.New(nil, allowed.Flags{})
	require.NoError(t, err)
	w.list, err = list.WithAuditFiles([]string{w.file})
	require.NoError(t, err)
	return w
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

func idOf(i int) string { return fmt.Sprintf("01%024d", i) }

// write appends so many entries to the chain.
func (w *world) write(n int) {
	w.set(func() {
		for range n {
			w.chain(adminapi.AuditEntry{Diff: "-a\n+<b>\u2028\"]\\"})
		}
	})
}

// chain appends an entry to the chain. The caller holds mu.
func (w *world) chain(e adminapi.AuditEntry) adminapi.AuditEntry {
	number := int(w.head.Sequence+1) * 10
	e.ID, e.At = idOf(number), noon.Add(time.Duration(number)*time.Second)
	if e.Action == "" {
		e.Actor, e.Address, e.Action, e.Kind, e.Name = "ann \"a]\\", "::1", "update", "Key", fmt.Sprint("key_", number)
	}
	linked := []adminapi.AuditEntry{e}
	var err error
	w.head, err = w.head.Link(linked)
	require.NoError(w.t, err)
	w.entries[linked[0].ID] = linked[0]
	return linked[0]
}

// State returns the configuration.
func (w *world) State() (configstore.State, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state := configstore.State{Objects: map[string]map[string]configv1.Object{"AuditSink": {}}}
	for _, o := range w.objects {
		state.Objects["AuditSink"][o.GetName()] = o
	}
	return state, true
}

// SinkCredential returns that of the configuration.
func (*world) SinkCredential(s *configv1.AuditSink) (secret.Value, error) {
	return secret.New(s.GetCredential().GetValue()), nil
}

// AuditAfter returns entries by their ids.
func (w *world) AuditAfter(_ context.Context, id string, limit int) (found []adminapi.AuditEntry, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reads++; w.away {
		return nil, errors.New("the ledger is away")
	}
	for _, name := range slices.Sorted(maps.Keys(w.entries)) {
		if name > id && len(found) < limit {
			found = append(found, w.entries[name])
		}
	}
	return found, nil
}

// AuditEnds returns the ends of the chain.
func (w *world) AuditEnds(context.Context) (oldest, newest adminapi.AuditEntry, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.entries {
		if e.Sequence > newest.Sequence {
			newest = e
		}
		if e.Sequence > 0 && (oldest.Sequence == 0 || e.Sequence < oldest.Sequence) {
			oldest = e
		}
	}
	return oldest, newest, nil
}

// Pending returns what the test says.
func (w *world) Pending(context.Context, int64) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending, nil
}

// HeadSequence returns the newest sequence.
func (w *world) HeadSequence(context.Context) (int64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head.Sequence, nil
}

func (w *world) service() *Service {
	s, err := New(Options{Etcd: w.etcd, Ledger: w, Chain: w, Plane: w, Allowed: w.list, Log: zap.NewNop(),
		Interval: tick, Networks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Now: func() (now time.Time) {
			w.set(func() { now = noon.Add(w.ahead) })
			return now
		}})
	require.NoError(w.t, err)
	s.pause = func(int, time.Duration) time.Duration { return tick }
	s.sender.patience = 5 * time.Second
	return s
}

// run runs a service until the test ends, or until what it returns is called.
func (w *world) run(s *Service) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	stop = func() { cancel(); <-done }
	w.t.Cleanup(stop)
	return stop
}

// status returns how a sink is.
func (w *world) status(s *Service, name string) adminapi.AuditSinkStatus {
	w.t.Helper()
	all, err := s.Sinks(w.t.Context())
	require.NoError(w.t, err)
	i := slices.IndexFunc(all, func(a adminapi.AuditSinkStatus) bool { return a.Name == name })
	require.GreaterOrEqual(w.t, i, 0)
	return all[i]
}

// delivered waits until a sink has everything.
func (w *world) delivered(s *Service, name string) adminapi.AuditSinkStatus {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		at := w.status(s, name)
		return at.Backlog == 0 && at.Sequence > 0 && at.Error == ""
	}, patience, tick)
	return w.status(s, name)
}

// A taker is what a receiver has taken.
type taker struct {
	mu  sync.Mutex
	all []adminapi.AuditEntry
}

func (k *taker) take(some ...adminapi.AuditEntry) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, some...)
}

func (k *taker) taken() []adminapi.AuditEntry {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.all)
}

// requireAll demands that a receiver has every entry of the ledger as it is there, and each for the first time in the
// order of the log. What it got twice is the same.
func (w *world) requireAll(k *taker) {
	w.t.Helper()
	var want, got []adminapi.AuditEntry
	w.set(func() {
		for _, id := range slices.Sorted(maps.Keys(w.entries)) {
			want = append(want, w.entries[id])
		}
	})
	seen := map[string]adminapi.AuditEntry{}
	for _, e := range k.taken() {
		if before, again := seen[e.ID]; again {
			require.Equal(w.t, before, e)
			continue
		}
		seen[e.ID] = e
		got = append(got, e)
	}
	require.Equal(w.t, want, got)
	v := auditchain.NewVerifier("")
	for _, e := range got {
		v.Add(e)
	}
	if found := v.End(w.head); found.Outside == 0 {
		require.True(w.t, found.Intact, "the receiver can verify the chain: %v", found)
	}
}

func hook(name, url string) *configv1.AuditSink {
	return &configv1.AuditSink{Name: name, Webhook: &configv1.AuditWebhook{Url: url},
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: signing}}}
}

func toFile(name, path string) *configv1.AuditSink {
	return &configv1.AuditSink{Name: name, File: &configv1.AuditFile{Path: path}}
}

// long returns text of so many bytes.
func long(n int) string { return strings.Repeat("x", n) }
