package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// ErrOtherRequest means that the idempotency key was used for another request before.
var ErrOtherRequest = errors.New("the idempotency key was used for another request")

// remembered is how long a key is remembered.
const remembered = 24 * time.Hour

// KindIdempotency is the kind of the expiry of remembered answers.
const KindIdempotency = "idempotency"

// An Idempotency is a request that may come again. One without a key, or nil, is new each time.
type Idempotency struct {
	Tenant      Tenant
	Key         string // as the client gave it
	Fingerprint string // of everything that the client asked
}

// An Answer is what the first such request was answered with.
type Answer struct {
	Fingerprint string          `json:"fingerprint"`
	Body        json.RawMessage `json:"body"`
}

// name does not tell the client's key, which may say more than it should.
func (i *Idempotency) name() string {
	sum := sha256.Sum256([]byte(i.Key))
	return hex.EncodeToString(sum[:])
}

func idempotencyKey(t Tenant, name string) string {
	return Root + KindIdempotency + "/" + t.path() + name
}

// Recall returns the answer to the same request, or nil where there was none yet. The error is ErrOtherRequest where the key
// belongs to another.
func (s *Store) Recall(ctx context.Context, i *Idempotency) (json.RawMessage, error) {
	if i == nil || i.Key == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := s.etcd.Get(ctx, idempotencyKey(i.Tenant, i.name()))
	if err != nil {
		return nil, fmt.Errorf("look up an idempotency key: %w", err)
	}
	if len(r.Kvs) == 0 {
		return nil, nil
	}
	var a Answer
	if err := json.Unmarshal(r.Kvs[0].Value, &a); err != nil {
		return nil, fmt.Errorf("look up an idempotency key: %w", err)
	}
	if a.Fingerprint != i.Fingerprint {
		return nil, ErrOtherRequest
	}
	return a.Body, nil
}

// Remember keeps the answer to a request, and requires that there is none yet: where two of the same are made at once, the
// transaction of one is a conflict, and Recall then has the other's answer.
func (t *Txn) Remember(i *Idempotency, body json.RawMessage, now time.Time) {
	if i == nil || i.Key == "" {
		return
	}
	value, err := json.Marshal(Answer{i.Fingerprint, body})
	if err != nil {
		t.err = fmt.Errorf("remember an answer: %w", err)
	}
	key := idempotencyKey(i.Tenant, i.name())
	t.Require(clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
	t.Do(clientv3.OpPut(key, string(value)))
	t.ExpireAt(Expiry{Kind: KindIdempotency, Tenant: i.Tenant, ID: i.name(), At: now.Add(remembered).Unix()})
}

// Forget removes a remembered answer that has expired.
func (s *Store) Forget(ctx context.Context, e Expiry) error {
	_, err := s.etcd.Delete(ctx, idempotencyKey(e.Tenant, e.ID))
	return err
}
