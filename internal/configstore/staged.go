package configstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
)

// Changes that are more than a transaction takes are written in three steps, as a database writes its journal:
//
//  1. They are staged in pieces beside the configuration, where nobody reads them.
//  2. One transaction, which compares what every write compares, puts the mark: from now on they will be made.
//  3. The pieces are made, one transaction each, and the last one takes the mark away.
//
// While the mark is there nobody reads or writes the configuration: readers and writers wait for the process that
// makes the changes. If it has died, they make them themselves. Followers keep their state. Control planes of
// versions without staging take the mark for a running restore, and keep their state, too.
const (
	stagedPrefix = "/modelgate/staged/"
	// ownersPrefix is the prefix of the keys of processes that stage or make changes. Each key has a lease.
	ownersPrefix = "/modelgate/staged.owners/"
	// applying is the prefix of RestoringKey's value while staged changes are made.
	applying = "apply "
	// pieceBytes is the size of a piece's operations in a request, which is a little more than what is staged of them.
	pieceBytes = 1_000_000
	// ownerSeconds is how long the others wait for one who may have died.
	ownerSeconds  = 10
	settlePause   = 20 * time.Millisecond
	finishTimeout = time.Minute
	// tidyTimeout bounds what is done behind a request.
	tidyTimeout = 5 * time.Second
	// statusTimeout is how long a member of etcd may take to say how full it is.
	statusTimeout = time.Second
)

// ErrUnfinished is of changes that are decided, and that etcd did not take all of yet. Nobody sees a part of them.
var ErrUnfinished = errors.New(
	"the changes are decided and not all written; the control planes write the rest as soon as etcd takes it")

// stage makes changes that do not fit a transaction. The transaction that decides also does the operations in now.
// The returned revision is the last piece's or later, so that the history records all of them at it: a follower
// that has reached it has all changes. If it cannot be learned, it is the mark's revision.
func (s *Store) stage(ctx context.Context, compare []clientv3.Cmp, now, ops []clientv3.Op) (int64, error) {
	pieces, total, err := piecesOf(ops)
	if err != nil {
		return 0, err
	}
	if err := roomFor(ctx, s.etcd, total); err != nil {
		return 0, err
	}
	sweep(ctx, s.etcd)
	lease, err := s.etcd.Grant(ctx, ownerSeconds)
	if err != nil {
		return 0, err
	}
	kept, release := context.WithCancel(context.WithoutCancel(ctx))
	alive, err := s.etcd.KeepAlive(kept, lease.ID)
	defer func() {
		release()
		last, done := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
		defer done()
		_, _ = s.etcd.Revoke(last, lease.ID) // else it ends by itself
	}()
	if err != nil {
		return 0, err
	}
	go func() {
		for range alive { // until release; the library wants it read
		}
	}()
	id := fmt.Sprintf("%016x", lease.ID)
	if _, err := s.etcd.Put(ctx, ownersPrefix+id, "", clientv3.WithLease(lease.ID)); err != nil {
		return 0, err
	}
	revision, err := s.stageAs(ctx, id, compare, now, pieces)
	if err != nil {
		discard(ctx, s.etcd, id)
		return 0, err
	}
	// It is decided: what fails now, whoever comes next does.
	finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if err := finish(finishing, s.etcd, id); err != nil {
		return revision, fmt.Errorf("%w: %w", ErrUnfinished, err)
	}
	made, err := s.etcd.Get(finishing, versionKey)
	if err != nil || len(made.Kvs) == 0 {
		return revision, nil // it is true of the mark, too
	}
	return made.Kvs[0].ModRevision, nil
}

// stageAs stages pieces and puts the mark.
func (s *Store) stageAs(ctx context.Context, id string, compare []clientv3.Cmp, now []clientv3.Op,
	pieces []string) (int64, error) {
	for i, piece := range pieces {
		if _, err := s.etcd.Put(ctx, fmt.Sprintf("%s%s/%06d", stagedPrefix, id, i), piece); err != nil {
			return 0, err
		}
	}
	compare = append(compare, clientv3.Compare(clientv3.CreateRevision(ownersPrefix+id), ">", 0))
	ops := append(slices.Clone(now), clientv3.OpPut(RestoringKey, applying+id))
	return s.commit(ctx, "stage changes", compare, ops...)
}

// piecesOf divides operations, and returns how large the pieces are together.
func piecesOf(ops []clientv3.Op) (pieces []string, total int, err error) {
	piece, size := &pb.TxnRequest{}, 0
	flush := func() error {
		value, err := proto.Marshal(piece)
		if err != nil {
			return err
		}
		pieces, total = append(pieces, string(value)), total+len(value)
		piece, size = &pb.TxnRequest{}, 0
		return nil
	}
	for _, op := range ops {
		more := len(op.KeyBytes()) + len(op.ValueBytes()) + overhead
		if size > 0 && size+more > pieceBytes {
			if err := flush(); err != nil {
				return nil, 0, err
			}
		}
		of := &pb.RequestOp{Request: &pb.RequestOp_RequestDeleteRange{RequestDeleteRange: &pb.DeleteRangeRequest{
			Key: op.KeyBytes()}}}
		if op.IsPut() {
			of.Request = &pb.RequestOp_RequestPut{RequestPut: &pb.PutRequest{Key: op.KeyBytes(), Value: op.ValueBytes()}}
		}
		piece.Success, size = append(piece.Success, of), size+more
	}
	return pieces, total, flush()
}

// operations returns those of a piece.
func operations(piece []byte) ([]clientv3.Op, error) {
	var txn pb.TxnRequest
	if err := proto.Unmarshal(piece, &txn); err != nil {
		return nil, err
	}
	ops := make([]clientv3.Op, len(txn.Success))
	for i, op := range txn.Success {
		if put := op.GetRequestPut(); put != nil {
			ops[i] = clientv3.OpPut(string(put.Key), string(put.Value))
		} else {
			ops[i] = clientv3.OpDelete(string(op.GetRequestDeleteRange().GetKey()))
		}
	}
	return ops, nil
}

// roomFor reports that etcd has no room for changes of so many bytes, which it holds twice: one that fills while they
// are made could not be changed any more.
func roomFor(ctx context.Context, etcd *clientv3.Client, bytes int) error {
	for _, endpoint := range etcd.Endpoints() {
		asking, cancel := context.WithTimeout(ctx, statusTimeout)
		status, err := etcd.Status(asking, endpoint)
		cancel()
		if err != nil {
			continue // other members report for unavailable ones, or the first write does
		}
		if quota := status.DbSizeQuota; quota > 0 && status.DbSizeInUse+3*int64(bytes) > quota {
			return rpctypes.ErrNoSpace
		}
	}
	return nil
}

// discard deletes pieces that were staged and not decided.
func discard(ctx context.Context, etcd *clientv3.Client, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTimeout)
	defer cancel()
	// The mark is not put any more once the owner is gone. Pieces that stay are swept before the next are staged.
	_, _ = etcd.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(RestoringKey), "=", 0)).
		Then(clientv3.OpDelete(stagedPrefix+id+"/", clientv3.WithPrefix()), clientv3.OpDelete(ownersPrefix+id)).Commit()
}

// sweep deletes what was staged by those who have died since, without the mark.
func sweep(ctx context.Context, etcd *clientv3.Client) {
	staged, err := etcd.Get(ctx, stagedPrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return
	}
	seen := map[string]bool{}
	for _, kv := range staged.Kvs {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(kv.Key), stagedPrefix), "/")
		if seen[id] {
			continue
		}
		seen[id] = true
		_, _ = etcd.Txn(ctx).If(
			clientv3.Compare(clientv3.CreateRevision(ownersPrefix+id), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(RestoringKey), "=", 0),
		).Then(clientv3.OpDelete(stagedPrefix+id+"/", clientv3.WithPrefix())).Commit()
	}
}

// finish makes staged changes that are decided. Any number may do so at once; the first that comes to the end takes
// the mark away.
func finish(ctx context.Context, etcd *clientv3.Client, id string) error {
	ours := clientv3.Compare(clientv3.Value(RestoringKey), "=", applying+id)
	staged, err := etcd.Get(ctx, stagedPrefix+id+"/", clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("read staged changes: %w", err)
	}
	for _, kv := range staged.Kvs {
		ops, err := operations(kv.Value)
		if err != nil {
			return fmt.Errorf("read staged changes of %s: %w", kv.Key, err)
		}
		r, err := etcd.Txn(ctx).If(ours).Then(nest(ops)...).Commit()
		if err != nil {
			return fmt.Errorf("make staged changes: %w", err)
		}
		if !r.Succeeded {
			return nil // another was faster
		}
	}
	_, err = etcd.Txn(ctx).If(ours).Then(
		clientv3.OpDelete(RestoringKey), clientv3.OpPut(versionKey, ""), clientv3.OpPut(keyVersionKey, ""),
		clientv3.OpDelete(stagedPrefix+id+"/", clientv3.WithPrefix()), clientv3.OpDelete(ownersPrefix+id),
	).Commit()
	if err != nil {
		return fmt.Errorf("make staged changes: %w", err)
	}
	return nil
}

// marked returns the id of the staged changes that a mark stands for, if it stands for any. If it stands for
// a restore, the error is ErrRestoring.
func marked(kvs []*mvccpb.KeyValue) (id string, is bool, err error) {
	if len(kvs) == 0 {
		return "", false, nil
	}
	if id, is = strings.CutPrefix(string(kvs[0].Value), applying); !is {
		return "", false, ErrRestoring
	}
	return id, true, nil
}

// read reads what no staged changes are half of.
func (s *Store) read(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	for {
		r, err := s.etcd.Txn(ctx).Then(append(ops, clientv3.OpGet(RestoringKey))...).Commit()
		if err != nil {
			return nil, err
		}
		if _, is, _ := marked(r.Responses[len(ops)].GetResponseRange().GetKvs()); !is {
			r.Responses = r.Responses[:len(ops)]
			return r, nil
		}
		if err := Settle(ctx, s.etcd); err != nil {
			return nil, err
		}
	}
}

// Settle returns when no staged changes are being made: it waits for the one who makes them, and makes them where that
// one has died. The error is ErrRestoring while a backup is being restored.
func Settle(ctx context.Context, etcd *clientv3.Client) error {
	for {
		r, err := etcd.Txn(ctx).Then(clientv3.OpGet(RestoringKey), clientv3.OpGet(ownersPrefix, clientv3.WithPrefix(),
			clientv3.WithKeysOnly())).Commit()
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		id, is, err := marked(r.Responses[0].GetResponseRange().GetKvs())
		if err != nil || !is {
			return err
		}
		owned := false
		for _, kv := range r.Responses[1].GetResponseRange().GetKvs() {
			owned = owned || string(kv.Key) == ownersPrefix+id
		}
		if !owned {
			if err := finish(ctx, etcd, id); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePause):
		}
	}
}
