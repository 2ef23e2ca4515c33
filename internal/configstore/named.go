package configstore

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// getsAtOnce is how many objects are read in one transaction: less than etcd's --max-txn-ops.
const getsAtOnce = 100

// Named returns those of the named objects of a kind that there are, in the order of the names. They are read by a
// hundred, each hundred at one revision.
func (s *Store) Named(ctx context.Context, kind configv1.Kind, names []string) ([]Entry, error) {
	var all []Entry
	for some := range slices.Chunk(names, getsAtOnce) {
		gets := make([]clientv3.Op, len(some))
		for i, name := range some {
			gets[i] = clientv3.OpGet(keyOf(kind, name))
		}
		r, err := s.read(ctx, gets...)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", kind.Plural, err)
		}
		for _, part := range r.Responses {
			all = append(all, s.entries(part.GetResponseRange().GetKvs())...)
		}
	}
	return all, nil
}
