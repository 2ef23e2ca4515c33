package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/memo"
)

// ErrBusy means that too many replicas changed what a tenant uses at the same time. Nothing was written.
var ErrBusy = errors.New("what the tenant uses was changed too often by others at the same time")

// A QuotaError means that a transaction would have an account use more than it may. Nothing was written.
type QuotaError struct {
	Account     Account
	Quota       Quota
	Used, Limit int64
}

// Error implements error.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("the quota %s of %s is used up: %d of %d", e.Quota, e.Account, e.Used, e.Limit)
}

// Bounds are how much accounts may use. One that is not named may use anything.
type Bounds map[Account]Amounts

// A Usage is what an account uses.
type Usage struct {
	// Counted is the sum over all records, in etcd and in the archive; a recount corrects it.
	Counted Amounts `json:"counted"`
	// Recounts is how often it was corrected.
	Recounts int64 `json:"recounts,omitempty"`
}

// known is a usage as it was at a revision; 0: it is not in etcd yet.
type known struct {
	Usage
	revision int64
}

const (
	// busyTries is how often a transaction is tried again because another replica has counted in between. Those of one
	// replica wait for each other.
	busyTries = 30
	// remembered usages save a read; what is forgotten is read again.
	maxKnown = 10_000
)

// A tally counts what accounts use, in the same transactions as their objects change.
type tally struct {
	kinds []Counted
	known *memo.Memo[Account, known]
	// keys is what keys without an organization had, at some time.
	keys atomic.Pointer[keysCounted]

	mu    sync.Mutex // guards what follows
	locks map[string]*turn
}

// A turn is held by who changes what an organization, or a key without one, uses.
type turn struct {
	token   chan struct{}
	waiting int // guarded by the tally's mutex
}

// Counting returns the store with its counted kinds: the kinds of all objects that count for a quota. Remembered
// answers count besides. Every process that changes such objects must count.
func (s *Store) Counting(kinds ...Counted) *Store {
	counting := *s
	counting.tally = &tally{kinds: append(kinds, answers{}), known: memo.New[Account, known](maxKnown),
		locks: map[string]*turn{}}
	return &counting
}

// Count adds to what an owner uses; less than 0 takes away. Objects of kinds that say what they count for are counted
// without it.
func (t *Txn) Count(o Owner, a Amounts) {
	if a == (Amounts{}) || t.store.tally == nil {
		return
	}
	if t.counts == nil {
		t.counts = map[Account]Amounts{}
	}
	for _, of := range o.Accounts() {
		t.counts[of] = t.counts[of].plus(a)
	}
}

// Within has the transaction fail with a QuotaError where it would have an account use more than it may. Without it
// everything is only counted: what a job leaves behind is paid for, and is kept.
func (t *Txn) Within(b Bounds) { t.bounds = b }

// Room requires that an account has some of a quota left, although the transaction takes nothing of it yet.
func (t *Txn) Room(q ...Quota) { t.room = append(t.room, q...) }

// over returns why an account may not use what it would.
func (t *Txn) over(a Account, before Amounts) error {
	limits, bounded := t.bounds[a]
	if !bounded {
		return nil
	}
	for q, more := range t.counts[a] {
		if more > 0 && before[q]+more > limits[q] || slices.Contains(t.room, Quota(q)) && before[q] >= limits[q] {
			return &QuotaError{Account: a, Quota: Quota(q), Used: before[q], Limit: limits[q]}
		}
	}
	return nil
}

// Fits returns what Commit would, as far as quotas and etcd's room go, and changes nothing: before a body is read that
// would come to nothing. What is committed has to fit again.
func (t *Txn) Fits(ctx context.Context) error {
	if err := t.store.room.Admit(t.use, 0); err != nil || len(t.counts) == 0 || t.bounds == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, t.store.timeout)
	defer cancel()
	for fresh := false; ; fresh = true {
		before, all, err := t.store.usages(ctx, t.accounts(), fresh)
		if err == nil {
			err = t.within(t.accounts(), before)
		}
		if _, over := errors.AsType[*QuotaError](err); !over || all {
			return err
		}
	}
}

// accounts returns the accounts that the transaction counts for, in one order.
func (t *Txn) accounts() []Account {
	return slices.SortedFunc(maps.Keys(t.counts), func(a, b Account) int { return cmp.Compare(a.path(), b.path()) })
}

// commitCounted commits a transaction that counts.
func (t *Txn) commitCounted(ctx context.Context) error {
	accounts := t.accounts()
	done, err := t.store.begin(ctx, accounts)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	defer done()
	fresh := false // whether what is known was read after the turn began
	for range busyTries {
		before, all, err := t.store.usages(ctx, accounts, fresh)
		if err != nil {
			return err
		}
		if err := t.within(accounts, before); err != nil {
			if all || fresh {
				return err
			}
			fresh = true // another replica may have made room since
			continue
		}
		fresh = false
		made, err := t.try(ctx, accounts, before)
		if made || err != nil {
			return err
		}
	}
	return ErrBusy
}

func (t *Txn) within(accounts []Account, before map[Account]known) error {
	for _, a := range accounts {
		if err := t.over(a, before[a].Counted); err != nil {
			return err
		}
	}
	return nil
}

// try makes the changes on top of the accounts' use. It is false if the use has changed meanwhile.
func (t *Txn) try(ctx context.Context, accounts []Account, before map[Account]known) (made bool, err error) {
	compare, ops := slices.Clone(t.compare), slices.Clone(t.ops)
	var reads []clientv3.Op
	after := map[Account]Usage{}
	for _, a := range accounts {
		now := before[a].Usage
		now.Counted = now.Counted.plus(t.counts[a])
		text, err := json.Marshal(now)
		if err != nil {
			return false, fmt.Errorf("write usage: %w", err)
		}
		after[a] = now
		compare = append(compare, clientv3.Compare(clientv3.ModRevision(a.path()), "=", before[a].revision))
		ops, reads = append(ops, clientv3.OpPut(a.path(), string(text))), append(reads, clientv3.OpGet(a.path()))
	}
	r, err := t.submit(ctx, compare, ops, reads)
	if err != nil {
		return false, err
	}
	y := t.store.tally
	if r.Succeeded {
		for a, u := range after {
			y.known.Keep(a, known{u, r.Header.Revision})
		}
		return true, nil
	}
	stale := false
	for i, a := range accounts {
		if kvs := r.Responses[i].GetResponseRange().GetKvs(); len(kvs) == 0 {
			stale = stale || before[a].revision != 0
			y.known.Keep(a, known{revision: gone})
		} else if kvs[0].ModRevision != before[a].revision {
			stale = true
			if err := y.learn(a, kvs[0]); err != nil {
				return false, err
			}
		}
	}
	if !stale {
		return false, ErrConflict
	}
	return false, nil
}

// gone is the revision of a usage that has to be read.
const gone = -1

func (y *tally) learn(a Account, kv *mvccpb.KeyValue) error {
	var u Usage
	if err := json.Unmarshal(kv.Value, &u); err != nil {
		return fmt.Errorf("usage of %s: %w", a, err)
	}
	y.known.Keep(a, known{u, kv.ModRevision})
	return nil
}

// usages returns what accounts use, and whether all of it was read just now. What was never counted is counted now:
// until that is written nobody changes it, since every such change has to write it.
func (s *Store) usages(ctx context.Context, accounts []Account, fresh bool) (found map[Account]known, all bool,
	err error) {
	found, all = map[Account]known{}, true
	for _, a := range accounts {
		if k, ok := s.tally.known.Find(a); ok && !fresh && k.revision != gone {
			found[a], all = k, false
			continue
		}
		r, err := s.get(ctx, a.path())
		if err != nil {
			return nil, false, fmt.Errorf("read usage: %w", err)
		}
		if len(r.Kvs) > 0 {
			if err := s.tally.learn(a, r.Kvs[0]); err != nil {
				return nil, false, err
			}
			found[a], _ = s.tally.known.Find(a)
			continue
		}
		counted, err := s.uncounted(ctx, a.Organization, r.Header.Revision)
		if err != nil {
			return nil, false, err
		}
		found[a] = known{Usage: Usage{Counted: counted[a]}}
	}
	return found, all, nil
}

// keysCounted is what all keys without an organization had when they were counted.
type keysCounted struct {
	amounts map[Account]Amounts
	at      time.Time
}

// keysHold is for how long that holds.
const keysHold = time.Hour

// uncounted returns what accounts of an organization have that are not counted in etcd. Keys without one share a
// folder, which is read once for all of them: a key that is still not counted has what it had then, since every change
// would have counted it.
func (s *Store) uncounted(ctx context.Context, organization string, revision int64) (map[Account]Amounts, error) {
	if organization != "" {
		return s.recount(ctx, organization, revision)
	}
	if k := s.tally.keys.Load(); k != nil && time.Since(k.at) < keysHold {
		return k.amounts, nil
	}
	counted, err := s.recount(ctx, organization, revision)
	if err == nil {
		s.tally.keys.Store(&keysCounted{counted, time.Now()})
	}
	return counted, err
}

// begin waits until nobody else in this process changes what the accounts use.
func (s *Store) begin(ctx context.Context, accounts []Account) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	y := s.tally
	var held []string
	done = func() {
		for _, name := range held {
			y.leave(name, true)
		}
	}
	for _, a := range accounts {
		name := a.Organization + "\x00" + a.Key // a project is changed together with its organization
		if slices.Contains(held, name) {
			continue
		}
		y.mu.Lock()
		t := y.locks[name]
		if t == nil {
			t = &turn{token: make(chan struct{}, 1)}
			y.locks[name] = t
		}
		t.waiting++
		y.mu.Unlock()
		select {
		case t.token <- struct{}{}:
			held = append(held, name)
		case <-ctx.Done():
			y.leave(name, false)
			done()
			return nil, ctx.Err()
		}
	}
	return done, nil
}

func (y *tally) leave(name string, held bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	t := y.locks[name]
	if held {
		<-t.token
	}
	if t.waiting--; t.waiting == 0 {
		delete(y.locks, name)
	}
}
