// Package store keeps the records of the job service in etcd, below /modelgate/jobs/v1/: one key for each object, whose
// value is JSON, in folders by kind, organization and project. Keys sort newest first, so that a page of a list is one short
// range, however many objects there are.
//
// What a newcomer gets wrong: nothing here locks. Who changes a record gives a transaction all that must still be true, and
// where it is not any more, the transaction is a conflict, changes nothing, and the record has to be read again.
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/id"
)

// Root is the beginning of every key of the job service.
const Root = "/modelgate/jobs/v1/"

// Errors of reading and writing.
var (
	ErrNotFound = errors.New("no such object")
	ErrConflict = errors.New("the object was changed in the meantime")
	ErrCursor   = errors.New("the cursor is no id of such objects")
)

// A Tenant owns objects. Two are the same only where both members are.
type Tenant struct {
	Organization string `json:"organization,omitempty"`
	Project      string `json:"project,omitempty"`
}

// path is unambiguous: escaped names have no slash.
func (t Tenant) path() string {
	return url.QueryEscape(t.Organization) + "/" + url.QueryEscape(t.Project) + "/"
}

// A Store reads and writes records. It is safe for concurrent use.
type Store struct {
	etcd *clientv3.Client
	// timeout bounds one read or write: while etcd is away its client waits for it. A list has twice as long.
	timeout time.Duration
}

// New returns a store.
func New(etcd *clientv3.Client) *Store { return &Store{etcd, 5 * time.Second} }

// Within returns the store with another bound on how long one read or write may take.
func (s *Store) Within(timeout time.Duration) *Store { return &Store{s.etcd, timeout} }

// A Kind is a kind of objects whose records are of type T, which JSON can hold.
type Kind[T any] struct {
	Name   string // its folder
	Prefix string // of ids, such as "batch_"
}

// A Record is an object as it was read, or as it is to be created.
type Record[T any] struct {
	Tenant   Tenant
	ID       string
	Revision int64 // of etcd, when it was written; 0 where it is not yet
	Value    T
}

// NewID returns an id for a new object.
func (k Kind[T]) NewID() string { return k.Prefix + id.Bare() }

// Under returns the kind of the parts of one object of another kind, such as the events of a job.
func (k Kind[T]) Under(parent string) Kind[T] {
	k.Name += "/" + url.QueryEscape(parent)
	return k
}

func (k Kind[T]) folder(t Tenant) string { return Root + k.Name + "/" + t.path() }

// key is false where id cannot be of the kind.
func (k Kind[T]) key(t Tenant, objectID string) (string, bool) {
	bare, ok := strings.CutPrefix(objectID, k.Prefix)
	if !ok {
		return "", false
	}
	sortable, ok := id.Descending(bare)
	return k.folder(t) + sortable, ok
}

// envelope is what etcd holds: a record names itself, so that it can be read by its key alone.
type envelope[T any] struct {
	ID     string `json:"id"`
	Tenant Tenant `json:"tenant"`
	Value  T      `json:"value"`
}

func (k Kind[T]) decode(key, value []byte, revision int64) (*Record[T], error) {
	var e envelope[T]
	if err := json.Unmarshal(value, &e); err != nil {
		return nil, fmt.Errorf("record %s: %w", key, err)
	}
	return &Record[T]{Tenant: e.Tenant, ID: e.ID, Revision: revision, Value: e.Value}, nil
}

// Get returns an object of the tenant's. The error is ErrNotFound also where the object is another's.
func (k Kind[T]) Get(ctx context.Context, s *Store, t Tenant, objectID string) (*Record[T], error) {
	key, ok := k.key(t, objectID)
	if !ok {
		return nil, ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	r, err := s.etcd.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", objectID, err)
	}
	if len(r.Kvs) == 0 {
		return nil, ErrNotFound
	}
	return k.decode(r.Kvs[0].Key, r.Kvs[0].Value, r.Kvs[0].ModRevision)
}

// Watch sends on the channel that it returns whenever the object may be another than the one that was read, until ctx ends. It
// buffers one; the channel closes where the watch ends by itself.
func (k Kind[T]) Watch(ctx context.Context, s *Store, r *Record[T]) <-chan struct{} {
	changed := make(chan struct{}, 1)
	key, _ := k.key(r.Tenant, r.ID)
	read := r.Revision
	go func() {
		defer close(changed)
		// The revision at which the object was written may be forgotten by now: etcd watches from the present only.
		now, err := s.etcd.Get(ctx, key)
		if err != nil {
			return
		}
		if len(now.Kvs) == 0 || now.Kvs[0].ModRevision != read {
			changed <- struct{}{}
		}
		for e := range s.etcd.Watch(clientv3.WithRequireLeader(ctx), key, clientv3.WithRev(now.Header.Revision+1)) {
			if e.Err() != nil {
				return
			}
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	}()
	return changed
}
