// Package queue leases work to the replicas of the job service, on etcd. The transaction that makes work necessary
// adds an item to the queue, and the transaction that ends the work removes it. In between, one replica at a time has
// a claim on the item. A claim is a key under the replica's lease. If the replica dies, or cannot reach etcd for long
// enough, the claim expires and another replica takes the item.
//
// A worker that has lost its claim may not know it yet. Its writes must require [Claim.Held] in the same transaction.
// The end of its context alone is not enough.
package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	itemsRoot  = store.Root + "queue/"
	claimsRoot = store.Root + "claims/"
)

// An Item is a unit of work.
type Item struct {
	Kind string `json:"-"`
	ID   string `json:"id"`
	// NotBefore is the earliest time for a claim, in Unix seconds. 0: at once.
	NotBefore int64 `json:"not_before,omitempty"`
	// Value is JSON that its worker needs to find the work.
	Value json.RawMessage `json:"value,omitempty"`
}

func folder(root, kind string) string    { return root + kind + "/" }
func keyOf(root, kind, id string) string { return folder(root, kind) + url.QueryEscape(id) }
func (i Item) due(now time.Time) bool    { return i.NotBefore <= now.Unix() }

// Put returns the operation that puts an item into the queue, or replaces it.
func Put(i Item) clientv3.Op {
	value, err := json.Marshal(i)
	if err != nil {
		value = []byte("{}") // Value is JSON
	}
	return clientv3.OpPut(keyOf(itemsRoot, i.Kind, i.ID), string(value))
}

// Remove returns the operation that removes an item from the queue.
func Remove(kind, id string) clientv3.Op { return clientv3.OpDelete(keyOf(itemsRoot, kind, id)) }

// Absent returns the condition that an item is not in the queue.
func Absent(kind, id string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(keyOf(itemsRoot, kind, id)), "=", 0)
}

// Items returns the ids of all items of a kind.
func (q *Queue) Items(ctx context.Context, kind string) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	r, err := q.Etcd.Get(ctx, folder(itemsRoot, kind), clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	ids := make(map[string]bool, len(r.Kvs))
	for _, kv := range r.Kvs {
		ids[idOf(itemsRoot, kind, kv.Key)] = true
	}
	return ids, nil
}

// Oldest returns up to limit items of a kind by id, and so the oldest if ids sort by time.
func Oldest(ctx context.Context, etcd *clientv3.Client, kind string, limit int) ([]Item, error) {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	r, err := etcd.Get(ctx, folder(itemsRoot, kind), clientv3.WithPrefix(), clientv3.WithLimit(int64(limit)))
	if err != nil {
		return nil, fmt.Errorf("read the queue: %w", err)
	}
	var items []Item
	for _, kv := range r.Kvs {
		if i, err := parse(kind, kv.Value); err == nil { // else its worker says so
			items = append(items, i)
		}
	}
	return items, nil
}

func parse(kind string, value []byte) (Item, error) {
	i := Item{Kind: kind}
	if err := json.Unmarshal(value, &i); err != nil {
		return Item{}, fmt.Errorf("queue %s: %w", kind, err)
	}
	return i, nil
}

// A Claim is an item that this replica works on.
type Claim struct {
	Item
	// Epoch is larger than the epoch of every earlier claim on the item. It is unique among all claims.
	Epoch int64
}

// Held returns the condition that the claim is still held. A transaction with it changes nothing after the claim was
// lost.
func (c *Claim) Held() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(keyOf(claimsRoot, c.Kind, c.ID)), "=", c.Epoch)
}

// Dequeue removes a finished item, if the claim is still held.
func (c *Claim) Dequeue(ctx context.Context, st *store.Store) error {
	t := st.Begin()
	t.Require(c.Held())
	t.Do(Remove(c.Kind, c.ID))
	return t.Commit(ctx)
}

// claim tries to claim an item under a lease. It returns nil if the item is claimed or gone. Left is then a
// conflicting claim under the same lease, or nil.
func claim(ctx context.Context, etcd *clientv3.Client, lease clientv3.LeaseID, holder string, i Item) (made,
	left *Claim, err error) {
	item, key := keyOf(itemsRoot, i.Kind, i.ID), keyOf(claimsRoot, i.Kind, i.ID)
	r, err := etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.Compare(clientv3.CreateRevision(item), ">", 0)).
		Then(clientv3.OpPut(key, holder, clientv3.WithLease(lease)), clientv3.OpGet(item)).
		Else(clientv3.OpGet(key)).
		Commit()
	if err != nil {
		return nil, nil, fmt.Errorf("claim %s: %w", i.ID, err)
	}
	if !r.Succeeded {
		if there := r.Responses[0].GetResponseRange().Kvs; len(there) > 0 && there[0].Lease == int64(lease) {
			left = &Claim{Item: i, Epoch: there[0].CreateRevision}
		}
		return nil, left, nil
	}
	made = &Claim{Item: i, Epoch: r.Header.Revision}
	if now, err := parse(i.Kind, r.Responses[1].GetResponseRange().Kvs[0].Value); err == nil {
		made.Item = now
	}
	return made, nil, nil
}

// release releases a claim, if it is still held.
func release(ctx context.Context, etcd *clientv3.Client, c *Claim) error {
	_, err := etcd.Txn(ctx).If(c.Held()).Then(clientv3.OpDelete(keyOf(claimsRoot, c.Kind, c.ID))).Commit()
	return err
}

// idOf returns the id of an item from its key or its claim's key.
func idOf(root, kind string, key []byte) string {
	id, err := url.QueryUnescape(strings.TrimPrefix(string(key), folder(root, kind)))
	if err != nil {
		return "" // no item has such a key
	}
	return id
}
