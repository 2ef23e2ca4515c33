package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/etcdspace"
)

// MaxBytes is the size of the largest record: etcd takes requests of 1.5 MiB (its --max-request-bytes).
const MaxBytes = 1 << 20

const (
	// maxOps is how many operations etcd takes in a transaction (its --max-txn-ops). What it counts is the larger number
	// of comparisons and changes, plus that of the nested transaction.
	maxOps = 128
	// groupSize is how many changes go into one nested transaction, if there are no more comparisons than that.
	groupSize = maxOps / 2
)

// A Txn is a set of changes that are made together or not at all. It is used once, by one goroutine.
type Txn struct {
	store   *Store
	compare []clientv3.Cmp
	ops     []clientv3.Op
	done    []func(revision int64)
	use     etcdspace.Use
	err     error

	counts map[Account]Amounts // what is added to what accounts use
	bounds Bounds
	room   []Quota
}

// Begin returns an empty transaction.
func (s *Store) Begin() *Txn { return &Txn{store: s, use: etcdspace.Progress} }

// BeginCreation is Begin for creations that a tenant asks for: it is refused sooner if etcd fills.
func (s *Store) BeginCreation() *Txn { return &Txn{store: s, use: etcdspace.Creation} }

// Require adds what must be true for the changes to be made.
func (t *Txn) Require(c ...clientv3.Cmp) { t.compare = append(t.compare, c...) }

// Do adds changes.
func (t *Txn) Do(ops ...clientv3.Op) { t.ops = append(t.ops, ops...) }

// Commit makes the changes. The error is ErrConflict if something that they require is not so, a QuotaError where
// they are more than an account may use, and ErrBusy if others count for it all the time. After any other error
// they may have been made all the same: etcd's answer did not come. With etcdspace.ErrReserved they were not.
func (t *Txn) Commit(ctx context.Context) error {
	if t.err != nil {
		return t.err
	}
	if err := t.admitted(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	maps.DeleteFunc(t.counts, func(_ Account, a Amounts) bool { return a == Amounts{} }) // what moves counts as before
	if len(t.counts) > 0 {
		return t.commitCounted(ctx)
	}
	r, err := t.submit(ctx, t.compare, t.ops, nil)
	if err == nil && !r.Succeeded {
		return ErrConflict
	}
	return err
}

// submit gives etcd a transaction, and reads otherwise.
func (t *Txn) submit(ctx context.Context, compare []clientv3.Cmp, ops, otherwise []clientv3.Op) (*clientv3.TxnResponse,
	error) {
	size := min(groupSize, maxOps-len(compare))
	if size < 1 {
		return nil, fmt.Errorf("write: a transaction requires %d things, more than %d", len(compare), maxOps-1)
	}
	var groups []clientv3.Op
	for group := range slices.Chunk(ops, size) {
		groups = append(groups, clientv3.OpTxn(nil, group, nil))
	}
	ctx, cancel := context.WithTimeout(ctx, t.store.timeout)
	defer cancel()
	txn := t.store.etcd.Txn(ctx).If(compare...).Then(groups...)
	if len(otherwise) > 0 {
		txn = txn.Else(otherwise...)
	}
	r, err := txn.Commit()
	if err != nil {
		return nil, fmt.Errorf("write: %w", err)
	}
	if r.Succeeded {
		for _, f := range t.done {
			f(r.Header.Revision)
		}
	}
	return r, nil
}

// revisionSize is about what a revision of a key takes in etcd besides the key and its value.
const revisionSize = 256

// admitted reports whether etcd has room for the changes. Those of work that also remove something end something, and
// need none.
func (t *Txn) admitted() error {
	size := 0
	for _, op := range t.ops {
		if op.IsDelete() && t.use == etcdspace.Progress {
			return nil
		}
		if op.IsPut() {
			size += len(op.KeyBytes()) + len(op.ValueBytes()) + revisionSize
		}
	}
	if size == 0 {
		return nil
	}
	return t.store.room.Admit(t.use, size)
}

// Create adds an object that is not there yet.
func (k Kind[T]) Create(t *Txn, r *Record[T]) { k.write(t, r, 0) }

// Update replaces an object that is as it was read.
func (k Kind[T]) Update(t *Txn, r *Record[T]) { k.write(t, r, r.Revision) }

// Put writes an object whatever is there: for records whose id is derived from their content, of kinds without a
// quota.
func (k Kind[T]) Put(t *Txn, r *Record[T]) { k.put(t, r) }

// Delete removes an object that is as it was read.
func (k Kind[T]) Delete(t *Txn, r *Record[T]) {
	key, ok := k.key(r.Tenant, r.ID)
	if !ok {
		t.err = fmt.Errorf("delete %q: %w", r.ID, ErrNotFound)
		return
	}
	t.Require(clientv3.Compare(clientv3.ModRevision(key), "=", r.Revision))
	k.delete(t, key)
	t.recount(r.Tenant, r.counted, counted{})
}

// recount replaces an object's former amounts by its present ones.
func (t *Txn) recount(of Tenant, was, is counted) {
	if was == is {
		return
	}
	t.Count(Owner{of, was.key}, Amounts{}.minus(was.amounts))
	t.Count(Owner{of, is.key}, is.amounts)
}

// Drop removes an object whatever is there: the counterpart of Put.
func (k Kind[T]) Drop(t *Txn, tenant Tenant, objectID string) {
	key, ok := k.key(tenant, objectID)
	if !ok {
		t.err = fmt.Errorf("drop %q: %w", objectID, ErrNotFound)
		return
	}
	k.delete(t, key)
}

// DeleteAll removes all of the tenant's objects of the kind, such as the events of a job that is gone.
func (k Kind[T]) DeleteAll(t *Txn, tenant Tenant) {
	t.Do(clientv3.OpDelete(k.folder(tenant), clientv3.WithPrefix()))
	if k.Once != nil {
		t.Do(clientv3.OpDelete(onceKey(k.folder(tenant)), clientv3.WithPrefix()))
	}
}

// Unchanged requires that an object is still as it was read.
func (k Kind[T]) Unchanged(t *Txn, r *Record[T]) {
	key, _ := k.key(r.Tenant, r.ID)
	t.Require(clientv3.Compare(clientv3.ModRevision(key), "=", r.Revision))
}

func (k Kind[T]) write(t *Txn, r *Record[T], revision int64) {
	key := k.put(t, r)
	t.Require(clientv3.Compare(clientv3.ModRevision(key), "=", revision))
	is := k.counts(&r.Value)
	t.recount(r.Tenant, r.counted, is)
	t.done = append(t.done, func(int64) { r.counted = is })
}

func (k Kind[T]) put(t *Txn, r *Record[T]) string {
	key, ok := k.key(r.Tenant, r.ID)
	if !ok {
		t.err = fmt.Errorf("write %q: it is no id of %s", r.ID, k.Name)
		return ""
	}
	small, once := k.split(r.Value)
	value, err := json.Marshal(envelope[T]{r.ID, r.Tenant, small})
	switch {
	case err != nil:
		t.err = fmt.Errorf("write %s: %w", r.ID, err)
	case len(value) > MaxBytes:
		t.err = fmt.Errorf("write %s: the record has %d bytes, more than %d", r.ID, len(value), MaxBytes)
	}
	t.Do(clientv3.OpPut(key, string(value)))
	t.done = append(t.done, func(revision int64) { r.Revision = revision })
	k.putOnce(t, key, r, once)
	return key
}
