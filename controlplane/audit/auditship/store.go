package auditship

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/configstore"
)

// Keys in etcd.
const (
	turn      = configstore.Turns + "auditsinks"
	positions = "/modelgate/auditsinks/" // and the name of a sink
)

var (
	// errMoved is returned if something else has written a position.
	errMoved = errors.New("the position was changed by something else, or etcd is empty")
	// errNotLeading is returned if another control plane holds the lock.
	errNotLeading = errors.New("another control plane delivers")
)

// A position is how far a sink has got.
type position struct {
	// Sequence and ID are the newest delivered entry's. Without a sequence, ID is where to begin.
	Sequence int64  `json:"sequence"`
	ID       string `json:"id"`
	// Outside is the id of the newest entry outside the chain that was delivered. There are some from before the chain,
	// and from while etcd was full.
	Outside string `json:"outside,omitempty"`
	// At is when entries were last delivered.
	At *time.Time `json:"at,omitempty"`
	// Missing counts entries of the chain that were not there.
	Missing int64 `json:"missing,omitempty"`
	// Error is why the last of the attempts failed that have failed since then; Since is when the first of them did.
	Error  string     `json:"error,omitempty"`
	Since  *time.Time `json:"since,omitempty"`
	Failed int        `json:"failed,omitempty"`
}

// A store keeps positions in etcd. It holds nothing.
type store struct{ etcd *clientv3.Client }

// position returns the position of a sink and its revision, which is 0 if there is none.
func (s store) position(ctx context.Context, lead clientv3.Cmp, sink string) (at position, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r, err := s.etcd.Txn(ctx).If(lead).Then(clientv3.OpGet(positions + sink)).Commit()
	if err != nil {
		return at, 0, fmt.Errorf("reading the position of an audit sink: %w", err)
	}
	if !r.Succeeded {
		return at, 0, errNotLeading
	}
	for _, kv := range r.Responses[0].GetResponseRange().GetKvs() {
		if err := json.Unmarshal(kv.Value, &at); err != nil {
			return at, 0, fmt.Errorf("reading the position of an audit sink: %w", err)
		}
		revision = kv.ModRevision
	}
	return at, revision, nil
}

// put replaces a position that has not changed, while lead holds, and returns its new revision. In an etcd without a
// configuration it puts none: a backup can be restored only into an empty one.
func (s store) put(ctx context.Context, lead clientv3.Cmp, sink string, at position, revision int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	value, _ := json.Marshal(at) // it has nothing that cannot be written
	key := positions + sink
	r, err := s.etcd.Txn(ctx).If(lead, clientv3.Compare(clientv3.ModRevision(key), "=", revision),
		clientv3.Compare(clientv3.CreateRevision(configstore.RootKey), ">", 0)).
		Then(clientv3.OpPut(key, string(value))).Commit()
	if err != nil {
		return 0, fmt.Errorf("storing the position of an audit sink: %w", err)
	}
	if !r.Succeeded {
		return 0, errMoved
	}
	return r.Header.Revision, nil
}

// all returns the positions by sink.
func (s store) all(ctx context.Context) (map[string]position, error) {
	r, err := s.etcd.Get(ctx, positions, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("reading the positions of audit sinks: %w", err)
	}
	found := map[string]position{}
	for _, kv := range r.Kvs {
		var at position
		_ = json.Unmarshal(kv.Value, &at) // one that cannot be read has delivered nothing
		found[strings.TrimPrefix(string(kv.Key), positions)] = at
	}
	return found, nil
}

// tidy deletes the positions of sinks that are no more.
func (s store) tidy(ctx context.Context, lead clientv3.Cmp, state configstore.State) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	found, err := s.all(ctx)
	if err != nil {
		return err
	}
	kind := configv1.KindOf((*configv1.AuditSink)(nil)).Name
	for name := range found {
		if state.Objects[kind][name] != nil || state.Errors[configstore.Ref{Kind: kind, Name: name}] != nil {
			continue
		}
		if _, err := s.etcd.Txn(ctx).If(lead).Then(clientv3.OpDelete(positions + name)).Commit(); err != nil {
			return fmt.Errorf("deleting the position of an audit sink: %w", err)
		}
	}
	return nil
}
