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
	By          string // name of the client's Key object
	Key         string // as the client gave it
	Fingerprint string // of everything that the client asked
}

// An Answer is the answer to the first such request.
type Answer struct {
	Fingerprint string          `json:"fingerprint"`
	Body        json.RawMessage `json:"body"`
	By          string          `json:"by,omitempty"` // name of the Key object that it counts for
}

// answerSize is about what a remembered answer takes in etcd besides its body, with its expiry.
const answerSize = 512

func (a *Answer) amounts() (n Amounts) {
	n[IdempotencyRecords], n[RecordBytes] = 1, answerSize+int64(len(a.Body))
	return n
}

// name does not tell the client's key, which may say more than it should.
func (i *Idempotency) name() string {
	sum := sha256.Sum256([]byte(i.Key))
	return hex.EncodeToString(sum[:])
}

func idempotencyKey(t Tenant, name string) string {
	return Root + KindIdempotency + "/" + t.path() + name
}

// Recall returns the answer to the same request, or nil if there was none yet. The error is ErrOtherRequest if
// the key belongs to another.
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

// Remember keeps the answer to a request, and requires that there is none yet: where two of the same are made at once,
// the transaction of one is a conflict, and Recall then has the other's answer.
func (t *Txn) Remember(i *Idempotency, body json.RawMessage, now time.Time) {
	if i == nil || i.Key == "" {
		return
	}
	answer := Answer{i.Fingerprint, body, i.By}
	value, err := json.Marshal(answer)
	if err != nil {
		t.err = fmt.Errorf("remember an answer: %w", err)
	}
	key := idempotencyKey(i.Tenant, i.name())
	t.Require(clientv3.Compare(clientv3.CreateRevision(key), "=", 0))
	t.Do(clientv3.OpPut(key, string(value)))
	t.Count(Owner{i.Tenant, i.By}, answer.amounts())
	t.ExpireAt(Expiry{Kind: KindIdempotency, Tenant: i.Tenant, ID: i.name(), At: now.Add(remembered).Unix()})
}

// Known reports whether there is an answer to a request with the same key, the same or another.
func (s *Store) Known(ctx context.Context, i *Idempotency) (bool, error) {
	body, err := s.Recall(ctx, i)
	if errors.Is(err, ErrOtherRequest) {
		return true, nil
	}
	return body != nil, err
}

// Forget removes a remembered answer that has expired.
func (s *Store) Forget(ctx context.Context, e Expiry) error {
	key := idempotencyKey(e.Tenant, e.ID)
	r, err := s.etcd.Get(ctx, key)
	if err != nil || len(r.Kvs) == 0 {
		return err
	}
	var a Answer
	if err := json.Unmarshal(r.Kvs[0].Value, &a); err != nil {
		return fmt.Errorf("forget an answer: %w", err)
	}
	t := s.Begin()
	t.Require(clientv3.Compare(clientv3.ModRevision(key), "=", r.Kvs[0].ModRevision))
	t.Do(clientv3.OpDelete(key))
	t.Count(Owner{e.Tenant, a.By}, Amounts{}.minus(a.amounts()))
	return t.Commit(ctx)
}
