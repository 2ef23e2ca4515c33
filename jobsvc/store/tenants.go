package store

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Tenants returns every tenant that has objects of the kind, in no order that means anything. It costs one read of one key for
// each, however many objects they have.
func (k Kind[T]) Tenants(ctx context.Context, s *Store) ([]Tenant, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.timeout)
	defer cancel()
	var tenants []Tenant
	from := Root + k.Name + "/"
	end := clientv3.GetPrefixRangeEnd(from)
	for {
		r, err := s.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1))
		if err != nil {
			return nil, fmt.Errorf("list who has %s: %w", k.Name, err)
		}
		if len(r.Kvs) == 0 {
			return tenants, nil
		}
		record, err := k.decode(r.Kvs[0].Key, r.Kvs[0].Value, r.Kvs[0].ModRevision)
		if err != nil {
			return nil, err
		}
		tenants = append(tenants, record.Tenant)
		from = clientv3.GetPrefixRangeEnd(k.folder(record.Tenant))
	}
}
