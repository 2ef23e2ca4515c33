package audit

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/configstore"
)

// HeadSequence returns the sequence of the newest entry of the chain; 0: there is none.
func (a *Log) HeadSequence(ctx context.Context) (int64, error) {
	r, err := a.etcd.Get(ctx, configstore.AuditHeadKey)
	if err != nil {
		return 0, fmt.Errorf("read the head of the audit log: %w", err)
	}
	return headOf(r.Kvs).Sequence, nil
}

// Pending reports whether entries of the chain up to a sequence may be on their way to the store: they wait in etcd,
// or are among changes that are being made in pieces. What is not pending, and has been written, is in the store.
func (a *Log) Pending(ctx context.Context, sequence int64) (bool, error) {
	r, err := a.etcd.Txn(ctx).Then(clientv3.OpGet(configstore.RestoringKey, clientv3.WithCountOnly()),
		clientv3.OpGet(outbox, clientv3.WithFirstKey()...)).Commit()
	if err != nil {
		return false, fmt.Errorf("read the audit log: %w", err)
	}
	if r.Responses[0].GetResponseRange().GetCount() > 0 {
		return true, nil
	}
	for _, kv := range r.Responses[1].GetResponseRange().GetKvs() {
		if entriesOf(kv)[0].Sequence <= sequence { // also of one that cannot be read
			return true, nil
		}
	}
	return false, nil
}

// Sinks are where the audit log is delivered. It must be safe for concurrent use.
type Sinks interface {
	// Sinks returns how far it was delivered to each, by name.
	Sinks(ctx context.Context) ([]adminapi.AuditSinkStatus, error)
}
