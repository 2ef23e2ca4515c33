package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// partsAtOnce is how many parts one transaction removes from etcd, unless one object alone has more.
const partsAtOnce = 5000

// Parts are a kind whose objects belong to one object of another kind, and go to the archive with it. The Kind is
// used Under the object's id. They do not change unless the object does. Segments of parts have no key in etcd: the
// object's own line names them.
type Parts interface {
	name() string
	count(ctx context.Context, s *Store, t Tenant, owner string) (int64, error)
	moveAll(ctx context.Context, s *Store, txn *Txn, t Tenant, owner, folder string) ([]*Segment, error)
}

// An owner is whose parts a kind has.
type owner struct {
	key      string     // of its record in etcd, or empty
	segments []*Segment // those that its record in the archive names, by key
}

// ListParts returns a page of an object's parts, as List does, wherever they are by now.
func ListParts[O, T any](ctx context.Context, s *Store, owners Kind[O], of *Record[O], parts Kind[T],
	p Page) (page []*Record[T], more bool, err error) {
	for tries := 1; ; tries++ {
		k := parts.Under(of.ID)
		k.owner = &owner{segments: of.parts[parts.Name]}
		if of.Revision != archivedRevision {
			k.owner.key, _ = owners.key(of.Tenant, of.ID)
		}
		page, more, err = k.List(ctx, s, of.Tenant, p, nil)
		moved := errors.Is(err, errMoved) && tries < maxMoved
		if !moved && !errors.Is(err, ErrArchiveDamaged) {
			return page, more, err
		}
		now, gone := owners.Get(ctx, s, of.Tenant, of.ID)
		switch {
		case gone != nil:
			return nil, false, gone
		case !moved:
			return nil, false, err
		}
		of = now
	}
}

// segmentFrom returns the first segment that may have parts from a key on, or nil.
func (o *owner) segmentFrom(folder, from string) *Segment {
	for _, of := range o.segments {
		if folder+of.Last >= from {
			return of
		}
	}
	return nil
}

func (k Kind[T]) name() string { return k.Name }

func (k Kind[T]) count(ctx context.Context, s *Store, t Tenant, of string) (int64, error) {
	r, err := s.etcd.Get(ctx, k.Under(of).folder(t), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, fmt.Errorf("archive %s: %w", k.Name, err)
	}
	return r.Count, nil
}

// moveAll writes the parts of an object into segments in a folder of the archive, and has a transaction remove them
// from etcd, which requires that the object is as it was before.
func (k Kind[T]) moveAll(ctx context.Context, s *Store, txn *Txn, t Tenant, of, folder string) (segments []*Segment,
	err error) {
	under := mover[T]{k.Under(of), s, t}
	from := under.folder(t)
	end := clientv3.GetPrefixRangeEnd(from)
	for more := true; more; {
		r, err := s.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(chunk))
		if err != nil {
			return nil, fmt.Errorf("archive %s: %w", k.Name, err)
		}
		if more = r.More; len(r.Kvs) == 0 {
			break
		}
		from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
		lines, err := under.lines(ctx, r.Kvs)
		if err != nil {
			return nil, err
		}
		for _, some := range full(lines) {
			segment, err := under.writeSegment(ctx, some, k.Name+"/"+folder)
			if err != nil {
				return nil, err
			}
			segments = append(segments, segment)
		}
	}
	slices.SortFunc(segments, func(a, b *Segment) int { return strings.Compare(a.Last, b.Last) })
	if len(segments) > 0 {
		under.DeleteAll(txn, t)
	}
	return segments, nil
}

// portion returns how many of some records can be moved at once because of their parts.
func (m mover[T]) portion(ctx context.Context, due []*mvccpb.KeyValue) (int, error) {
	sum := int64(0)
	for i, kv := range due {
		one, err := m.decode(kv, nil)
		if err != nil {
			return 0, err
		}
		for _, parts := range m.Parts {
			n, err := parts.count(ctx, m.s, m.t, one.ID)
			if err != nil {
				return 0, err
			}
			sum += n
		}
		if sum > partsAtOnce && i > 0 {
			return i, nil
		}
	}
	return len(due), nil
}

// moveParts moves what belongs to the objects of some lines, and has these name it.
func (m mover[T]) moveParts(ctx context.Context, txn *Txn, lines []line) error {
	for i := range lines {
		for _, parts := range m.Parts {
			r, err := m.recordOf(m.t, lines[i])
			if err != nil {
				return err
			}
			segments, err := parts.moveAll(ctx, m.s, txn, m.t, r.ID, tag(m.t)+"/"+lines[i].Key)
			if err != nil {
				return err
			}
			if len(segments) > 0 {
				if lines[i].Parts == nil {
					lines[i].Parts = map[string][]*Segment{}
				}
				lines[i].Parts[parts.name()] = segments
			}
		}
	}
	return nil
}

// tag names a tenant in the names of blobs.
func tag(t Tenant) string {
	sum := sha256.Sum256([]byte(t.path()))
	return hex.EncodeToString(sum[:16])
}
