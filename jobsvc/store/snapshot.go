package store

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/internal/timing"
)

// readAgain is the pause before something is read again, as etcd's client has it.
const readAgain = 25 * time.Millisecond

// snapshot reads all that ops read, as it was at one revision. If etcd changes its leader it reads again, until ctx
// ends. Etcd's client does so for a single read, but not for a transaction: it does not see that the transaction
// only reads.
func (s *Store) snapshot(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	for {
		r, err := s.etcd.Txn(ctx).Then(ops...).Commit()
		if err == nil || !passes(err) {
			return r, err
		}
		if timing.Sleep(ctx, readAgain) != nil {
			return nil, err
		}
	}
}

// passes reports whether an error of a read says that etcd, or a member of it, is unavailable for the moment.
func passes(err error) bool {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code() == codes.Unavailable
	}
	return status.Code(err) == codes.Unavailable
}
