package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/id"
)

const (
	// atOnce is how many records one transaction moves: each is a comparison.
	atOnce = 100
	// keysAtOnce is how many it moves of keys without an organization: each may have an account of its own.
	keysAtOnce = 20
)

// A Move says what is moved to the archive.
type Move struct {
	Before int64                // objects that were over by then, as Unix time in seconds
	Busy   func(id string) bool // of these, those that are still needed
	Most   int                  // objects at once; 0: all
	Held   []clientv3.Cmp       // what each transaction requires besides
}

// A Moved says what Archive has seen and done. Kept are objects that are in etcd as before.
type Moved struct{ Kept, Moved int }

// A mover moves a tenant's objects to the archive.
type mover[T any] struct {
	Kind[T]
	s *Store
	t Tenant
}

// Archive moves a tenant's objects that are over from etcd to the archive: first a segment is written, which nothing
// names yet, and then one transaction adds it and removes the records. It can be repeated from anywhere. What cannot
// be moved, because a segment that it belongs to is damaged, stays; the error says so once all else is moved.
func (k Kind[T]) Archive(ctx context.Context, s *Store, t Tenant, m Move) (done Moved, failed error) {
	mover := mover[T]{k, s, t}
	from := k.folder(t)
	end := clientv3.GetPrefixRangeEnd(from)
	for more := true; more && (m.Most == 0 || done.Moved < m.Most); {
		r, err := s.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(chunk))
		if err != nil {
			return done, fmt.Errorf("archive %s: %w", k.Name, err)
		}
		more = r.More
		var due []*mvccpb.KeyValue
		for _, kv := range r.Kvs {
			from = string(kv.Key) + "\x00"
			one, err := k.decode(kv, nil)
			if err != nil {
				return done, err
			}
			if ended := mover.ended(&one.Value); ended > 0 && ended <= m.Before && !m.Busy(one.ID) {
				due = append(due, kv)
			}
		}
		done.Kept += len(r.Kvs)
		for len(due) > 0 {
			n, err := mover.move(ctx, due, m.Held)
			switch {
			case errors.Is(err, ErrArchiveDamaged):
				failed = err
			case err != nil:
				return done, err
			default:
				done.Moved, done.Kept = done.Moved+n, done.Kept-n
			}
			due = due[n:]
		}
	}
	return done, failed
}

// move moves the first of some records, those that belong into one segment, and returns how many these are.
func (m mover[T]) move(ctx context.Context, due []*mvccpb.KeyValue, held []clientv3.Cmp) (int, error) {
	into, err := m.segmentFor(ctx, string(due[0].Key))
	if err != nil {
		return 0, err
	}
	due = due[:min(len(due), atOnce)]
	if m.t.Organization == "" {
		due = due[:min(len(due), keysAtOnce)]
	}
	if into != nil && string(due[0].Key) <= m.folder(m.t)+into.Last {
		n, _ := slices.BinarySearchFunc(due, m.folder(m.t)+into.Last,
			func(kv *mvccpb.KeyValue, last string) int { return cmp.Compare(string(kv.Key), last) })
		due = due[:max(n, 1)]
	}
	n, err := m.portion(ctx, due)
	if err != nil {
		return 0, err
	}
	due = due[:n]
	lines, err := m.lines(ctx, due)
	if err != nil {
		return 0, err
	}
	into, old, err := m.beside(ctx, into, lines)
	if errors.Is(err, ErrArchiveDamaged) {
		return len(due), err
	} else if err != nil {
		return 0, err
	}
	txn := m.s.Begin()
	for _, l := range lines {
		r, err := m.recordOf(m.t, l)
		if err != nil {
			return 0, err
		}
		txn.recount(m.t, r.counted, counted{})
	}
	if err := m.moveParts(ctx, txn, lines); err != nil {
		return 0, err
	}
	lines = append(lines, old...)
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.Key, b.Key) })
	txn.Require(held...)
	if err := m.putSegments(ctx, txn, lines, into); err != nil {
		return 0, err
	}
	for _, kv := range due {
		txn.Require(clientv3.Compare(clientv3.ModRevision(string(kv.Key)), "=", kv.ModRevision))
		m.delete(txn, string(kv.Key))
	}
	return len(due), txn.Commit(ctx)
}

// beside returns the segment that lines are to join, and its lines. It returns nil if the segment is damaged and
// they can have one of their own.
func (m mover[T]) beside(ctx context.Context, into *Segment, lines []line) (*Segment, []line, error) {
	if into == nil {
		return nil, nil, nil
	}
	old, err := m.s.archive.read(ctx, into, m.header(m.t))
	outside := lines[0].Key > into.Last || lines[len(lines)-1].Key < into.First
	if errors.Is(err, ErrArchiveDamaged) && outside {
		return nil, nil, nil
	}
	return into, old, err
}

// putSegments writes segments of lines, and has a transaction put them in the place of one, if that is not nil.
func (m mover[T]) putSegments(ctx context.Context, txn *Txn, lines []line, into *Segment) error {
	replaced := map[string]bool{}
	for _, some := range full(lines) {
		segment, err := m.writeSegment(ctx, some, m.Name)
		if err != nil {
			return err
		}
		value, err := json.Marshal(segment)
		if err != nil {
			return err
		}
		replaced[segment.key] = true
		txn.Count(Owner{Tenant: m.t}, segment.Counts)
		txn.Do(clientv3.OpPut(segment.key, string(value)))
	}
	if into != nil {
		txn.Require(clientv3.Compare(clientv3.ModRevision(into.key), "=", into.revision))
		txn.Count(Owner{Tenant: m.t}, Amounts{}.minus(into.Counts))
		if !replaced[into.key] {
			txn.Do(clientv3.OpDelete(into.key))
		}
	}
	return nil
}

// segmentFor returns the segment that a record belongs into: the first that ends after it, or else the last; or nil.
func (m mover[T]) segmentFor(ctx context.Context, key string) (*Segment, error) {
	folder := m.segmentAt(m.folder(m.t))
	end := clientv3.GetPrefixRangeEnd(folder)
	r, err := m.s.snapshot(ctx,
		clientv3.OpGet(m.segmentAt(key), clientv3.WithRange(end), clientv3.WithLimit(1)),
		clientv3.OpGet(folder, clientv3.WithRange(end), clientv3.WithLimit(1),
			clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend)),
	)
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", m.Name, err)
	}
	for _, found := range r.Responses {
		if kvs := found.GetResponseRange().GetKvs(); len(kvs) > 0 {
			return parseSegment(kvs[0])
		}
	}
	return nil, nil
}

// lines returns records as a segment has them.
func (m mover[T]) lines(ctx context.Context, due []*mvccpb.KeyValue) ([]line, error) {
	once := map[string][]byte{}
	if m.Once != nil {
		ops := make([]clientv3.Op, 0, len(due))
		for _, kv := range due {
			ops = append(ops, clientv3.OpGet(onceKey(string(kv.Key))))
		}
		r, err := m.s.snapshot(ctx, ops...)
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", m.Name, err)
		}
		for _, found := range r.Responses {
			for _, kv := range found.GetResponseRange().GetKvs() {
				once[string(kv.Key)] = kv.Value
			}
		}
	}
	lines := make([]line, 0, len(due))
	for _, kv := range due {
		one, err := m.decode(kv, nil)
		if err != nil {
			return nil, err
		}
		key := string(kv.Key)
		lines = append(lines, line{Key: key[len(m.folder(m.t)):], Record: kv.Value, Once: once[onceKey(key)],
			Ended: m.ended(&one.Value)})
	}
	return lines, nil
}

// full cuts lines into segments. Only the newest is not full.
func full(lines []line) (parts [][]line) {
	size, last := 0, len(lines)
	for i := len(lines) - 1; i >= 0; i-- {
		if n := lines[i].size(); i+1 < last && (last-i > maxRecords || size+n > maxSegment) {
			parts = append(parts, lines[i+1:last])
			size, last = 0, i+1
		}
		size += lines[i].size()
	}
	return append(parts, lines[:last])
}

// writeSegment writes lines into a folder of the archive.
func (m mover[T]) writeSegment(ctx context.Context, lines []line, folder string) (*Segment, error) {
	segment := &Segment{Blob: archiveBlobs + folder + "/" + id.Bare(), Tenant: m.t, Records: len(lines),
		First: lines[0].Key, Last: lines[len(lines)-1].Key}
	segment.key = m.segmentAt(m.folder(m.t) + segment.Last)
	for _, l := range lines {
		segment.Ended = max(segment.Ended, l.Ended)
		segment.Bytes += l.size()
		r, err := m.recordOf(m.t, l)
		if err != nil {
			return nil, err
		}
		segment.Counts = segment.Counts.plus(archivedCounts(m.t, r.counted.amounts))
	}
	return segment, m.s.archive.write(ctx, segment.Blob, m.header(m.t), lines)
}

// recordOf returns the record of a line of the tenant's.
func (k Kind[T]) recordOf(t Tenant, l line) (*Record[T], error) {
	r, err := k.decode(&mvccpb.KeyValue{Key: []byte(k.folder(t) + l.Key), Value: l.Record, ModRevision: archivedRevision},
		l.Once)
	if err == nil {
		r.parts = l.Parts
	}
	return r, err
}

// ended returns since when an object is over, or 0.
func (m mover[T]) ended(v *T) int64 {
	if m.Ended == nil {
		return 0
	}
	return m.Ended(v)
}

// archivedCounts is what an object counts for in the archive: it takes no room in etcd. Of keys without an
// organization, whose objects a segment mixes, it counts for nothing any more.
func archivedCounts(t Tenant, a Amounts) Amounts {
	if t.Organization == "" {
		return Amounts{}
	}
	a[RecordBytes] = 0
	return a
}
