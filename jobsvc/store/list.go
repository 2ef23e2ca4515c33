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

// List returns a page of the tenant's objects, newest first unless the page says otherwise, and whether more
// follow. Keep, unless it is nil, filters objects. Reading oldest first costs etcd a walk over all of the tenant's.
// The error is ErrCursor if After is no id of the kind. Of a kind whose objects are archived, only newest first
// can be had.
func (k Kind[T]) List(ctx context.Context, s *Store, t Tenant, p Page, keep func(*Record[T]) bool) (page []*Record[T],
	more bool, err error) {
	from, end, err := k.rangeOf(t, p)
	if err != nil {
		return nil, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.timeout)
	defer cancel()
	for {
		got, err := k.next(ctx, s, t, from, end, p, keep == nil && len(page) == p.Limit, p.Limit-len(page)+1)
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
func (k Kind[T]) rangeOf(t Tenant, p Page) (from, end string, err error) {
	from = k.folder(t)
	end = clientv3.GetPrefixRangeEnd(from)
	if (k.Ended != nil || k.owner != nil) && p.Ascending {
		return "", "", fmt.Errorf("list %s: the archive is read newest first", k.Name)
	}
	if p.After != "" {
		at, ok := k.key(t, p.After)
		switch {
		case !ok:
			return "", "", ErrCursor
		case p.Ascending:
			end = at
		default:
			from = at + "\x00"
		}
	}
	if at, ok := k.key(t, p.Until); ok {
		end = at + "\x00"
	}
	return from, end, nil
}

// next reads the beginning of a range, up to so many records of etcd's, with the archive's part of it. If only the
// existence of an object matters, it does not read the archive.
func (k Kind[T]) next(ctx context.Context, s *Store, t Tenant, from, end string, p Page, any bool, most int) (span[T],
	error) {
	options := []clientv3.OpOption{clientv3.WithLimit(min(int64(most), chunk))}
	if p.Ascending {
		options = append(options, clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
	}
	for tries := 1; ; tries++ {
		got, err := k.read(ctx, s, t, from, end, options...)
		if err != nil || s.archive == nil || got.segment == nil {
			return got, err
		}
		if first := k.folder(t) + got.segment.First; any && from <= first && first < end {
			return span[T]{records: got.records, unread: true}, nil
		}
		if got, err = k.withArchived(ctx, s, t, got, from, end); !errors.Is(err, errMoved) || tries == maxMoved {
			return got, err
		}
	}
}
