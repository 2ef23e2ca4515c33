// Package configstore keeps the configuration in etcd: one key for each object, /modelgate/v1/<kind>/<name>, whose
// value is the object as protojson. Writes compare revisions, so that of two writers one learns that it was late;
// [Store.Run] follows what is stored.
//
// What is in etcd need not be good, for anyone with access can write there. Reading never
// fails because of one bad value: the object carries an error, and whoever follows keeps its last good version.
package configstore

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const (
	prefix = "/modelgate/v1/"
	// versionKey is written by every transaction, so that a deletion moves the revision of the configuration too, and
	// a replica that starts after it agrees on that revision with one that saw it.
	versionKey = prefix + "version"
	// keyVersionKey is what versionKey is, of transactions that change nothing but keys: there are many, and what
	// depends on the rest need not be decided anew for them. It is in the gap that [without] leaves for keys.
	keyVersionKey = prefix + "keys.version"
	// RootKey holds the fingerprint of the root secret under which the configuration is written.
	RootKey = "/modelgate/root"
	// HistoryKey names the life of this etcd, in whose revisions the history of objects is counted. It is not restored
	// from a backup: the revisions are others then.
	HistoryKey = "/modelgate/versions.epoch"
	// AuditHeadKey is the end of the chain of the audit log. It is not restored from a backup either: the ledger,
	// which was saved later, may have entries after it.
	AuditHeadKey = "/modelgate/audit.head"
	// AlertsLeader is the prefix of the keys by which control planes agree on who judges alerts. Each key has a
	// lease.
	AlertsLeader = "/modelgate/alerts/leader"
	// Replicas is the prefix of the keys by which control planes report who is connected to them. Each key has
	// a lease.
	Replicas = "/modelgate/replicas/"
	// Taken is the prefix of the leased keys by which they report the revision that all their clients have taken.
	Taken = "/modelgate/replicas.taken/"
	// Untaken is the prefix of the leased keys by which they report refusals.
	Untaken = "/modelgate/replicas.untaken/"
	// Turns is the prefix of the leased keys by which only one control plane does a task. An etcd may have these
	// keys when a backup is restored into it.
	Turns = "/modelgate/replicas.turn/"
	// Approvals is the prefix of the keys of changes that wait for approval. A backup does not save them: after a
	// restore, the revisions that they are based on differ.
	Approvals = "/modelgate/approvals/"
	// ApprovalsVersion is written by every transaction that adds one, so that their number is bounded.
	ApprovalsVersion = Approvals + "version"
	// RestoringKey is there while a backup is being restored, and while staged changes are made. Nothing is read before
	// it is gone, or claimed.
	RestoringKey = prefix + "restoring"
)

// MaxBytes is the size of the largest object, and the size of all objects of one transaction, above which they are
// staged. Etcd takes requests of 1.5 MiB (its --max-request-bytes). Some of that is the envelope.
const MaxBytes = 1_500_000

// AnyRevision writes whatever is there.
const AnyRevision int64 = -1

// Errors of reading and writing.
var (
	ErrNotFound  = errors.New("no such object")
	ErrConflict  = errors.New("the object was changed by someone else in the meantime")
	ErrOtherRoot = errors.New(
		"the configuration was written under another root secret: keys could not be checked, nor sealed credentials opened")
	ErrRestoring = errors.New("a backup is being restored, or restoring it has failed in the midst")
	ErrTooLarge  = fmt.Errorf("larger than %d bytes, the most that etcd takes at once", MaxBytes)
)

// A Store reads and writes configuration. It is safe for concurrent use.
type Store struct {
	etcd      *clientv3.Client
	validate  func(configv1.Object) error
	log       *zap.Logger
	claimed   atomic.Bool // the root secret's fingerprint was in etcd
	following atomic.Bool // Run hears of changes
}

// New returns a store. Validate says what is wrong with an object; one that it refuses is neither written nor
// delivered.
func New(etcd *clientv3.Client, validate func(configv1.Object) error, log *zap.Logger) *Store {
	return &Store{etcd: etcd, validate: validate, log: log}
}

// Following reports whether Run sees changes in etcd. It does not while etcd has lost the configuration, and while
// a backup is being restored. It notices late that etcd is unavailable.
func (s *Store) Following() bool { return s.following.Load() }

// Claim binds the configuration to a root secret at the first call, by its fingerprint. The error is ErrOtherRoot
// where it is bound to another, and ErrRestoring while a backup is being restored.
func (s *Store) Claim(ctx context.Context, fingerprint string) error {
	// It reads first, because a full etcd refuses a transaction that might write.
	there, err := s.etcd.Txn(ctx).Then(clientv3.OpGet(RootKey), clientv3.OpGet(RestoringKey)).Commit()
	if err != nil {
		return fmt.Errorf("check the root secret: %w", err)
	}
	_, _, restoring := marked(there.Responses[1].GetResponseRange().GetKvs())
	if root := there.Responses[0].GetResponseRange().GetKvs(); len(root) == 1 && restoring == nil {
		return s.claim(string(root[0].Value) == fingerprint)
	}
	r, err := s.etcd.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(RootKey), "=", 0),
			clientv3.Compare(clientv3.CreateRevision(RestoringKey), "=", 0)).
		Then(clientv3.OpPut(RootKey, fingerprint)).
		Else(clientv3.OpGet(RootKey), clientv3.OpGet(RestoringKey)).Commit()
	if err != nil {
		return fmt.Errorf("check the root secret: %w", err)
	}
	if !r.Succeeded {
		if len(r.Responses[1].GetResponseRange().GetKvs()) > 0 {
			return ErrRestoring
		}
		kvs := r.Responses[0].GetResponseRange().GetKvs()
		return s.claim(len(kvs) == 1 && string(kvs[0].Value) == fingerprint)
	}
	return s.claim(true)
}

// claim notes whose the configuration is.
func (s *Store) claim(ours bool) error {
	if !ours {
		return ErrOtherRoot
	}
	s.claimed.Store(true)
	return nil
}

// Claimed reports whether the configuration is bound to a root secret.
func (s *Store) Claimed(ctx context.Context) (bool, error) {
	r, err := s.etcd.Get(ctx, RootKey, clientv3.WithCountOnly())
	if err != nil {
		return false, fmt.Errorf("check the root secret: %w", err)
	}
	return r.Count > 0, nil
}

// An Entry is the stored value of one key.
type Entry struct {
	Kind configv1.Kind
	Name string
	// Object is nil if Err is set.
	Object configv1.Object
	// Revision is the revision of the object's last change. The next change can depend on it.
	Revision int64
	// Err says why the value is not a good object.
	Err error
}

// Get returns one object, or ErrNotFound. That it is not good is in Entry.Err.
func (s *Store) Get(ctx context.Context, kind configv1.Kind, name string) (Entry, error) {
	r, err := s.read(ctx, clientv3.OpGet(keyOf(kind, name)))
	if err != nil {
		return Entry{}, fmt.Errorf("read %s %s: %w", kind.Name, name, err)
	}
	kvs := r.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return Entry{}, fmt.Errorf("%s %s: %w", kind.Name, name, ErrNotFound)
	}
	kv := kvs[0]
	object, err := s.decode(kind, name, kv.Value)
	return Entry{Kind: kind, Name: name, Object: object, Revision: kv.ModRevision, Err: err}, nil
}

// decode returns the object of a value, or what is wrong with it.
func (s *Store) decode(kind configv1.Kind, name string, value []byte) (configv1.Object, error) {
	object, err := s.parse(kind, name, value)
	if err != nil {
		return nil, err
	}
	return object, nil
}

// parse is decode that also returns an object that is not valid.
func (s *Store) parse(kind configv1.Kind, name string, value []byte) (configv1.Object, error) {
	object, err := kind.Unmarshal(value)
	if err != nil {
		return nil, fmt.Errorf("the stored value is not a %s: %w", kind.Name, err)
	}
	if object.GetName() != name {
		return nil, fmt.Errorf("the stored value is of %q", object.GetName())
	}
	return object, s.validate(object)
}

// keyOf escapes the name, which may contain a slash, so that each kind and name have their own key.
func keyOf(kind configv1.Kind, name string) string {
	return prefix + kind.Plural + "/" + url.PathEscape(name)
}

type kindIndex map[string]configv1.Kind

func kindsByPath() kindIndex {
	index := kindIndex{}
	for _, k := range configv1.Kinds() {
		index[k.Plural] = k
	}
	return index
}

// split is the reverse of keyOf. It is false for a key that is not of an object.
func (x kindIndex) split(key string) (kind configv1.Kind, name string, ok bool) {
	plural, escaped, ok := strings.Cut(strings.TrimPrefix(key, prefix), "/")
	if !ok {
		return kind, "", false
	}
	if kind, ok = x[plural]; !ok {
		return kind, "", false
	}
	name, err := url.PathUnescape(escaped)
	return kind, name, err == nil && keyOf(kind, name) == key
}
