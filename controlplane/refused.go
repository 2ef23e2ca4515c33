package controlplane

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/controlplane/snapshot"
	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/timing"
)

// refusals are the refusals of xDS clients: of this control plane's, and of those of others.
type refusals struct {
	elsewhere atomic.Pointer[map[xds.Object]string]

	mu    sync.Mutex // held while a report is written, so that a later report is newer
	lease clientv3.LeaseID
	told  []byte
}

// ObjectError returns why an object, or its last change, has no effect, or has none with what is connected to
// another control plane, and "" if it has.
func (s *Server) ObjectError(kind, name string) string {
	if own := s.publisher.ObjectError(kind, name); own != "" {
		return own
	}
	if there := s.refusals.elsewhere.Load(); there != nil {
		return (*there)[xds.Object{Kind: kind, Name: name}]
	}
	return ""
}

// tellRefused keeps in etcd, under a lease, what those have refused that are connected to this control plane.
func (s *Server) tellRefused(ctx context.Context, lease clientv3.LeaseID) error {
	r := &s.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	var now []byte
	if refused := s.publisher.Refused(); len(refused) > 0 {
		var err error
		if now, err = json.Marshal(refused); err != nil {
			return err
		}
	}
	if r.lease != lease {
		r.lease, r.told = lease, nil
	}
	if bytes.Equal(now, r.told) {
		return nil
	}
	key := configstore.Untaken + strings.TrimPrefix(s.replica, configstore.Replicas)
	op := clientv3.OpDelete(key)
	if now != nil {
		op = clientv3.OpPut(key, string(now), clientv3.WithLease(lease))
	}
	if _, err := s.config.Etcd.Do(ctx, op); err != nil {
		return fmt.Errorf("telling what is refused: %w", err)
	}
	r.told = now
	return nil
}

// learnRefused takes what other control planes have reported.
func (s *Server) learnRefused(told []*mvccpb.KeyValue) error {
	all := map[xds.Object]string{}
	for _, kv := range told {
		if strings.TrimPrefix(string(kv.Key), configstore.Untaken) == strings.TrimPrefix(s.replica, configstore.Replicas) {
			continue
		}
		var theirs []snapshot.Refusal
		if err := json.Unmarshal(kv.Value, &theirs); err != nil {
			return fmt.Errorf("reading what the replica %s has told: %w", kv.Key, err)
		}
		for _, r := range theirs {
			all[xds.Object{Kind: r.Kind, Name: r.Name}] = r.Error
		}
	}
	s.refusals.elsewhere.Store(&all)
	return nil
}

// followRefused learns what other control planes tell, until ctx ends.
func (s *Server) followRefused(ctx context.Context) {
	_ = timing.Every(ctx, replicaInterval, func() {
		if err := s.followRefusedOnce(ctx); err != nil && ctx.Err() == nil {
			s.config.Logger.Debug("what other control planes are refused is not known", zap.Error(err))
		}
	})
}

func (s *Server) followRefusedOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		found, err := s.config.Etcd.Get(ctx, configstore.Untaken, clientv3.WithPrefix())
		if err != nil {
			return err
		}
		if err := s.learnRefused(found.Kvs); err != nil {
			return err
		}
		if !s.changedSince(ctx, found.Header.Revision+1) {
			return ctx.Err()
		}
	}
}

// changedSince waits until other reports are published, at or after a revision of etcd. It is false if that cannot
// be known any more.
func (s *Server) changedSince(ctx context.Context, revision int64) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changed, ok := <-s.config.Etcd.Watch(clientv3.WithRequireLeader(ctx), configstore.Untaken, clientv3.WithPrefix(),
		clientv3.WithRev(revision))
	return ok && changed.Err() == nil
}
