package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	// takenPause is how often a replica reports revisions, and how often it first reads the reports of others.
	// It is looked more and more seldom, up to takenPauses: many may wait for one that hangs.
	takenPause  = 50 * time.Millisecond
	takenPauses = time.Second
	// deadAfter is longer than one that lives takes to tell who is connected to it.
	deadAfter = 2 * replicaInterval
)

// Await returns when everything that is connected to any control plane of this etcd has taken a revision of the
// configuration, or when ctx ends: then it returns who has not, in words.
func (s *Server) Await(ctx context.Context, revision int64) []string {
	var missing []string
	lacking, published := s.publisher.Await(ctx, revision)
	if !published {
		missing = append(missing, "the control plane, which has not published it yet")
	}
	for _, c := range lacking {
		missing = append(missing, shortRole(c.Role)+" "+c.Node)
	}
	return append(missing, s.awaitReplicas(ctx, revision)...)
}

// awaitReplicas is Await for the clients of other replicas.
func (s *Server) awaitReplicas(ctx context.Context, revision int64) []string {
	if s.config.Etcd == nil {
		return nil
	}
	began := time.Now()
	for pause := takenPause; ; pause = min(2*pause, takenPauses) {
		behind, err := s.replicasBehind(ctx, revision, time.Since(began) > deadAfter)
		if err != nil {
			s.config.Logger.Warn("what other control planes have published is not known", zap.Error(err))
			return []string{"other control planes, of which etcd tells nothing"}
		}
		if behind == 0 {
			return nil
		}
		if timing.Sleep(ctx, pause) != nil {
			return []string{fmt.Sprintf("what is connected to %d other control planes", behind)}
		}
	}
}

// A connection is a client of xDS, by its role and node.
type connection [2]string

// replicasBehind returns how many other replicas have not reported that all their clients have a revision. It
// is asked also when ctx has ended. Where movedOn says so, one whose clients are all connected elsewhere does not
// count: it may be dead, and its report outlives it.
func (s *Server) replicasBehind(ctx context.Context, revision int64, movedOn bool) (behind int, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replicaTimeout)
	defer cancel()
	found, err := s.config.Etcd.Txn(ctx).Then(
		clientv3.OpGet(configstore.Replicas, clientv3.WithPrefix()),
		clientv3.OpGet(configstore.Taken, clientv3.WithPrefix()),
		clientv3.OpGet(configstore.Untaken, clientv3.WithPrefix()),
	).Commit()
	if err != nil {
		return 0, fmt.Errorf("reading what the replicas have told: %w", err)
	}
	if err := s.learnRefused(found.Responses[2].GetResponseRange().GetKvs()); err != nil {
		return 0, err
	}
	taken := map[string]bool{strings.TrimPrefix(s.replica, configstore.Replicas): true}
	for _, kv := range found.Responses[1].GetResponseRange().GetKvs() {
		if n, err := strconv.ParseInt(string(kv.Value), 10, 64); err == nil && n >= revision {
			taken[strings.TrimPrefix(string(kv.Key), configstore.Taken)] = true
		}
	}
	elsewhere := map[connection]bool{}
	for _, c := range s.clients() {
		elsewhere[connection{c.Role, c.Node}] = true
	}
	var late [][]adminapi.DataPlaneClient
	for _, kv := range found.Responses[0].GetResponseRange().GetKvs() {
		var clients []adminapi.DataPlaneClient
		if err := json.Unmarshal(kv.Value, &clients); err != nil {
			return 0, fmt.Errorf("reading what the replica %s has told: %w", kv.Key, err)
		}
		if !taken[strings.TrimPrefix(string(kv.Key), configstore.Replicas)] {
			late = append(late, clients)
			continue
		}
		for _, c := range clients {
			elsewhere[connection{c.Role, c.Node}] = true
		}
	}
	for _, clients := range late {
		stays := func(c adminapi.DataPlaneClient) bool { return !elsewhere[connection{c.Role, c.Node}] }
		if !movedOn || slices.ContainsFunc(clients, stays) {
			behind++
		}
	}
	return behind, nil
}

// tellTaken keeps in etcd, under a lease, which revision all have taken that are connected to this control plane,
// until ctx ends. While etcd takes nothing, as one that is full, it tries again.
func (s *Server) tellTaken(ctx context.Context, lease clientv3.LeaseID) {
	key := configstore.Taken + strings.TrimPrefix(s.replica, configstore.Replicas)
	told := int64(0)
	for {
		pause := takenPause
		next, err := s.publisher.NextTaken(ctx, told)
		if err != nil {
			return
		}
		err = s.tellRefused(ctx, lease) // before: who hears that it is taken knows what of it is not
		if err == nil {
			_, err = s.config.Etcd.Put(ctx, key, strconv.FormatInt(next, 10), clientv3.WithLease(lease))
		}
		if err == nil {
			told = next
		} else {
			s.config.Logger.Debug("other control planes cannot be told which revision is taken", zap.Error(err))
			pause = replicaInterval
		}
		if timing.Sleep(ctx, pause) != nil {
			return
		}
	}
}
