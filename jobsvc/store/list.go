package store

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/jobsvc/memory"
)

// A Page is a part of a list: up to Limit objects that come after the one with the id After, or from the beginning.
// That object need not be there any more: its id alone says where it was.
type Page struct {
	After     string
	Limit     int
	Ascending bool // oldest first
	// Until is the id of the oldest object of interest, if newest come first. It may be empty.
	Until string
}

// chunk is how many records one read asks etcd for at most.
const chunk = 500

// recordCopies is how often a record is in memory: as etcd has it, as it is decoded, and in the answer.
const recordCopies = 3

// A lister reads a page of a tenant's objects.
type lister[T any] struct {
	Kind[T]
	s *Store
	t Tenant
	p Page
}

// List returns a page of the tenant's objects, newest first unless the page says otherwise, and whether more
// follow. Keep, unless it is nil, filters objects. Reading oldest first costs etcd a walk over all of the tenant's.
// The error is ErrCursor if After is no id of the kind. Of a kind whose objects are archived, only newest first
// can be had.
func (k Kind[T]) List(ctx context.Context, s *Store, t Tenant, p Page, keep func(*Record[T]) bool) (page []*Record[T],
	more bool, err error) {
	l := lister[T]{k, s, t, p}
	from, end, err := l.rangeOf()
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.timeout)
	defer cancel()
	for {
		got, err := l.next(ctx, from, end, keep == nil && len(page) == p.Limit, p.Limit-len(page)+1)
		if err != nil {
			return nil, false, fmt.Errorf("list %s: %w", k.Name, err)
		}
		memory.Of(ctx).Owe(recordCopies * got.bytes)
		for _, record := range got.records {
			if keep != nil && !keep(record) {
				continue
			}
			if len(page) == p.Limit {
				return page, true, nil
			}
			page = append(page, record)
		}
		if !got.more {
			return page, got.unread, nil
		}
		if p.Ascending {
			end, _ = k.key(t, got.records[len(got.records)-1].ID)
		} else {
			from = got.next
		}
	}
}

// rangeOf returns the range of keys of a page.
func (l lister[T]) rangeOf() (from, end string, err error) {
	from = l.folder(l.t)
	end = clientv3.GetPrefixRangeEnd(from)
	if (l.Ended != nil || l.owner != nil) && l.p.Ascending {
		return "", "", fmt.Errorf("list %s: the archive is read newest first", l.Name)
	}
	if l.p.After != "" {
		at, ok := l.key(l.t, l.p.After)
		switch {
		case !ok:
			return "", "", ErrCursor
		case l.p.Ascending:
			end = at
		default:
			from = at + "\x00"
		}
	}
	if at, ok := l.key(l.t, l.p.Until); ok {
		end = at + "\x00"
	}
	return from, end, nil
}

// next reads the beginning of a range, up to so many records of etcd's, with the archive's part of it. If only the
// existence of an object matters, it does not read the archive.
func (l lister[T]) next(ctx context.Context, from, end string, any bool, most int) (span[T], error) {
	options := []clientv3.OpOption{clientv3.WithLimit(min(int64(most), chunk))}
	if l.p.Ascending {
		options = append(options, clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
	}
	for tries := 1; ; tries++ {
		got, err := l.read(ctx, l.s, l.t, from, end, options...)
		if err != nil || l.s.archive == nil || got.segment == nil {
			return got, err
		}
		if first := l.folder(l.t) + got.segment.First; any && from <= first && first < end {
			return span[T]{records: got.records, unread: true}, nil
		}
		if got, err = l.withArchived(ctx, l.s, l.t, got, from, end); !errors.Is(err, errMoved) || tries == maxMoved {
			return got, err
		}
	}
}
