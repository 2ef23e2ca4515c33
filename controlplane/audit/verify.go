package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	verifyAtOnce = 500
	// VerifyTimeout bounds the time that [Log.Verify] may take.
	VerifyTimeout = 10 * time.Minute
	// verifyRounds bounds how often a log is followed that grows while it is read, and verifyTries how often it is read
	// anew because its beginning was deleted meanwhile.
	verifyRounds = 1000
	verifyTries  = 3
)

var errGrows = errors.New("the audit log grows faster than it can be read")

// Verify reads the whole log, page by page, and says whether it is unchanged. Noted is the hash of an earlier head
// that the log must contain. It may be empty.
func (a *Log) Verify(ctx context.Context, noted string) (adminapi.AuditVerification, error) {
	for try := 1; ; try++ {
		found, err := a.verify(ctx, noted)
		if err != nil || found.Break == nil || try == verifyTries {
			return found, err
		}
		begins, err := a.begins(ctx)
		if err != nil || begins <= found.First {
			return found, err
		}
	}
}

// begins returns the sequence of the oldest entry in the store.
func (a *Log) begins(ctx context.Context) (int64, error) {
	if a.store == nil {
		return 0, nil
	}
	oldest, _, err := a.store.AuditEnds(ctx)
	if err != nil {
		return 0, ledger.Unavailable(err)
	}
	return oldest.Sequence, nil
}

// verify reads the log once: first what is in the store, which may take long. What is in etcd is then read as it is at
// one revision, with the head, and what is not in etcd at it is in the store. If the store is ahead of the head,
// more was written meanwhile, and the rest is read.
func (a *Log) verify(ctx context.Context, noted string) (adminapi.AuditVerification, error) {
	none := adminapi.AuditVerification{}
	v := auditchain.NewVerifier(noted)
	if err := a.verifyStore(ctx, v, true); err != nil {
		return none, err
	}
	var before chainHead
	for n := range verifyRounds {
		head, revision, err := a.settledHead(ctx)
		if err != nil {
			return none, err
		}
		if err := a.verifyStore(ctx, v, false); err != nil {
			return none, err
		}
		err = a.verifyOutbox(ctx, v, revision, n == 0)
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			return none, err
		}
		if err == nil && (v.Newest().Sequence <= head.Sequence || n > 0 && head.value == before.value) {
			return v.End(head.Head), nil
		}
		before = head
	}
	return none, errGrows
}

// settledHead returns the head in etcd at a revision at which no staged changes are being made: their entries would be
// missing. A head that cannot be read is none.
func (a *Log) settledHead(ctx context.Context) (head chainHead, revision int64, err error) {
	for {
		if err := configstore.Settle(ctx, a.etcd); err != nil {
			return head, 0, err
		}
		r, err := a.etcd.Txn(ctx).Then(clientv3.OpGet(configstore.AuditHeadKey),
			clientv3.OpGet(configstore.RestoringKey, clientv3.WithCountOnly())).Commit()
		if err != nil {
			return head, 0, fmt.Errorf("read the head of the audit log: %w", err)
		}
		if r.Responses[1].GetResponseRange().GetCount() > 0 {
			continue
		}
		return headOf(r.Responses[0].GetResponseRange().GetKvs()), r.Header.Revision, nil
	}
}

// headOf reads the head as it is in etcd. One that cannot be read is none.
func headOf(kvs []*mvccpb.KeyValue) (head chainHead) {
	for _, kv := range kvs {
		head.value = string(kv.Value)
		if json.Unmarshal(kv.Value, &head.Head) != nil {
			head.Head = auditchain.Head{}
		}
	}
	return head
}

// verifyStore reads the entries in the store: first all of them, later those that have joined the chain since.
func (a *Log) verifyStore(ctx context.Context, v *auditchain.Verifier, all bool) error {
	for after := v.Newest().ID; a.store != nil; {
		page, err := a.store.AuditAfter(ctx, after, verifyAtOnce)
		if err != nil {
			return ledger.Unavailable(err)
		}
		for _, e := range page {
			if all || e.Sequence > v.Newest().Sequence {
				v.Add(e)
			}
			after = e.ID
		}
		if len(page) < verifyAtOnce {
			break
		}
	}
	return nil
}

// verifyOutbox reads what is in etcd at a revision and not in the store.
func (a *Log) verifyOutbox(ctx context.Context, v *auditchain.Verifier, revision int64, all bool) error {
	return a.eachWaiting(ctx, revision, func(e adminapi.AuditEntry) {
		if e.Sequence > v.Newest().Sequence || all && e.Sequence == 0 {
			v.Add(e)
		}
	})
}

// eachWaiting calls f for the entries of the outbox at a revision, by ascending key.
func (a *Log) eachWaiting(ctx context.Context, revision int64,
	f func(adminapi.AuditEntry)) error {
	end := clientv3.GetPrefixRangeEnd(outbox)
	for from := outbox; ; {
		r, err := a.etcd.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(scanAtOnce), clientv3.WithRev(revision))
		if err != nil {
			return fmt.Errorf("read the audit log: %w", err)
		}
		for _, kv := range r.Kvs {
			for _, e := range entriesOf(kv) {
				f(e)
			}
			from = string(kv.Key) + "\x00"
		}
		if !r.More {
			return nil
		}
	}
}
