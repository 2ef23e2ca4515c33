// Package audit keeps the log of who did what: its entries, which are a chain, with the versions of the objects that
// they changed, and what people of each tenant see of them.
//
// There is one way into the log: [Log.Enter]. It puts the entries into the transaction of the change itself. An entry
// that is written before or after its change can be lost, or say what never was.
package audit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
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
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// outbox holds what is not in the ledger yet: under each key entries of one transaction, at most entriesAtOnce,
	// as a JSON array. The keys end with the sequence of their first entry.
	outbox = "/modelgate/audit.chain/"
	// MaxText bounds a text of an entry, in bytes, maxDiff its difference, and maxDiffs the differences of all entries of
	// one transaction: etcd takes 1.5 MiB at once.
	// The ledger would cut a text that is longer.
	MaxText  = 256
	maxDiff  = 16 << 10
	maxDiffs = 256 << 10

	entriesAtOnce = 200

	shipEvery   = time.Second
	shipAtOnce  = 20 // keys of the outbox
	shipTimeout = 10 * time.Second
	// keepTimeout bounds the time to keep versions, and entries that belong to no change.
	keepTimeout = 5 * time.Second
)

// An Store is where entries are kept.
type Store interface {
	// AppendAudit keeps the entries, each once: one whose id is known is ignored.
	AppendAudit(ctx context.Context, entries []adminapi.AuditEntry) error
	// Audit returns a page of the entries, newest first, that is, by descending id. It takes the filters of
	// [adminapi.Client.Audit].
	Audit(ctx context.Context, o adminapi.ListOptions) (adminapi.Page[adminapi.AuditEntry], error)
	// AuditAfter returns the first entries after an id, by ascending id.
	AuditAfter(ctx context.Context, id string, limit int) ([]adminapi.AuditEntry, error)
	// AuditEnds returns the entries of the chain with the lowest and the highest sequence. They are empty if there is
	// none.
	AuditEnds(ctx context.Context) (oldest, newest adminapi.AuditEntry, err error)
}

// An Log says who did what. An entry is first written to etcd, in the transaction that makes the change, so that
// there is never the one without the other; Run takes it from there to the store. Entries are a chain, whose head the
// same transaction compares and replaces. It is safe for concurrent use, and any number of control planes may run on
// one etcd.
type Log struct {
	etcd     *clientv3.Client
	store    Store
	versions VersionStore
	log      *zap.Logger
	kicked   chan struct{}
	// backlog counts keys of the outbox, as this control plane last saw them.
	backlog prometheus.Gauge

	mu   sync.Mutex             // guards what follows
	ids  *ulid.MonotonicEntropy // one id after the other, also within a millisecond
	last string                 // id
	owed []adminapi.AuditEntry  // which vouch for entries that were written while etcd was full
	// alone are the entries of no change of an object that wait for the transaction before theirs.
	alone   []aloneEntry
	writing bool // somebody writes those in alone
}

// New returns the log of a gateway. Without a store the entries stay in etcd. Without versions, none are kept.
func New(etcd *clientv3.Client, store Store, versions VersionStore, log *zap.Logger) *Log {
	return &Log{
		etcd: etcd, store: store, versions: versions, log: log, kicked: make(chan struct{}, 1),
		ids: ulid.Monotonic(rand.Reader, 1),
		backlog: prometheus.NewGauge(prometheus.GaugeOpts{Name: "modelgate_audit_backlog",
			Help: "Audit log entries that wait in etcd until the ledger stores them."}),
	}
}

// Register registers the metrics of the log, once.
func (a *Log) Register(r prometheus.Registerer) error {
	if err := r.Register(a.backlog); err != nil {
		return fmt.Errorf("registering the metrics of the audit log: %w", err)
	}
	return nil
}

// Audit keeps an entry of something that changes no object, such as that somebody signed in. Its id is set here, and
// its time if it has none.
func (a *Log) Audit(ctx context.Context, e adminapi.AuditEntry) error {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	kept := make(chan error, 1)
	a.mu.Lock()
	a.alone = append(a.alone, aloneEntry{e, kept})
	idle := !a.writing
	a.writing = true
	a.mu.Unlock()
	if idle {
		go a.writeAlone(context.WithoutCancel(ctx))
	}
	var err error
	select {
	case err = <-kept:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("keep an entry of the audit log: %w", err)
	}
	return nil
}

// An aloneEntry is an entry of no change of an object, and where its writer learns the outcome.
type aloneEntry struct {
	adminapi.AuditEntry
	kept chan<- error // takes one
}

// writeAlone writes the waiting entries until there are none. Those that come during one transaction share the next: a
// process has one such transaction at a time, so that its writers do not take the head from each other.
func (a *Log) writeAlone(ctx context.Context) {
	for {
		a.mu.Lock()
		some := a.alone[:min(len(a.alone), entriesAtOnce)]
		a.alone = a.alone[len(some):]
		a.writing = len(some) > 0
		a.mu.Unlock()
		if len(some) == 0 {
			return
		}
		entries := make([]adminapi.AuditEntry, len(some))
		for i, e := range some {
			entries[i] = e.AuditEntry
		}
		err := a.keep(ctx, entries)
		for _, e := range some {
			e.kept <- err
		}
	}
}

// keep writes entries of no change of an object.
func (a *Log) keep(ctx context.Context, entries []adminapi.AuditEntry) error {
	ctx, cancel := context.WithTimeout(ctx, keepTimeout)
	defer cancel()
	err := a.Enter(ctx, entries, func(ctx context.Context, also configstore.Also) error {
		r, err := a.etcd.Txn(ctx).If(also.If...).Then(append(also.Now, also.With...)...).Commit()
		if err == nil && !r.Succeeded {
			err = errMoved
		}
		return err
	})
	if errors.Is(err, rpctypes.ErrNoSpace) {
		a.Direct(ctx, entries)
		return nil
	}
	return err
}

// Direct keeps entries of actions that were done while etcd is full, and sets no new head of the chain. The entries
// have ids. They go into the store at once, or at least into the process's log. The chain vouches for those in the
// store once etcd takes entries again.
func (a *Log) Direct(ctx context.Context, entries []adminapi.AuditEntry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	auditchain.Unlink(entries)
	err := ledger.ErrNone
	if a.store != nil {
		err = a.store.AppendAudit(ctx, entries)
	}
	if err == nil {
		a.owe(entries)
		return
	}
	for _, e := range entries {
		a.log.Error("this entry of the audit log is here alone: etcd is full, and the ledger does not take it",
			zap.Time("at", e.At), zap.String("actor", e.Actor),
			zap.String("address", e.Address), zap.String("action", e.Action), zap.String("kind", e.Kind),
			zap.String("name", e.Name), zap.Error(err))
	}
}

// tidy makes an entry one that every database takes as it is. Room is how many bytes its difference may have. tidy
// reduces it.
func tidy(e *adminapi.AuditEntry, room *int) {
	if e.At.IsZero() {
		e.At = time.Now()
	}
	e.At = e.At.UTC().Truncate(time.Millisecond)
	for _, text := range []*string{&e.Actor, &e.Role, &e.Address, &e.Action, &e.Kind, &e.Name, &e.RequestID} {
		*text = clean(*text, MaxText)
	}
	e.Diff = clean(e.Diff, min(maxDiff, *room))
	*room -= len(e.Diff)
	for i := range e.Tenants {
		t := &e.Tenants[i]
		t.Diff = clean(t.Diff, min(maxDiff, *room))
		*room -= len(t.Diff)
	}
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
func (a *Log) kick() {
	select {
	case a.kicked <- struct{}{}:
	default:
	}
}

// Run takes entries to the store until ctx ends. While the store or etcd is unavailable, they wait in etcd.
func (a *Log) Run(ctx context.Context) error {
	if a.store == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := time.NewTicker(shipEvery)
	defer ticker.Stop()
	ailing, headed := false, false
	for {
		more, err := a.ship(ctx)
		if err == nil && !headed {
			err = a.putHead(ctx)
			headed = err == nil
		}
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
func (a *Log) ship(ctx context.Context) (more bool, err error) {
	left, more, err := empty(ctx, a.etcd, outbox, entriesOf, a.store.AppendAudit)
	a.backlog.Set(float64(left))
	return more, err
}

// empty moves what is under the oldest keys of an outbox to a store. It returns how many keys are left, and whether
// there are more to move.
func empty[T any](ctx context.Context, etcd *clientv3.Client, outbox string, read func(*mvccpb.KeyValue) []T,
	keep func(context.Context, []T) error) (left int64, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, shipTimeout)
	defer cancel()
	r, err := etcd.Get(ctx, outbox, clientv3.WithPrefix(), clientv3.WithLimit(shipAtOnce))
	if err != nil || len(r.Kvs) == 0 {
		return 0, false, err
	}
	var all []T
	var done []clientv3.Op
	for _, kv := range r.Kvs {
		all = append(all, read(kv)...)
		done = append(done, clientv3.OpDelete(string(kv.Key)))
	}
	if err := keep(ctx, all); err != nil {
		return r.Count, false, err
	}
	if _, err := etcd.Txn(ctx).Then(done...).Commit(); err != nil {
		return r.Count, r.More, err
	}
	return r.Count - int64(len(done)), r.More, nil
}

// entriesOf returns the entries under a key. What is none, and so was written by something else, is an entry that says
// so.
func entriesOf(kv *mvccpb.KeyValue) []adminapi.AuditEntry {
	var entries []adminapi.AuditEntry
	name := clean(path.Base(string(kv.Key)), MaxText)
	if err := json.Unmarshal(kv.Value, &entries); err != nil || len(entries) == 0 ||
		slices.ContainsFunc(entries, func(e adminapi.AuditEntry) bool { return e.ID == "" }) {
		return []adminapi.AuditEntry{{ID: name, At: time.Unix(0, 0).UTC(), Actor: "unknown", Action: "unreadable",
			Diff: clean(string(kv.Value), maxDiff)}}
	}
	for i := range entries[1:] {
		entries[i+1].Previous = entries[i].Hash
	}
	return entries
}
