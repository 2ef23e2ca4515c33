package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// maxMoved is how often a read begins again because what it was to read was moved meanwhile.
const maxMoved = 5

// segmentAt returns the key of a segment whose last record has the key.
func (k Kind[T]) segmentAt(key string) string { return segmentsRoot + key[len(Root):] }

// withArchived adds to what etcd has of a range what the first segment has of it, and bounds it to where that is all.
func (k Kind[T]) withArchived(ctx context.Context, s *Store, t Tenant, got span[T], from, end string) (span[T],
	error) {
	folder := k.folder(t)
	if got.more {
		end = got.next
	}
	if s.archive == nil || got.segment == nil || folder+got.segment.First >= end {
		return got, nil
	}
	if n := k.newer(got.records, folder+got.segment.First); n > 0 { // they need no segment
		return span[T]{records: got.records[:n], more: true, next: folder + got.segment.First}, nil
	}
	lines, err := s.archive.read(ctx, got.segment, k.header(t))
	if errors.Is(err, ErrArchiveDamaged) && got.segment.key != "" {
		now, readErr := s.etcd.Get(ctx, got.segment.key)
		if readErr == nil && (len(now.Kvs) == 0 || now.Kvs[0].ModRevision != got.segment.revision) {
			err = errMoved
		}
	}
	if err != nil {
		return got, err
	}
	bounded := span[T]{more: got.more, next: got.next}
	if last := folder + got.segment.Last + "\x00"; last < end {
		end, bounded.more, bounded.next = last, true, last
	}
	for _, r := range got.records {
		if key, _ := k.key(t, r.ID); key < end {
			bounded.records = append(bounded.records, r)
		}
	}
	for _, l := range lines {
		if key := folder + l.Key; key >= from && key < end {
			r, err := k.recordOf(t, l)
			if err != nil {
				return got, &ArchiveError{got.segment.Blob, fmt.Errorf("%w: %w", ErrArchiveDamaged, err)}
			}
			bounded.records = append(bounded.records, r)
		}
	}
	slices.SortFunc(bounded.records, func(a, b *Record[T]) int {
		return strings.Compare(k.sortable(a.ID), k.sortable(b.ID))
	})
	return bounded, nil
}

// newer returns how many records come before a key.
func (k Kind[T]) newer(records []*Record[T], key string) int {
	n := slices.IndexFunc(records, func(r *Record[T]) bool { at, _ := k.key(r.Tenant, r.ID); return at >= key })
	if n < 0 {
		return len(records)
	}
	return n
}

// archivedRevision is the revision of archived records: no write can require it.
const archivedRevision = -1

// sortable returns the part of a record's key that is its own.
func (k Kind[T]) sortable(objectID string) string {
	key, _ := k.key(Tenant{}, objectID)
	return key[strings.LastIndexByte(key, '/')+1:]
}

// Segments calls f for each segment of the kind that an organization or a project has, or all where the account is
// empty, by tenant, newest first.
func (k Kind[T]) Segments(ctx context.Context, s *Store, of Account, f func(*Segment) error) error {
	from := segmentsRoot + k.Name + "/"
	if of.Organization != "" {
		from += url.QueryEscape(of.Organization) + "/"
	}
	if of.Project != "" {
		from += url.QueryEscape(of.Project) + "/"
	}
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		r, err := s.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(chunk))
		if err != nil {
			return fmt.Errorf("list the archive of %s: %w", k.Name, err)
		}
		for _, kv := range r.Kvs {
			segment, err := parseSegment(kv)
			if err == nil {
				err = f(segment)
			}
			if err != nil {
				return err
			}
			from = string(kv.Key) + "\x00"
		}
		if !r.More {
			return nil
		}
	}
}
