package store

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A Page is a part of a list: up to Limit objects that come after the one with the id After, or from the beginning. That
// object need not be there any more: its id alone says where it was.
type Page struct {
	After     string
	Limit     int
	Ascending bool // oldest first
}

// chunk is how many records one read asks etcd for at most.
const chunk = 500

// List returns a page of the tenant's objects, newest first unless the page says otherwise, and whether more follow. Keep,
// where it is not nil, says which objects there are. Reading oldest first costs etcd a walk over all of the tenant's. The
// error is ErrCursor where After is no id of the kind.
func (k Kind[T]) List(ctx context.Context, s *Store, t Tenant, p Page, keep func(*Record[T]) bool) (page []*Record[T], more bool, err error) {
	from := k.folder(t)
	end := clientv3.GetPrefixRangeEnd(from)
	if p.After != "" {
		at, ok := k.key(t, p.After)
		if !ok {
			return nil, false, ErrCursor
		}
		if p.Ascending {
			end = at
		} else {
			from = at + "\x00"
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.timeout)
	defer cancel()
	for {
		limit := min(int64(p.Limit-len(page)+1), chunk)
		options := []clientv3.OpOption{clientv3.WithRange(end), clientv3.WithLimit(limit)}
		if p.Ascending {
			options = append(options, clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
		}
		r, err := s.etcd.Get(ctx, from, options...)
		if err != nil {
			return nil, false, fmt.Errorf("list %s: %w", k.Name, err)
		}
		for _, kv := range r.Kvs {
			record, err := k.decode(kv.Key, kv.Value, kv.ModRevision)
			if err != nil {
				return nil, false, err
			}
			if keep != nil && !keep(record) {
				continue
			}
			if len(page) == p.Limit {
				return page, true, nil
			}
			page = append(page, record)
		}
		if !r.More {
			return page, false, nil
		}
		last := string(r.Kvs[len(r.Kvs)-1].Key)
		if p.Ascending {
			end = last
		} else {
			from = last + "\x00"
		}
	}
}
