package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// prefix is what every key of a gateway's in etcd begins with.
	prefix = "/modelgate/"
	// keysAtOnce bounds what is in memory: a value has at most 1.5 MiB.
	keysAtOnce = 64
	rpcTimeout = 30 * time.Second
)

// Errors of saving.
var (
	ErrNothing   = errors.New("etcd holds no gateway: no control plane has worked on it yet")
	ErrCompacted = errors.New("etcd has forgotten the revision of the backup while it was read: make it again, and have etcd keep more history (--auto-compaction-retention)")
)

// A Source is the installation that a backup is made of.
type Source struct {
	Etcd *clientv3.Client
	// Ledger is saved too, unless it is nil.
	Ledger *ledger.Ledger
	// By is the version of this program.
	By string
}

// Save writes a backup to a file, which only this user can read. It is there whole or not at all; one that is there
// already is replaced.
func Save(ctx context.Context, path string, s Source) (Header, Counts, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // mode 0600
	if err != nil {
		return Header{}, Counts{}, fmt.Errorf("writing the backup: %w", err)
	}
	h, counts, err := Write(ctx, f, s)
	if err == nil {
		err = f.Sync() // without it the rename can survive a crash that the content does not
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return Header{}, Counts{}, errors.Join(err, os.Remove(f.Name()))
	}
	return h, counts, nil
}

// Write writes a backup. What it has written when it fails is refused by Restore. It writes etcd's part first: what
// moves from there to the ledger in the meantime is then in both, and not in none.
func Write(ctx context.Context, to io.Writer, s Source) (Header, Counts, error) {
	root, revision, err := s.root(ctx)
	if err != nil {
		return Header{}, Counts{}, err
	}
	h := Header{Format: format, Created: time.Now().UTC(), By: s.By, Root: root, Revision: revision,
		Ledger: s.Ledger != nil}
	w, err := newWriter(to, h)
	if err != nil {
		return h, Counts{}, err
	}
	if err := s.keys(ctx, revision, w); err != nil {
		return h, w.counts, err
	}
	if s.Ledger != nil {
		if err := s.Ledger.Dump(ctx, w); err != nil {
			return h, w.counts, err
		}
	}
	return h, w.counts, w.finish()
}

// root returns the fingerprint of the root secret and the present revision, at which no staged changes are half made.
func (s Source) root(ctx context.Context) (fingerprint string, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	var r *clientv3.TxnResponse
	for marked := true; marked; marked = len(r.Responses[1].GetResponseRange().Kvs) > 0 {
		if err := configstore.Settle(ctx, s.Etcd); err != nil {
			return "", 0, err
		}
		if r, err = s.Etcd.Txn(ctx).Then(clientv3.OpGet(configstore.RootKey),
			clientv3.OpGet(configstore.RestoringKey)).Commit(); err != nil {
			return "", 0, fmt.Errorf("reading etcd: %w", err)
		}
	}
	kvs := r.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return "", 0, ErrNothing
	}
	return string(kvs[0].Value), r.Header.Revision, nil
}

// keys writes all keys as they were at one revision, but for those under a lease and changes that wait for approval.
func (s Source) keys(ctx context.Context, revision int64, w *writer) error {
	for from := prefix; from != ""; {
		page, err := s.page(ctx, from, revision)
		if errors.Is(err, rpctypes.ErrCompacted) {
			return ErrCompacted
		}
		if err != nil {
			return fmt.Errorf("reading etcd: %w", err)
		}
		from = ""
		for _, kv := range page.Kvs {
			if kv.Lease == 0 && !bytes.HasPrefix(kv.Key, []byte(configstore.Approvals)) {
				if err := w.key(kv.Key, kv.Value); err != nil {
					return err
				}
			}
			if page.More {
				from = string(kv.Key) + "\x00"
			}
		}
	}
	return nil
}

func (s Source) page(ctx context.Context, from string, revision int64) (*clientv3.GetResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, rpcTimeout)
	defer cancel()
	return s.Etcd.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)), clientv3.WithRev(revision),
		clientv3.WithLimit(keysAtOnce))
}
