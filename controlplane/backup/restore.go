package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// putsAtOnce and bytesAtOnce bound a transaction: etcd takes 128 operations and 1.5 MiB at once.
	putsAtOnce  = 100
	bytesAtOnce = 512 << 10
)

// Errors of restoring. In all of these cases nothing was changed.
var (
	ErrOtherRoot = errors.New(
		"the backup was made under another root secret (--pepper): keys could not be checked, nor sealed credentials opened")
	ErrNotEmpty = errors.New("etcd is not empty: it holds a gateway already, or a part of another backup; a backup is restored into an etcd of its own")
	ErrLedger   = errors.New("the backup has a ledger, and it was not said where that goes")
	ErrNoLedger = errors.New("the backup has no ledger")
)

// A Target is the empty installation that a backup is restored into.
type Target struct {
	Etcd *clientv3.Client
	// Ledger must be empty. Nil: it is left out.
	Ledger *ledger.Ledger
	// WithoutLedger says that it is left out on purpose.
	WithoutLedger bool
	// Root is the fingerprint of the root secret that is there.
	Root string
}

// Restore restores a backup into an empty etcd and an empty ledger. The file is read to its end before anything is
// written. Running control planes take nothing from it until everything is there. If it fails midway they take
// nothing, and it can run again with the same file.
func Restore(ctx context.Context, path string, t Target) (Header, Counts, error) {
	f, err := os.Open(path)
	if err != nil {
		return Header{}, Counts{}, fmt.Errorf("reading the backup: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	h, counts, err := verify(f)
	if err != nil {
		return h, counts, fmt.Errorf("reading %s: %w", path, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return h, counts, fmt.Errorf("reading %s: %w", path, err)
	}
	if err := t.accepts(h); err != nil {
		return h, counts, err
	}
	return h, counts, t.restore(ctx, f, h)
}

func verify(from io.Reader) (h Header, counts Counts, err error) {
	counts, err = read(from, func(first Header) error { h = first; return nil }, func(line) error { return nil })
	return h, counts, err
}

func (t Target) accepts(h Header) error {
	switch {
	case h.Root != t.Root:
		return ErrOtherRoot
	case h.Ledger && t.Ledger == nil && !t.WithoutLedger:
		return ErrLedger
	case !h.Ledger && t.Ledger != nil:
		return ErrNoLedger
	}
	return nil
}

// restore begins with the mark that keeps control planes away, and ends with its removal.
func (t Target) restore(ctx context.Context, from io.Reader, h Header) error {
	var book *ledger.Loader
	if t.Ledger != nil {
		var err error
		if book, err = t.Ledger.Load(ctx); err != nil {
			return err
		}
		defer book.Abort()
	}
	if err := t.begin(ctx, h); err != nil {
		return err
	}
	keys := &batch{etcd: t.Etcd}
	_, err := read(from, func(Header) error { return nil }, func(l line) error {
		switch {
		case string(l.Key) == configstore.HistoryKey, string(l.Key) == configstore.AuditHeadKey:
			return nil
		case l.Key != nil:
			return keys.put(ctx, l.Key, l.Value)
		case book == nil:
			return nil
		case l.Table != "":
			return book.Table(l.Table, l.Columns)
		default:
			return book.Row(l.Row)
		}
	})
	if err == nil {
		err = keys.flush(ctx)
	}
	if err == nil && book != nil {
		err = book.Commit()
	}
	if err == nil {
		err = commit(ctx, t.Etcd, clientv3.OpDelete(configstore.RestoringKey), clientv3.OpDelete(configstore.AuditHeadKey))
	}
	return err
}

// nothing holds if etcd has no key from one to before another.
func nothing(from, to string) clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(from), "=", 0).WithRange(to)
}

// alive are the ranges of keys that running control planes write by themselves into an etcd that has lost its data:
// who is connected to them, who judges alerts, and the head of their audit log. They are in order.
var alive = [...][2]string{
	{configstore.AlertsLeader + "/", clientv3.GetPrefixRangeEnd(configstore.AlertsLeader + "/")},
	{configstore.AuditHeadKey, configstore.AuditHeadKey + "\x00"},
	{configstore.Taken, clientv3.GetPrefixRangeEnd(configstore.Replicas)},
}

// isEmpty holds if etcd has nothing else.
func isEmpty() (all []clientv3.Cmp) {
	from := prefix
	for _, r := range alive {
		all, from = append(all, nothing(from, r[0])), r[1]
	}
	return append(all, nothing(from, clientv3.GetPrefixRangeEnd(prefix)))
}

// begin sets the mark, if etcd is empty, but for what control planes that live write, or has that of the same
// backup.
func (t Target) begin(ctx context.Context, h Header) error {
	mark := fmt.Sprintf("a backup of %s, revision %d", h.Created.Format("2006-01-02T15:04:05.000000Z"), h.Revision)
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	r, err := t.Etcd.Txn(ctx).
		If(isEmpty()...).
		Then(clientv3.OpPut(configstore.RestoringKey, mark)).
		Else(clientv3.OpGet(configstore.RestoringKey)).Commit()
	if err != nil {
		return fmt.Errorf("writing etcd: %w", err)
	}
	if r.Succeeded {
		return nil
	}
	if kvs := r.Responses[0].GetResponseRange().Kvs; len(kvs) == 0 || string(kvs[0].Value) != mark {
		return ErrNotEmpty
	}
	return nil
}

func commit(ctx context.Context, etcd *clientv3.Client, ops ...clientv3.Op) error {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	if _, err := etcd.Txn(ctx).Then(ops...).Commit(); err != nil {
		return fmt.Errorf("writing etcd: %w", err)
	}
	return nil
}

// A batch gathers keys to be written together.
type batch struct {
	etcd  *clientv3.Client
	ops   []clientv3.Op
	bytes int
}

func (b *batch) put(ctx context.Context, key, value []byte) error {
	size := len(key) + len(value)
	if len(b.ops) == putsAtOnce || len(b.ops) > 0 && b.bytes+size > bytesAtOnce {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	b.ops, b.bytes = append(b.ops, clientv3.OpPut(string(key), string(value))), b.bytes+size
	return nil
}

func (b *batch) flush(ctx context.Context) error {
	if len(b.ops) == 0 {
		return nil
	}
	err := commit(ctx, b.etcd, b.ops...)
	b.ops, b.bytes = b.ops[:0], 0
	return err
}
