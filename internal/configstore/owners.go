package configstore

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/timing"
)

// Owners is the prefix of the keys that say by what objects are declared, if that is not the admin API or a file. The
// transaction that writes an object writes its key.
const Owners = "/modelgate/owners/"

// ownersPause is how long a follower of them waits before it asks etcd again.
const ownersPause = time.Second

// An Owner is what declares an object, in place of the admin API and files.
type Owner struct {
	// By names it for people: kubernetes:NAMESPACE/NAME, or gateway-api:KIND/NAMESPACE/NAME.
	By string `json:"by"`
	// ID tells it from a later one of its name.
	ID string `json:"id,omitempty"`
}

func ownerKey(ref Ref) string { return Owners + ref.Kind + "/" + url.PathEscape(ref.Name) }

// OwnersOf returns the owners of all objects that have one, and the revision at which that was so.
func (s *Store) OwnersOf(ctx context.Context) (map[Ref]Owner, int64, error) {
	r, err := s.etcd.Get(ctx, Owners, clientv3.WithPrefix())
	if err != nil {
		return nil, 0, fmt.Errorf("read the owners of objects: %w", err)
	}
	all := make(map[Ref]Owner, len(r.Kvs))
	for _, kv := range r.Kvs {
		if ref, o, ok := ownerOf(string(kv.Key), kv.Value); ok {
			all[ref] = o
		}
	}
	return all, r.Header.Revision, nil
}

// OwnerOf returns the owner of one object; the zero value if it has none.
func (s *Store) OwnerOf(ctx context.Context, ref Ref) (Owner, int64, error) {
	r, err := s.etcd.Get(ctx, ownerKey(ref))
	if err != nil {
		return Owner{}, 0, fmt.Errorf("read the owner of %s %s: %w", ref.Kind, ref.Name, err)
	}
	var o Owner
	if len(r.Kvs) == 1 {
		_, o, _ = ownerOf(string(r.Kvs[0].Key), r.Kvs[0].Value)
	}
	return o, r.Header.Revision, nil
}

// ownerOf reads a key. What is none of ours is ignored.
func ownerOf(key string, value []byte) (ref Ref, o Owner, ok bool) {
	kind, escaped, _ := strings.Cut(strings.TrimPrefix(key, Owners), "/")
	name, err := url.PathUnescape(escaped)
	if k, known := configv1.FindKind(kind); !known || k.Name != kind || name == "" || err != nil ||
		json.Unmarshal(value, &o) != nil || o.By == "" {
		return Ref{}, Owner{}, false
	}
	return Ref{Kind: kind, Name: name}, o, true
}

// SetOwners writes owners, and removes those of objects that have a zero one. It demands that none was written since a
// revision.
func SetOwners(owners map[Ref]Owner, since int64) (Also, error) {
	if len(owners) == 0 {
		return Also{}, nil
	}
	also := Also{If: []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(Owners).WithPrefix(), "<", since+1)}}
	for ref, o := range owners {
		if o == (Owner{}) {
			also.With = append(also.With, clientv3.OpDelete(ownerKey(ref)))
			continue
		}
		value, err := json.Marshal(o)
		if err != nil {
			return Also{}, err
		}
		also.With = append(also.With, clientv3.OpPut(ownerKey(ref), string(value)))
	}
	return also, nil
}

// An OwnerIndex is the owners of objects as etcd last told them. It is safe for concurrent use.
type OwnerIndex struct {
	store *Store
	all   atomic.Pointer[map[Ref]Owner]

	mu      sync.Mutex // guards changed
	changed chan struct{}
}

// NewOwnerIndex returns an index, which is empty before Run.
func NewOwnerIndex(store *Store) *OwnerIndex {
	return &OwnerIndex{store: store, changed: make(chan struct{})}
}

// Of returns by what an object is declared; "" for the admin API and files.
func (x *OwnerIndex) Of(kind configv1.Kind, name string) string {
	if all := x.all.Load(); all != nil {
		return (*all)[Ref{Kind: kind.Name, Name: name}].By
	}
	return ""
}

// All returns all owners, not copied.
func (x *OwnerIndex) All() map[Ref]Owner {
	if all := x.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Changed returns a channel that is closed at the next change.
func (x *OwnerIndex) Changed() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.changed
}

// Run follows etcd until ctx ends.
func (x *OwnerIndex) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := x.follow(ctx); err != nil && ctx.Err() == nil {
			x.store.log.Warn("the owners of objects are not followed", zap.Error(err))
		}
		_ = timing.Sleep(ctx, ownersPause) // its end ends the loop
	}
	return ctx.Err()
}

func (x *OwnerIndex) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		all, revision, err := x.store.OwnersOf(ctx)
		if err != nil {
			return err
		}
		x.set(all)
		watch := x.store.etcd.Watch(clientv3.WithRequireLeader(ctx), Owners, clientv3.WithPrefix(),
			clientv3.WithRev(revision+1))
		r, ok := <-watch
		if !ok {
			return ctx.Err()
		}
		if err := r.Err(); err != nil {
			return err
		}
		// Others of the same burst are read with it.
		if err := timing.Sleep(ctx, debounce); err != nil {
			return err
		}
	}
}

func (x *OwnerIndex) set(all map[Ref]Owner) {
	x.all.Store(&all)
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.changed)
	x.changed = make(chan struct{})
}
