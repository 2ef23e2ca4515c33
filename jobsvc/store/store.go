// Package store keeps the records of the job service in etcd, below /modelgate/jobs/v1/: one key for each object,
// whose value is JSON, in folders by kind, organization and project. Keys sort newest first, so that a page of a list
// is one short range, however many objects there are.
//
// Nothing here locks. Who changes a record gives a transaction all that must still be true, and
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

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/etcdspace"
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
	// timeout bounds one read or write: while etcd is unavailable its client waits for it. A list has twice as long.
	timeout time.Duration
	archive *archive        // nil: what was moved there is not seen
	tally   *tally          // nil: nothing is counted
	room    *etcdspace.Room // nil: everything is written
}

// New returns a store.
func New(etcd *clientv3.Client) *Store { return &Store{etcd: etcd, timeout: 5 * time.Second} }

// Within returns the store with another bound on how long one read or write may take.
func (s *Store) Within(timeout time.Duration) *Store {
	within := *s
	within.timeout = timeout
	return &within
}

// Reserving returns the store with a room that says what may still be written. What may not is etcdspace.ErrReserved.
func (s *Store) Reserving(room *etcdspace.Room) *Store {
	reserving := *s
	reserving.room = room
	return &reserving
}

// A Kind is a kind of objects whose records are of type T, which JSON can hold.
type Kind[T any] struct {
	Name   string // its folder
	Prefix string // of ids, such as "batch_"
	// Once, unless it is nil, returns pointers to the members that no longer change, by names that do not change
	// either. They have a key of their own. It is written when there are such members, and not at each change of
	// the record.
	Once func(*T) map[string]any
	// Ended, unless it is nil, returns when an object has ended for good, as Unix time in seconds, or 0. Such
	// objects can be moved to the archive: see Archive.
	Ended func(*T) int64
	// Parts are what goes to the archive with an object: kinds that are used Under its id.
	Parts []Parts
	// Counts, unless it is nil, returns an object's amounts, and the key that they count for. They may change with
	// the object.
	Counts func(*T) (key string, a Amounts)

	owner *owner // whose parts these are; nil if it does not matter
}

// A Record is an object as it was read, or as it is to be created.
type Record[T any] struct {
	Tenant   Tenant
	ID       string
	Revision int64 // of etcd, when it was written; 0 if it is not yet
	Value    T
	once     []string              // the names of the members that are written once, as they are there
	counted  counted               // as it is in etcd
	parts    map[string][]*Segment // where what belongs to it is in the archive, by kind
}

// counted is what an object counts for.
type counted struct {
	key     string
	amounts Amounts
}

func (k Kind[T]) counts(v *T) (c counted) {
	if k.Counts != nil {
		c.key, c.amounts = k.Counts(v)
	}
	return c
}

// NewID returns an id for a new object.
func (k Kind[T]) NewID() string { return k.Prefix + id.Bare() }

// Under returns the kind of the parts of one object of another kind, such as the events of a job.
func (k Kind[T]) Under(parent string) Kind[T] {
	k.Name += "/" + url.QueryEscape(parent)
	return k
}

func (k Kind[T]) folder(t Tenant) string { return Root + k.Name + "/" + t.path() }

// key is false if id cannot be of the kind.
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

func (k Kind[T]) decode(kv *mvccpb.KeyValue, once []byte) (*Record[T], error) {
	var e envelope[T]
	if err := json.Unmarshal(kv.Value, &e); err != nil {
		return nil, fmt.Errorf("record %s: %w", kv.Key, err)
	}
	r := &Record[T]{Tenant: e.Tenant, ID: e.ID, Revision: kv.ModRevision, Value: e.Value}
	if err := k.join(r, once); err != nil {
		return nil, fmt.Errorf("record %s: %w", kv.Key, err)
	}
	r.counted = k.counts(&r.Value)
	return r, nil
}

// A span is what there is in a range of keys, or in the beginning of it, as it was at one revision.
type span[T any] struct {
	records []*Record[T]
	bytes   int64    // of etcd's records
	more    bool     // the range goes on
	next    string   // there
	unread  bool     // the archive has records of it that were not read
	segment *Segment // the first one of the archive that may have records of the range, or nil
}

// read reads from a range of keys what etcd holds.
func (k Kind[T]) read(ctx context.Context, s *Store, t Tenant, from, end string,
	options ...clientv3.OpOption) (span[T], error) {
	var got span[T]
	ops := []clientv3.Op{clientv3.OpGet(from, append(options, clientv3.WithRange(end))...)}
	if k.Once != nil { // it sorts as the records do: of so many of them, it is among so many
		ops = append(ops, clientv3.OpGet(onceKey(from), append(options, clientv3.WithRange(onceKey(end)))...))
	}
	if k.Ended != nil {
		ops = append(ops, clientv3.OpGet(k.segmentAt(from),
			clientv3.WithRange(clientv3.GetPrefixRangeEnd(k.segmentAt(k.folder(t)))), clientv3.WithLimit(1)))
	}
	if k.owner != nil && k.owner.key != "" {
		ops = append(ops, clientv3.OpGet(k.owner.key, clientv3.WithCountOnly()))
	}
	r, err := s.snapshot(ctx, ops...)
	if err != nil {
		return got, err
	}
	rest := r.Responses[1:]
	once := map[string][]byte{}
	if k.Once != nil {
		for _, kv := range rest[0].GetResponseRange().GetKvs() {
			once[string(kv.Key)] = kv.Value
		}
		rest = rest[1:]
	}
	of := r.Responses[0].GetResponseRange()
	got.more = of.GetMore()
	for _, kv := range of.GetKvs() {
		one, err := k.decode(kv, once[onceKey(string(kv.Key))])
		if err != nil {
			return got, err
		}
		got.bytes += int64(len(kv.Value) + len(once[onceKey(string(kv.Key))]))
		got.records, got.next = append(got.records, one), string(kv.Key)+"\x00"
	}
	switch {
	case k.Ended != nil && len(rest[0].GetResponseRange().GetKvs()) > 0:
		got.segment, err = parseSegment(rest[0].GetResponseRange().GetKvs()[0])
	case k.owner != nil && k.owner.key == "":
		got.segment = k.owner.segmentFrom(k.folder(t), from)
	case k.owner != nil && rest[0].GetResponseRange().GetCount() == 0:
		err = errMoved
	}
	return got, err
}

// Get returns an object of the tenant's. The error is ErrNotFound also where the object is another's.
func (k Kind[T]) Get(ctx context.Context, s *Store, t Tenant, objectID string) (*Record[T], error) {
	key, ok := k.key(t, objectID)
	if !ok {
		return nil, ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	end := key + "\x00"
	for tries := 1; ; tries++ {
		got, err := k.read(ctx, s, t, key, end, clientv3.WithLimit(1))
		if err == nil && len(got.records) == 0 {
			got, err = k.withArchived(ctx, s, t, got, key, end)
		}
		switch {
		case errors.Is(err, errMoved) && tries < maxMoved:
			continue
		case err != nil:
			return nil, fmt.Errorf("read %s: %w", objectID, err)
		case len(got.records) == 0:
			return nil, ErrNotFound
		}
		return got.records[0], nil
	}
}

// Watch sends on the channel that it returns whenever the object may be another than the one that was read, until ctx
// ends. It buffers one; the channel closes where the watch ends by itself.
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
