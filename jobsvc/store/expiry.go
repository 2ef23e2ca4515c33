package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// An Expiry says when an object is to be removed.
type Expiry struct {
	Kind   string `json:"kind"` // the name of its Kind
	Tenant Tenant `json:"tenant"`
	ID     string `json:"id"`
	At     int64  `json:"at"` // Unix time in seconds
}

// path names the tenant too: ids of remembered answers are the same where two tenants choose the same key.
func (e Expiry) path() string {
	return fmt.Sprintf("%sexpiry/%012d/%s/%s%s", Root, e.At, strings.ReplaceAll(e.Kind, "/", ":"), e.Tenant.path(), e.ID)
}

// ExpireAt has an object removed at a time: the handler of its kind is called then, at least once. See Reap.
func (t *Txn) ExpireAt(e Expiry) {
	value, err := json.Marshal(e)
	if err != nil {
		t.err = fmt.Errorf("expiry of %s: %w", e.ID, err)
	}
	t.Do(clientv3.OpPut(e.path(), string(value)))
}

// Keep takes back what ExpireAt said. Nothing happens where it was not said.
func (t *Txn) Keep(e Expiry) { t.Do(clientv3.OpDelete(e.path())) }

// Reap calls, for each object whose time has come, the handler of its kind, which removes what there is; one that is
// gone already is no error. An object whose handler fails is tried again at the next call. It returns the first error,
// after it has tried all.
func (s *Store) Reap(ctx context.Context, now time.Time, handlers map[string]func(context.Context,
	Expiry) error) error {
	var first error
	from := Root + "expiry/"
	end := fmt.Sprintf("%sexpiry/%012d", Root, now.Unix()+1)
	for {
		r, err := s.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(100))
		if err != nil {
			return fmt.Errorf("read what expires: %w", err)
		}
		for _, kv := range r.Kvs {
			from = string(kv.Key) + "\x00"
			if err := s.reap(ctx, string(kv.Key), kv.Value, handlers); err != nil && first == nil {
				first = err
			}
		}
		if !r.More {
			return first
		}
	}
}

func (s *Store) reap(ctx context.Context, key string, value []byte, handlers map[string]func(context.Context,
	Expiry) error) error {
	var e Expiry
	if err := json.Unmarshal(value, &e); err != nil {
		return fmt.Errorf("expiry %s: %w", key, err)
	}
	handle, ok := handlers[e.Kind]
	if !ok {
		return fmt.Errorf("expiry %s: nobody removes objects of kind %q", key, e.Kind)
	}
	if err := handle(ctx, e); err != nil {
		return fmt.Errorf("remove %s, which has expired: %w", e.ID, err)
	}
	if _, err := s.etcd.Delete(ctx, key); err != nil {
		return fmt.Errorf("expiry %s: %w", key, err)
	}
	return nil
}
