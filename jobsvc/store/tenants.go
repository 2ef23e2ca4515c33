package store

import (
	"context"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Tenants returns every tenant that has objects of the kind, in no order that means anything. It costs one read of one
// key for each, however many objects they have.
func (k Kind[T]) Tenants(ctx context.Context, s *Store) ([]Tenant, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*s.timeout)
	defer cancel()
	tenants, err := tenantsBelow(ctx, s, Root, k.Name)
	if err != nil || k.Ended == nil || s.archive == nil {
		return tenants, err
	}
	archived, err := tenantsBelow(ctx, s, segmentsRoot, k.Name)
	if err != nil {
		return nil, err
	}
	known := map[Tenant]bool{}
	for _, t := range tenants {
		known[t] = true
	}
	for _, t := range archived {
		if !known[t] {
			tenants = append(tenants, t)
		}
	}
	return tenants, nil
}

// tenantsBelow returns the tenants with keys in the folder of a kind.
func tenantsBelow(ctx context.Context, s *Store, root, kind string) (tenants []Tenant, err error) {
	root += kind + "/"
	from := root
	end := clientv3.GetPrefixRangeEnd(root)
	for {
		r, err := s.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(1))
		if err != nil {
			return nil, fmt.Errorf("list who has %s: %w", kind, err)
		}
		if len(r.Kvs) == 0 {
			return tenants, nil
		}
		var of struct {
			Tenant Tenant `json:"tenant"`
		}
		if err := json.Unmarshal(r.Kvs[0].Value, &of); err != nil {
			return nil, fmt.Errorf("record %s: %w", r.Kvs[0].Key, err)
		}
		tenants = append(tenants, of.Tenant)
		from = clientv3.GetPrefixRangeEnd(root + of.Tenant.path())
	}
}
