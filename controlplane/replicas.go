package controlplane

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/configstore"
)

const (
	// replicaTTL is how long, in seconds, what a replica has reported to the others outlives it.
	replicaTTL = 15
	// replicaInterval is how often a replica looks whether it has something new to tell.
	replicaInterval = time.Second
	// replicaTimeout is how long the others' may take to be read.
	replicaTimeout = time.Second
)

// DataPlane returns how those stand that are connected to this control plane and to its replicas, as far as etcd can
// tell. Who calls sets the version.
func (s *Server) DataPlane(ctx context.Context) adminapi.DataPlane {
	d := adminapi.DataPlane{Revision: s.publisher.Status().Revision, Clients: s.clients()}
	others, err := s.othersClients(ctx)
	if err != nil {
		s.config.Logger.Warn("what is connected to other control planes is not known", zap.Error(err))
	}
	d.Clients = append(d.Clients, others...)
	// One that has just moved from a replica to another is known to both.
	slices.SortStableFunc(d.Clients, func(a, b adminapi.DataPlaneClient) int {
		return cmp.Or(cmp.Compare(a.Role, b.Role), cmp.Compare(a.Node, b.Node), b.ConnectedAt.Compare(a.ConnectedAt))
	})
	d.Clients = slices.CompactFunc(d.Clients, func(a, b adminapi.DataPlaneClient) bool {
		return a.Role == b.Role && a.Node == b.Node
	})
	return d
}

// Leads reports whether of all control planes of this etcd this one does the work that only one may do: it is the
// one with the oldest report. If none could report because etcd is full, each leads. While etcd does not answer,
// none does.
func (s *Server) Leads(ctx context.Context) bool {
	if s.config.Etcd == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	first, err := s.config.Etcd.Get(ctx, configstore.Replicas, clientv3.WithFirstCreate()...)
	if err != nil {
		return false
	}
	return len(first.Kvs) == 0 || string(first.Kvs[0].Key) == s.replica
}

// othersClients reads what the other replicas have reported.
func (s *Server) othersClients(ctx context.Context) ([]adminapi.DataPlaneClient, error) {
	if s.config.Etcd == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	found, err := s.config.Etcd.Get(ctx, configstore.Replicas, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("reading what the replicas have told: %w", err)
	}
	var all []adminapi.DataPlaneClient
	for _, kv := range found.Kvs {
		if string(kv.Key) == s.replica {
			continue
		}
		var theirs []adminapi.DataPlaneClient
		if err := json.Unmarshal(kv.Value, &theirs); err != nil {
			return all, fmt.Errorf("reading what the replica %s has told: %w", kv.Key, err)
		}
		for _, c := range theirs {
			if c.Revision == 0 {
				c.Revision = s.publisher.Status().Revision
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// reported leaves out the revision of clients that are up to date: otherwise each change would change all of them.
func reported(clients []adminapi.DataPlaneClient) []adminapi.DataPlaneClient {
	for i := range clients {
		if clients[i].Health == adminapi.HealthOK {
			clients[i].Revision = 0
		}
	}
	return clients
}

// tellReplicas keeps in etcd, under a lease, who is connected to this control plane, until ctx ends.
func (s *Server) tellReplicas(ctx context.Context) {
	again := time.NewTicker(replicaInterval)
	defer again.Stop()
	for ctx.Err() == nil {
		if err := s.tellWhileLeased(ctx, again.C); err != nil && ctx.Err() == nil {
			s.config.Logger.Debug("other control planes cannot be told who is connected", zap.Error(err))
		}
		select {
		case <-again.C:
		case <-ctx.Done():
		}
	}
}

func (s *Server) tellWhileLeased(ctx context.Context, look <-chan time.Time) error {
	session, err := concurrency.NewSession(s.config.Etcd, concurrency.WithTTL(replicaTTL), concurrency.WithContext(ctx))
	if err != nil {
		return err
	}
	defer s.endLease(ctx, session)
	var telling sync.WaitGroup
	defer telling.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	telling.Go(func() { s.tellTaken(ctx, session.Lease()) })
	var last []byte
	for {
		now, err := json.Marshal(reported(s.clients()))
		if err != nil {
			return err
		}
		if !bytes.Equal(now, last) {
			if _, err := s.config.Etcd.Put(ctx, s.replica, string(now), clientv3.WithLease(session.Lease())); err != nil {
				return err
			}
			last = now
		}
		if err := s.tellRefused(ctx, session.Lease()); err != nil {
			return err
		}
		select {
		case <-look:
		case <-session.Done():
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// endLease removes the report at once, if it can. Otherwise it goes when the lease ends by itself.
func (s *Server) endLease(ctx context.Context, session *concurrency.Session) {
	session.Orphan()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replicaTimeout)
	defer cancel()
	if _, err := s.config.Etcd.Revoke(ctx, session.Lease()); err != nil {
		s.config.Logger.Debug("a lease of what was told is not ended", zap.Error(err))
	}
}
