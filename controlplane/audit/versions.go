package audit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// versionsOutbox holds versions that are not in the ledger yet: under each key some of one change, as a JSON array in
	// gzip. Those that say no revision were made at the key's own.
	versionsOutbox = "/modelgate/versions/"
	// versionBytes is the size of the versions under one key, before compression, if each is not larger by itself.
	versionBytes = 200_000
	// maxVersions bounds the value of a key.
	maxVersions = 1_400_000
	// unpacked bounds what is read of one.
	unpacked = 64 << 20
)

// A VersionStore is where versions are kept.
type VersionStore interface {
	// AppendVersions keeps versions, each once: one whose id is known is ignored.
	AppendVersions(ctx context.Context, versions []adminapi.Version) error
	// Versions returns those of one object, newest first, before a revision if that is not 0.
	Versions(ctx context.Context, epoch, kind, name string, before int64, limit int) ([]adminapi.Version, error)
	// VersionsSince returns, of every object that was changed after a revision, its oldest version after it, and the
	// newest that is not after it if that is kept.
	VersionsSince(ctx context.Context, epoch string, revision int64) (at, after []adminapi.Version, err error)
}

// HasVersions reports whether versions of a kind are kept. Accounts and tokens of administration are rights: what was
// taken away must not come back.
func HasVersions(kind configv1.Kind) bool { return authz.ReadScope(kind) != authz.AdminsRead }

// document returns an object as its version keeps it: credentials sealed as they are stored, and of a key nothing by
// which it could be good again.
func document(o configv1.Object) (json.RawMessage, error) {
	if k, ok := o.(*configv1.Key); ok {
		k = proto.CloneOf(k)
		k.Hash, k.Retired = nil, nil
		o = k
	}
	return configv1.Marshal(o)
}

// A Change is one transaction's writes, with the configuration before it.
type Change struct {
	Before *configstore.Snapshot
	Writes []configstore.Change
}

// versions returns the versions that the writes make. Entries are their audit entries, with ids.
func (m Change) versions(entries []adminapi.AuditEntry, epoch epoch) ([]adminapi.Version, error) {
	var all []adminapi.Version
	for i, w := range m.Writes {
		if !HasVersions(w.Kind) {
			continue
		}
		e, stored := entries[i], m.Before.Find(w.Kind, w.Name)
		v := adminapi.Version{ID: e.ID, Epoch: epoch.name, At: e.At, Actor: e.Actor, Kind: w.Kind.Name, Name: w.Name,
			Diff: e.Diff, Action: adminapi.Updated, Created: stored == nil}
		if stored != nil && stored.Object != nil && stored.Revision < epoch.began {
			found, err := document(stored.Object)
			if err != nil {
				return nil, err
			}
			all = append(all, adminapi.Version{ID: e.ID + "-found", Epoch: epoch.name, Revision: stored.Revision, At: e.At,
				Kind: w.Kind.Name, Name: w.Name, Action: adminapi.Found, Document: found})
		}
		switch {
		case w.Object == nil:
			v.Action, v.Deleted = adminapi.Deleted, true
		case stored == nil:
			v.Action = adminapi.Created
		}
		if w.Object != nil {
			var err error
			if v.Document, err = document(w.Object); err != nil {
				return nil, err
			}
		}
		all = append(all, v)
	}
	return all, nil
}

// An epoch is a life of etcd: revisions count within it. A change from before its key was made has no version.
type epoch struct {
	name  string
	began int64 // revision; what was stored before has no version
	fresh bool  // it has not begun
}

// epoch returns the present one. Until one has begun, everything was stored before it.
func (a *Log) epoch(ctx context.Context) (epoch, error) {
	r, err := a.etcd.Get(ctx, configstore.HistoryKey)
	if err != nil {
		return epoch{}, fmt.Errorf("read the history: %w", err)
	}
	if len(r.Kvs) == 0 {
		return epoch{name: ulid.Make().String(), began: r.Header.Revision + 1, fresh: true}, nil
	}
	return epoch{name: string(r.Kvs[0].Value), began: r.Kvs[0].CreateRevision}, nil
}

// begin returns the present epoch, which begins now if none has.
func (a *Log) begin(ctx context.Context) (epoch, error) {
	now, err := a.epoch(ctx)
	if err != nil || !now.fresh {
		return now, err
	}
	_, err = a.etcd.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(configstore.HistoryKey), "=", 0)).
		Then(clientv3.OpPut(configstore.HistoryKey, now.name)).Commit()
	if err != nil {
		return epoch{}, fmt.Errorf("begin the history: %w", err)
	}
	return a.epoch(ctx)
}

// VersionOps returns what keeps the versions of a change, in the transaction that makes its changes. Without a ledger
// none are kept: etcd would grow.
func (a *Log) VersionOps(ctx context.Context, m Change, entries []adminapi.AuditEntry) ([]clientv3.Op, error) {
	if a.versions == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, keepTimeout) // of many objects the plan may have taken longer
	defer cancel()
	now, err := a.begin(ctx)
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return nil, nil // the change will say so, or is a deletion that needs no room
	}
	if err != nil {
		return nil, err
	}
	versions, err := m.versions(entries, now)
	if err != nil {
		return nil, err
	}
	groups := grouped(versions)
	var ops []clientv3.Op
	for _, some := range groups {
		if len(groups) > 1 && m.Before.Revision > 0 { // else it is one key's, in one transaction
			// Their keys may be written at several revisions, and what is one change must not be rolled back by half. Since the
			// one that the plan was made at, nothing else of the configuration has changed.
			for i := range some {
				if some[i].Revision == 0 {
					some[i].Revision = max(m.Before.Revision+1, now.began)
				}
			}
		}
		value, err := packed(some)
		if err != nil {
			return nil, err
		}
		ops = append(ops, clientv3.OpPut(versionsOutbox+some[0].ID, value))
	}
	return ops, nil
}

// grouped returns versions by the key that they are put under.
func grouped(versions []adminapi.Version) (groups [][]adminapi.Version) {
	for len(versions) > 0 {
		n, size := 0, 0
		for n < len(versions) && n < entriesAtOnce {
			size += len(versions[n].Document) + len(versions[n].Diff)
			if n > 0 && size > versionBytes {
				break
			}
			n++
		}
		groups, versions = append(groups, versions[:n]), versions[n:]
	}
	return groups
}

func packed(versions []adminapi.Version) (string, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if err := json.NewEncoder(w).Encode(versions); err != nil {
		return "", fmt.Errorf("keep versions of objects: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("keep versions of objects: %w", err)
	}
	if b.Len() > maxVersions {
		return "", fmt.Errorf("the version of %s %s: %w", versions[0].Kind, versions[0].Name, configstore.ErrTooLarge)
	}
	return b.String(), nil
}

// versionsOf returns the versions under a key. Those that say no revision were made at that of the key.
func versionsOf(kv *mvccpb.KeyValue) ([]adminapi.Version, error) {
	r, err := gzip.NewReader(bytes.NewReader(kv.Value))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, unpacked))
	if err != nil {
		return nil, err
	}
	var versions []adminapi.Version
	if err := json.Unmarshal(text, &versions); err != nil {
		return nil, err
	}
	for i := range versions {
		if versions[i].Revision == 0 {
			versions[i].Revision = kv.ModRevision
		}
	}
	return versions, nil
}

// shipVersions moves the oldest versions to the store, and reports whether there are more.
func (a *Log) shipVersions(ctx context.Context) (more bool, err error) {
	_, more, err = empty(ctx, a.etcd, versionsOutbox, func(kv *mvccpb.KeyValue) []adminapi.Version {
		some, err := versionsOf(kv)
		if err != nil { // something else wrote it
			some = []adminapi.Version{{ID: clean(strings.TrimPrefix(string(kv.Key), versionsOutbox), MaxText),
				At: time.Unix(0, 0).UTC(), Action: "unreadable"}}
		}
		return some
	}, a.versions.AppendVersions)
	return more, err
}

// A History is the versions of the present epoch.
type History struct {
	epoch epoch
	store VersionStore
}

// History returns the versions when every one is in the store. The error is ErrNotFound if no history has begun.
func (a *Log) History(ctx context.Context) (History, error) {
	if a.versions == nil {
		return History{}, ledger.Unavailable(ledger.ErrNone)
	}
	for more := true; more; {
		var err error
		if more, err = a.shipVersions(ctx); err != nil {
			return History{}, ledger.Unavailable(err)
		}
	}
	now, err := a.epoch(ctx)
	if err == nil && now.fresh {
		err = fmt.Errorf("the history: %w", configstore.ErrNotFound)
	}
	return History{now, a.versions}, err
}

// Began returns the revision at which the epoch began.
func (h History) Began() int64 { return h.epoch.began }

// Of returns the versions of one object, newest first, before a revision if that is not 0.
func (h History) Of(ctx context.Context, kind configv1.Kind, name string, before int64,
	limit int) ([]adminapi.Version, error) {
	all, err := h.store.Versions(ctx, h.epoch.name, kind.Name, name, before, limit)
	if err != nil {
		return nil, ledger.Unavailable(err)
	}
	return all, nil
}

// Since is [VersionStore.VersionsSince] for the present epoch.
func (h History) Since(ctx context.Context, revision int64) (at, after []adminapi.Version, err error) {
	if at, after, err = h.store.VersionsSince(ctx, h.epoch.name, revision); err != nil {
		return nil, nil, ledger.Unavailable(err)
	}
	return at, after, nil
}

// KeepDirect keeps the versions of deletions that were made at a revision in an etcd that is full.
func (a *Log) KeepDirect(ctx context.Context, m Change, revision int64, entries []adminapi.AuditEntry) {
	if a.versions == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepTimeout)
	defer cancel()
	now, err := a.epoch(ctx)
	if err == nil && now.fresh {
		err = errors.New("etcd is full, and no history was begun")
	}
	var versions []adminapi.Version
	if err == nil {
		versions, err = m.versions(entries, now)
	}
	for i := range versions {
		if versions[i].Revision == 0 {
			versions[i].Revision = revision
		}
	}
	if err == nil {
		err = a.versions.AppendVersions(ctx, versions)
	}
	if err != nil {
		a.log.Error("the history lacks deletions that were made while etcd was full", zap.Error(err))
	}
}
