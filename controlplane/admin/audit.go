package admin

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

const (
	// outbox holds what is not in the ledger yet: under each key entries of one transaction, at most entriesAtOnce, as a
	// JSON array.
	outbox = "/modelgate/audit/"
	// Bounds of an entry, and of the differences of all entries of one transaction, in bytes: etcd takes 1.5 MiB at once.
	maxText  = 512
	maxDiff  = 16 << 10
	maxDiffs = 256 << 10

	entriesAtOnce = 200

	shipEvery   = time.Second
	shipAtOnce  = 20 // keys of the outbox
	shipTimeout = 10 * time.Second
)

// An AuditStore is where entries are kept.
type AuditStore interface {
	// AppendAudit keeps the entries, each once: one whose id is known is ignored.
	AppendAudit(ctx context.Context, entries []adminapi.AuditEntry) error
	// Audit returns a page of the entries, newest first, that is, by descending id. The filters are those of
	// [adminapi.Client.Audit].
	Audit(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error)
}

// An AuditLog says who did what. An entry is first written to etcd, in the transaction that makes the change, so that
// there is never the one without the other; Run takes it from there to the store. It is safe for concurrent use, and
// any number of control planes may run on one etcd.
type AuditLog struct {
	etcd     *clientv3.Client
	store    AuditStore
	versions VersionStore
	log      *zap.Logger
	kicked   chan struct{}
	// backlog counts keys of the outbox, as this control plane last saw it.
	backlog prometheus.Gauge

	mu  sync.Mutex             // guards ids
	ids *ulid.MonotonicEntropy // one id after the other, also within a millisecond
}

// NewAuditLog returns the log of a gateway. Without a store the entries stay in etcd. Without versions, none are kept.
func NewAuditLog(etcd *clientv3.Client, store AuditStore, versions VersionStore, log *zap.Logger) *AuditLog {
	return &AuditLog{
		etcd: etcd, store: store, versions: versions, log: log, kicked: make(chan struct{}, 1),
		ids: ulid.Monotonic(rand.Reader, 1),
		backlog: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modelgate_audit_backlog",
			Help: "Audit log entries that wait in etcd until the ledger stores them."}),
	}
}

// Register registers the metrics of the log, once.
func (a *AuditLog) Register(r prometheus.Registerer) error {
	if err := r.Register(a.backlog); err != nil {
		return fmt.Errorf("registering the metrics of the audit log: %w", err)
	}
	return nil
}

// Audit keeps an entry of something that changes no object, such as that somebody signed in. Its id is set here, and
// its time where it has none.
func (a *AuditLog) Audit(ctx context.Context, e adminapi.AuditEntry) error {
	entries := []adminapi.AuditEntry{e}
	ops, err := a.ops(entries)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := a.etcd.Do(ctx, ops[0]); errors.Is(err, rpctypes.ErrNoSpace) {
		a.direct(ctx, entries)
		return nil
	} else if err != nil {
		return fmt.Errorf("keep an entry of the audit log: %w", err)
	}
	a.kick()
	return nil
}

// direct keeps entries, which have their ids, of what was done though etcd is full: in the store at once, or at least
// in the process's log.
func (a *AuditLog) direct(ctx context.Context, entries []adminapi.AuditEntry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	err := errNoLedger
	if a.store != nil {
		err = a.store.AppendAudit(ctx, entries)
	}
	if err == nil {
		return
	}
	for _, e := range entries {
		a.log.Error("this entry of the audit log is here alone: etcd is full, and the ledger does not take it",
			zap.Time("at", e.At), zap.String("actor", e.Actor),
			zap.String("address", e.Address), zap.String("action", e.Action), zap.String("kind", e.Kind),
			zap.String("name", e.Name), zap.Error(err))
	}
}

// ops returns what puts entries, which are at least one, into the outbox: one operation for each entriesAtOnce.
func (a *AuditLog) ops(entries []adminapi.AuditEntry) ([]clientv3.Op, error) {
	a.mu.Lock() // those of two transactions are not in each other's midst
	defer a.mu.Unlock()
	now := ulid.Now()
	room := maxDiffs
	for i := range entries {
		e := &entries[i]
		made, err := ulid.New(now, a.ids)
		if err != nil {
			return nil, fmt.Errorf("write the audit log: %w", err)
		}
		e.ID = made.String()
		if e.At.IsZero() {
			e.At = time.Now().UTC().Truncate(time.Millisecond)
		}
		for _, text := range []*string{&e.Actor, &e.Role, &e.Address, &e.Action, &e.Kind, &e.Name, &e.RequestID} {
			*text = clean(*text, maxText)
		}
		e.Diff = clean(e.Diff, min(maxDiff, room))
		room -= len(e.Diff)
	}
	var ops []clientv3.Op
	for some := range slices.Chunk(entries, entriesAtOnce) {
		value, err := json.Marshal(some)
		if err != nil {
			return nil, fmt.Errorf("write the audit log: %w", err)
		}
		ops = append(ops, clientv3.OpPut(outbox+some[0].ID, string(value)))
	}
	return ops, nil
}

// clean returns text that every database takes and every page shows: what people send as a name may be anything.
func clean(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= most {
		return s
	}
	const cut = "\n[cut]"
	if most < len(cut) {
		return ""
	}
	return strings.ToValidUTF8(s[:most-len(cut)], "") + cut
}

// kick has Run look at the outbox now.
func (a *AuditLog) kick() {
	select {
	case a.kicked <- struct{}{}:
	default:
	}
}

// Run takes entries to the store until ctx ends. While the store or etcd is away, they wait in etcd.
func (a *AuditLog) Run(ctx context.Context) error {
	if a.store == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := time.NewTicker(shipEvery)
	defer ticker.Stop()
	ailing := false
	for {
		more, err := a.ship(ctx)
		if err == nil && a.versions != nil {
			var versions bool
			versions, err = a.shipVersions(ctx)
			more = more || versions
		}
		if err != nil && ctx.Err() == nil && !ailing {
			a.log.Warn("entries of the audit log wait in etcd: the ledger cannot take them", zap.Error(err))
		}
		ailing = err != nil
		if more && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		case <-a.kicked:
			if ailing { // not more often than the ticker
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-ticker.C:
				}
			}
		}
	}
}

// ship moves the oldest entries, and reports whether there are more.
func (a *AuditLog) ship(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, shipTimeout)
	defer cancel()
	r, err := a.etcd.Get(ctx, outbox, clientv3.WithPrefix(), clientv3.WithLimit(shipAtOnce))
	if err != nil {
		return false, err
	}
	a.backlog.Set(float64(r.Count))
	if len(r.Kvs) == 0 {
		return false, nil
	}
	var entries []adminapi.AuditEntry
	var done []clientv3.Op
	for _, kv := range r.Kvs {
		entries = append(entries, entriesOf(kv)...)
		done = append(done, clientv3.OpDelete(string(kv.Key)))
	}
	if err := a.store.AppendAudit(ctx, entries); err != nil {
		return false, err
	}
	if _, err = a.etcd.Txn(ctx).Then(done...).Commit(); err == nil {
		a.backlog.Set(float64(r.Count - int64(len(done))))
	}
	return r.More, err
}

// entriesOf returns the entries under a key. What is none, and so was written by something else, is an entry that says
// so.
func entriesOf(kv *mvccpb.KeyValue) []adminapi.AuditEntry {
	var entries []adminapi.AuditEntry
	name := clean(strings.TrimPrefix(string(kv.Key), outbox), maxText)
	if err := json.Unmarshal(kv.Value, &entries); err != nil ||
		slices.ContainsFunc(entries, func(e adminapi.AuditEntry) bool { return e.ID == "" }) {
		return []adminapi.AuditEntry{{ID: name, At: time.Unix(0, 0).UTC(), Actor: "unknown", Action: "unreadable",
			Diff: clean(string(kv.Value), maxDiff)}}
	}
	return entries
}

// note writes into the audit log who did what with something that is not an object of the configuration.
func (s *server) note(ctx context.Context, action, kind, name, what string) error {
	p, _ := PrincipalOf(ctx)
	return s.config.Audit.Audit(ctx, adminapi.AuditEntry{Actor: p.Name, Role: p.Role, Address: p.Address, Action: action,
		Kind: kind, Name: name, Diff: what, RequestID: requestIDOf(ctx)})
}
