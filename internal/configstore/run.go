package configstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const (
	// debounce is how long changes are gathered before they are delivered together.
	debounce    = 20 * time.Millisecond
	loadTimeout = 10 * time.Second
	minWait     = 100 * time.Millisecond
	maxWait     = 5 * time.Second
	// maxLookback bounds how many versions of an object are tried in search of a good one.
	maxLookback = 100
	// guardEvery is how often it is looked whether etcd is another.
	guardEvery = 2 * time.Second
)

var (
	errWatchEnded   = errors.New("the watch ended")
	errNotAnObject  = errors.New("the key is not of an object: it must be " + prefix + "<kind>/<name>")
	errNoneBefore   = errors.New("no good version before")
	errForgotBefore = errors.New("etcd has forgotten the versions before")
	errEmptied      = errors.New("etcd has lost the configuration: a backup has to be restored")
	errReplaced     = errors.New("etcd is another than it was")
	errStaged       = errors.New("staged changes are being made")
)

// Run delivers the configuration as it is and then, until ctx ends, after every change; changes that come within 20
// ms are delivered together. Deliver is never called twice at the same time, and never with half a transaction.
// While etcd is unavailable the last state stays, and Run goes on when it is back.
func (s *Store) Run(ctx context.Context, deliver func(State)) {
	var last *view
	wait := minWait
	for {
		v, revision, err := s.load(ctx, last)
		if err == nil {
			last, wait = v, minWait
			s.following.Store(true)
			deliver(v.state())
			err = s.follow(ctx, v, revision+1, deliver)
			if errors.Is(err, errStaged) { // load waits for them
				continue
			}
		}
		s.following.Store(false)
		if ctx.Err() != nil {
			return
		}
		s.log.Warn("configuration store interrupted; the last configuration stays", zap.Duration("retry_in", wait),
			zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, maxWait)
	}
}

// load reads everything at one revision of etcd, which it returns. Last is the view before, or nil.
func (s *Store) load(ctx context.Context, last *view) (*view, int64, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	r, err := s.read(ctx, clientv3.OpGet(prefix, clientv3.WithPrefix()), clientv3.OpGet(RootKey))
	if err != nil {
		return nil, 0, fmt.Errorf("read configuration: %w", err)
	}
	v := newView()
	v.root = createdAt(r.Responses[1].GetResponseRange().GetKvs())
	if s.claimed.Load() && v.root == 0 {
		return nil, 0, errEmptied // and not an empty configuration
	}
	kinds := kindsByPath()
	for _, kv := range r.Responses[0].GetResponseRange().GetKvs() {
		if string(kv.Key) == RestoringKey {
			return nil, 0, ErrRestoring
		}
		v.changed(kv.ModRevision)
		s.put(v, kinds, string(kv.Key), kv.Value)
	}
	for ref := range v.errs {
		kind, ok := configv1.FindKind(ref.Kind)
		if !ok {
			continue
		}
		object, err := s.lastGood(ctx, kind, ref.Name, r.Header.Revision)
		if errors.Is(err, errForgotBefore) && last != nil && last.good[ref.Kind][ref.Name] != nil {
			object, err = last.good[ref.Kind][ref.Name], nil
		}
		switch {
		case err == nil:
			v.set(ref, object)
		case !errors.Is(err, errNoneBefore) && !errors.Is(err, errForgotBefore):
			return nil, 0, err
		}
	}
	return v, r.Header.Revision, nil
}

// put records what a key holds.
func (s *Store) put(v *view, kinds kindIndex, key string, value []byte) {
	if key == versionKey || key == keyVersionKey {
		return
	}
	kind, name, ok := kinds.split(key)
	ref, err := Ref{Kind: kind.Name, Name: name}, errNotAnObject
	var object configv1.Object
	if ok {
		object, err = s.parse(kind, name, value)
	} else {
		ref = Ref{Name: key}
	}
	if err != nil {
		s.log.Warn("stored object is not good; its last good version stays", zap.String("kind", ref.Kind),
			zap.String("name", ref.Name), zap.Error(err))
	}
	v.put(ref, object, err)
}

// lastGood looks for the newest good version of an object, up to a revision. A replica that starts while a value is
// not good thereby comes to the same state as one that has seen it become so.
func (s *Store) lastGood(ctx context.Context, kind configv1.Kind, name string, revision int64) (configv1.Object,
	error) {
	for range maxLookback {
		r, err := s.etcd.Get(ctx, keyOf(kind, name), clientv3.WithRev(revision))
		switch {
		case errors.Is(err, rpctypes.ErrCompacted):
			return nil, errForgotBefore
		case err != nil:
			return nil, fmt.Errorf("read %s %s at revision %d: %w", kind.Name, name, revision, err)
		case len(r.Kvs) == 0:
			return nil, errNoneBefore
		}
		if object, err := s.decode(kind, name, r.Kvs[0].Value); err == nil {
			return object, nil
		}
		revision = r.Kvs[0].ModRevision - 1
	}
	return nil, errForgotBefore
}

// follow applies what changes from a revision on, until the watch fails.
func (s *Store) follow(ctx context.Context, v *view, from int64, deliver func(State)) error {
	var guard sync.WaitGroup
	defer guard.Wait()
	ctx, cancel := context.WithCancelCause(clientv3.WithRequireLeader(ctx))
	defer cancel(nil)
	guard.Go(func() { s.guard(ctx, v.root, from-1, cancel) })
	err := s.fold(ctx, v, s.etcd.Watch(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(from)), deliver)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// guard ends ctx if etcd is another, as after it was lost and a backup restored: the root secret's fingerprint was
// put there at another revision, or the revision is lower than it was. A watch would wait, silently, until the
// revisions that are known come again.
func (s *Store) guard(ctx context.Context, root, revision int64, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		limited, done := context.WithTimeout(ctx, loadTimeout)
		r, err := s.etcd.Get(limited, RootKey)
		done()
		if err != nil {
			continue // the watch says it, too
		}
		if r.Header.Revision < revision || createdAt(r.Kvs) != root {
			cancel(errReplaced)
			return
		}
		revision = r.Header.Revision
	}
}

func createdAt(kvs []*mvccpb.KeyValue) int64 {
	if len(kvs) == 0 {
		return 0
	}
	return kvs[0].CreateRevision
}

// fold applies events to the view and delivers it, at the latest when debounce has passed since the first undelivered
// one. One response holds whole transactions: the watch is not fragmented.
func (s *Store) fold(ctx context.Context, v *view, events clientv3.WatchChan, deliver func(State)) error {
	kinds := kindsByPath()
	var due <-chan time.Time // nil while there is nothing to deliver
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-due:
			due = nil
			deliver(v.state())
		case r, ok := <-events:
			err := r.Err()
			if !ok {
				err = errWatchEnded
			}
			if err != nil {
				if due != nil {
					deliver(v.state())
				}
				return fmt.Errorf("watch configuration: %w", err)
			}
			for _, event := range r.Events {
				if string(event.Kv.Key) == RestoringKey {
					if strings.HasPrefix(string(event.Kv.Value), applying) {
						return errStaged
					}
					return ErrRestoring // is, or was: what came before it may have been missed
				}
				s.apply(v, kinds, event)
			}
			if due == nil && len(r.Events) > 0 {
				due = time.After(debounce)
			}
		}
	}
}

func (s *Store) apply(v *view, kinds kindIndex, event *clientv3.Event) {
	key := string(event.Kv.Key)
	v.changed(event.Kv.ModRevision)
	if event.Type == clientv3.EventTypePut {
		s.put(v, kinds, key, event.Kv.Value)
		return
	}
	if kind, name, ok := kinds.split(key); ok {
		v.remove(Ref{Kind: kind.Name, Name: name})
	} else {
		v.remove(Ref{Name: key})
	}
}
