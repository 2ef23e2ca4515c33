package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	// holdKey is there, under a lease, while somebody who has lost to others again and again has them wait.
	holdKey     = "/modelgate/audit.hold"
	holdSeconds = 5
	holdPause   = 20 * time.Millisecond

	// enterTries bounds how often entries are linked to another head. After patientTries, or at once where the entries
	// are many, the others are made to wait.
	enterTries   = 20
	patientTries = 5
	// recoverTimeout bounds the question to the store if etcd has no head.
	recoverTimeout = 2 * time.Second
	// maxOwed bounds the entries outside the chain that are to be vouched for.
	maxOwed = 1000
)

// errMoved means that the transaction may have failed only because the head has moved.
var errMoved = fmt.Errorf("the head of the audit log was moved by others: %w", configstore.ErrConflict)

// A chainHead is the head of the chain, with its value in etcd; empty: there is none.
type chainHead struct {
	auditchain.Head
	value string
}

// unchanged holds if the head is still this one.
func (h chainHead) unchanged() clientv3.Cmp {
	if h.value == "" {
		return clientv3.Compare(clientv3.CreateRevision(configstore.AuditHeadKey), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(configstore.AuditHeadKey), "=", h.value)
}

// Enter is the one way into the log. It links entries to the chain, and commit makes the transaction that contains
// them and the new head. If another writer of any control plane was faster, they are linked anew. If commit fails
// with ErrConflict and the head is still the same, something else was changed, and that is the error.
func (a *Log) Enter(ctx context.Context, entries []adminapi.AuditEntry,
	commit func(context.Context, configstore.Also) error) error {
	patience := patientTries
	if len(entries) > entriesAtOnce { // it takes long to write them again
		patience = 1
	}
	var hold *concurrency.Session
	defer func() { a.letGo(ctx, hold) }()
	for n := 1; ; n++ {
		head, err := a.head(ctx)
		if err != nil {
			return err
		}
		also, vouched, err := a.link(head, entries)
		if err != nil {
			return err
		}
		if hold == nil {
			also.If = append(also.If, clientv3.Compare(clientv3.CreateRevision(holdKey), "=", 0))
		} else {
			also.Now = append(also.Now, clientv3.OpDelete(holdKey)) // once it is decided nobody has to wait
		}
		err = commit(ctx, also)
		if err == nil {
			a.paid(vouched)
			a.kick()
			return nil
		}
		lost := errors.Is(err, errMoved)
		if !lost && !errors.Is(err, configstore.ErrConflict) || n == enterTries {
			return err
		}
		if moved, readErr := a.moved(ctx, head, hold != nil); readErr != nil || !moved && !lost {
			return errors.Join(readErr, err)
		}
		if n >= patience && hold == nil {
			hold = a.hold(ctx)
		}
	}
}

// hold has the others wait. It returns nil if one of them has asked for that first.
func (a *Log) hold(ctx context.Context) *concurrency.Session {
	session, err := concurrency.NewSession(a.etcd, concurrency.WithTTL(holdSeconds), concurrency.WithContext(ctx))
	if err != nil {
		return nil
	}
	r, err := a.etcd.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(holdKey), "=", 0)).
		Then(clientv3.OpPut(holdKey, "", clientv3.WithLease(session.Lease()))).Commit()
	if err != nil || !r.Succeeded {
		a.letGo(ctx, session)
		return nil
	}
	return session
}

func (a *Log) letGo(ctx context.Context, hold *concurrency.Session) {
	if hold == nil {
		return
	}
	hold.Orphan()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	_, _ = a.etcd.Revoke(ctx, hold.Lease()) // else it ends by itself
}

// moved reports whether the head is another than before, or was held by somebody else. It waits until it is not.
func (a *Log) moved(ctx context.Context, before chainHead, ours bool) (bool, error) {
	for waited := false; ; waited = true {
		r, err := a.etcd.Txn(ctx).Then(clientv3.OpGet(configstore.AuditHeadKey),
			clientv3.OpGet(holdKey, clientv3.WithCountOnly())).Commit()
		if err != nil {
			return false, fmt.Errorf("read the head of the audit log: %w", err)
		}
		if ours || r.Responses[1].GetResponseRange().GetCount() == 0 {
			kvs, value := r.Responses[0].GetResponseRange().GetKvs(), ""
			if len(kvs) > 0 {
				value = string(kvs[0].Value)
			}
			return waited || value != before.value, nil
		}
		if err := timing.Sleep(ctx, holdPause); err != nil {
			return false, err
		}
	}
}

// head returns the head in etcd, or if it has none, what it must have been.
func (a *Log) head(ctx context.Context) (chainHead, error) {
	r, err := a.etcd.Get(ctx, configstore.AuditHeadKey)
	if err != nil {
		return chainHead{}, fmt.Errorf("read the head of the audit log: %w", err)
	}
	var h chainHead
	if len(r.Kvs) > 0 {
		h.value = string(r.Kvs[0].Value)
		if err := json.Unmarshal(r.Kvs[0].Value, &h.Head); err == nil && h.Sequence > 0 {
			return h, nil
		}
		a.log.Error("the head of the audit log cannot be read: something else has written it")
	}
	h.Head, err = a.recovered(ctx)
	return h, err
}

// recovered returns the head from the existing entries. It is needed after the restore of a backup, which has no
// head, and if etcd has lost its data. If the store is unavailable, it does not wait: the chain begins anew.
func (a *Log) recovered(ctx context.Context) (auditchain.Head, error) {
	var head auditchain.Head
	after := func(newest adminapi.AuditEntry) {
		if newest.Sequence > head.Sequence {
			head.Sequence, head.Hash, head.ID = newest.Sequence, newest.Hash, newest.ID
		}
	}
	r, err := a.etcd.Get(ctx, outbox, clientv3.WithLastKey()...)
	if err != nil {
		return head, fmt.Errorf("read the audit log: %w", err)
	}
	for _, kv := range r.Kvs {
		entries := entriesOf(kv)
		after(entries[len(entries)-1])
	}
	if a.store != nil {
		ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
		defer cancel()
		_, newest, err := a.store.AuditEnds(ctx)
		if err != nil {
			a.log.Warn("etcd has no head of the audit log, and the ledger does not say what it was", zap.Error(err))
		}
		after(newest)
	}
	if head.Sequence > 0 {
		a.log.Warn("etcd has no head of the audit log: it goes on from the newest entry", zap.Int64("sequence", head.Sequence),
			zap.String("hash", head.Hash))
	}
	return head, nil
}

// putHead writes the head if etcd has none and there are entries.
func (a *Log) putHead(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shipTimeout)
	defer cancel()
	head, err := a.head(ctx)
	if err != nil || head.value != "" || head.Sequence == 0 {
		return err
	}
	value, err := json.Marshal(head.Head)
	if err != nil {
		return fmt.Errorf("write the head of the audit log: %w", err)
	}
	_, err = a.etcd.Txn(ctx).If(head.unchanged()).Then(clientv3.OpPut(configstore.AuditHeadKey, string(value))).Commit()
	return err
}

// link returns what puts entries, which are at least one, into the outbox, and how many others it vouches for.
func (a *Log) link(head chainHead, entries []adminapi.AuditEntry) (also configstore.Also, vouched int,
	err error) {
	a.mu.Lock() // those of two transactions are not in each other's midst
	defer a.mu.Unlock()
	vouches := slices.Clone(a.owed)
	room, last := maxDiffs, head.ID
	for _, some := range [][]adminapi.AuditEntry{entries, vouches} {
		for i := range some {
			if some[i].ID, err = a.nextID(last); err != nil {
				return also, 0, fmt.Errorf("write the audit log: %w", err)
			}
			last = some[i].ID
			tidy(&some[i], &room)
		}
	}
	next, err := head.Link(entries)
	if err == nil {
		next, err = next.Link(vouches)
	}
	if err != nil {
		return also, 0, err
	}
	value, err := json.Marshal(next)
	if err != nil {
		return also, 0, fmt.Errorf("write the audit log: %w", err)
	}
	also.If = []clientv3.Cmp{head.unchanged()}
	also.Now = []clientv3.Op{clientv3.OpPut(configstore.AuditHeadKey, string(value))}
	for some := range slices.Chunk(slices.Concat(entries, vouches), entriesAtOnce) {
		for i := range some[1:] {
			some[i+1].Previous = "" // entriesOf knows it
		}
		value, err := json.Marshal(some)
		if err != nil {
			return also, 0, fmt.Errorf("write the audit log: %w", err)
		}
		also.With = append(also.With, clientv3.OpPut(fmt.Sprintf("%s%020d", outbox, some[0].Sequence), string(value)))
	}
	return also, len(vouches), nil
}

// nextID returns the id of an entry. Ids ascend along the chain, whatever the clocks of control planes say. The caller
// holds mu.
func (a *Log) nextID(after string) (string, error) {
	now, least := ulid.Now(), max(after, a.last)
	last, err := ulid.ParseStrict(least)
	if err != nil || last.Time() >= ulid.MaxTime() { // something else wrote the head
		last, least = ulid.ULID{}, ""
	}
	made, err := ulid.New(max(now, last.Time()), a.ids)
	if err == nil && made.String() <= least {
		made, err = ulid.New(last.Time()+1, a.ids)
	}
	if err != nil {
		return "", err
	}
	a.last = made.String()
	return a.last, nil
}

// owe notes entries that are in the store and not in the chain, so that the next that are written vouch for them.
func (a *Log) owe(entries []adminapi.AuditEntry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		hash, err := auditchain.Hash(e)
		if err != nil || len(a.owed) == maxOwed {
			return
		}
		a.owed = append(a.owed, adminapi.AuditEntry{Actor: "control plane", Action: auditchain.Vouch, Kind: "AuditEntry",
			Name: e.ID, Diff: hash})
	}
}

// paid forgets the first that were vouched for.
func (a *Log) paid(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.owed = a.owed[min(n, len(a.owed)):]
}
