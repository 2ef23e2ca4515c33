package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A collector removes the blobs of the archive that nothing names.
type collector[T any] struct {
	Kind[T]
	s *Store
}

// Retire removes the segments all of whose objects were over by a time, as Unix time in seconds, and returns how
// many objects that were. Each transaction requires the comparisons in held, and includes the additions of release,
// which may be nil.
func (k Kind[T]) Retire(ctx context.Context, s *Store, before int64, held []clientv3.Cmp,
	release func(*Txn, *Segment)) (objects int, err error) {
	err = k.Segments(ctx, s, Account{}, func(of *Segment) error {
		if of.Ended > before {
			return nil
		}
		txn := s.Begin()
		txn.Require(held...)
		txn.Require(clientv3.Compare(clientv3.ModRevision(of.key), "=", of.revision))
		txn.Do(clientv3.OpDelete(of.key))
		txn.Count(Owner{Tenant: of.Tenant}, Amounts{}.minus(of.Counts))
		if release != nil {
			release(txn, of)
		}
		if err := txn.Commit(ctx); err != nil {
			return err
		}
		objects += of.Records
		_ = s.archive.bucket.Delete(ctx, of.Blob) // or else it is collected
		return nil
	})
	return objects, err
}

// CollectArchive removes the blobs of the kind's segments that nothing names: replaced ones, those of retired
// objects' parts, and those whose writer was killed before it could name them.
func (k Kind[T]) CollectArchive(ctx context.Context, s *Store, now time.Time) error {
	old, err := s.archive.old(ctx, archiveBlobs+k.Name+"/", now)
	if err != nil {
		return err
	}
	named := map[string]bool{} // read after the list: what is old and not named then will not be
	if err := k.Segments(ctx, s, Account{}, func(of *Segment) error { named[of.Blob] = true; return nil }); err != nil {
		return err
	}
	for _, name := range old {
		if named[name] {
			continue
		}
		if err := s.archive.remove(ctx, name); err != nil {
			return err
		}
	}
	return collector[T]{k, s}.collectParts(ctx, now)
}

// collectParts removes the blobs of parts whose object is in no segment: it was retired, or they were written by a
// process that was killed before it could name them.
func (c collector[T]) collectParts(ctx context.Context, now time.Time) error {
	for _, parts := range c.Parts {
		root := archiveBlobs + parts.name() + "/"
		old, err := c.s.archive.old(ctx, root, now)
		if err != nil {
			return err
		}
		segments, err := c.segmentsNow(ctx) // read after the list: what is old and in none of them then will not be
		if err != nil {
			return err
		}
		for _, name := range old {
			of, rest, _ := strings.Cut(strings.TrimPrefix(name, root), "/")
			key, _, ok := strings.Cut(rest, "/")
			in := func(of *Segment) bool { return of.First <= key && key <= of.Last }
			if !ok || slices.ContainsFunc(segments[of], in) {
				continue
			}
			if err := c.s.archive.remove(ctx, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// segmentsNow returns all segments of the kind as they are at one revision, by the tags of their tenants.
func (c collector[T]) segmentsNow(ctx context.Context) (map[string][]*Segment, error) {
	now, err := c.s.etcd.Get(ctx, segmentsRoot, clientv3.WithCountOnly())
	if err != nil {
		return nil, fmt.Errorf("list the archive of %s: %w", c.Name, err)
	}
	all := map[string][]*Segment{}
	return all, c.s.scan(ctx, segmentsRoot+c.Name+"/", now.Header.Revision, func(kv *mvccpb.KeyValue) error {
		of, err := parseSegment(kv)
		if err == nil {
			all[tag(of.Tenant)] = append(all[tag(of.Tenant)], of)
		}
		return err
	})
}
