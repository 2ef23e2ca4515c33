// Package archive moves ended work from etcd to the blob store after a while, and removes it from there when it is
// old. So etcd has only open and recent work, however much was ever done.
//
// Readers do not use this package. The store finds a record at each read. At any revision of etcd, a record is in
// exactly one of the two.
package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/timing"
	"github.com/modelgate/modelgate/jobsvc/queue"
	"github.com/modelgate/modelgate/jobsvc/store"
)

const (
	queueKind = "archive"
	queueItem = "archive"
	// most bounds the records of one tenant that a pass moves.
	most = 5000
)

// Objects are a kind of objects that are archived: a store.Kind.
type Objects interface {
	Tenants(ctx context.Context, s *store.Store) ([]store.Tenant, error)
	Archive(ctx context.Context, s *store.Store, t store.Tenant, m store.Move) (store.Moved, error)
	Retire(ctx context.Context, s *store.Store, before int64, held []clientv3.Cmp,
		release func(*store.Txn, *store.Segment)) (int, error)
	Segments(ctx context.Context, s *store.Store, of store.Account, f func(*store.Segment) error) error
}

// A Kind is a kind of archived objects.
type Kind struct {
	Name    string      // in metrics
	Queue   string      // the queue's kind of items that still need their record
	Quota   store.Quota // counts all of them, archived or not
	Objects Objects
	// Release adds the final removal of a segment's objects to a transaction. It may be nil.
	Release func(*store.Txn, *store.Segment)
}

// Limits are the operator's settings.
type Limits struct {
	After time.Duration // how long ended objects stay in etcd. 0: 24 h
	Keep  time.Duration // how long after their end they are removed from the archive. 0: 90 days
	Every time.Duration // between passes. 0: 5 min
}

// Options are the dependencies of a Service.
type Options struct {
	Store      *store.Store // with an archive
	Queue      *queue.Queue
	Kinds      []Kind
	Limits     Limits
	Now        func() time.Time
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// A Service archives objects, on one of all replicas.
type Service struct {
	Options
	metrics *metrics
}

// New returns a service that does nothing before Run.
func New(o Options) (*Service, error) {
	for at, normal := range map[*time.Duration]time.Duration{
		&o.Limits.After: 24 * time.Hour, &o.Limits.Keep: 90 * 24 * time.Hour, &o.Limits.Every: 5 * time.Minute,
	} {
		if *at == 0 {
			*at = normal
		}
	}
	if o.Limits.Keep < o.Limits.After {
		return nil, fmt.Errorf("archive: what is over is kept for %s, which is less than the %s before it is archived",
			o.Limits.Keep, o.Limits.After)
	}
	m, err := newMetrics(o.Registerer)
	return &Service{o, m}, err
}

// Run archives until ctx ends.
func (s *Service) Run(ctx context.Context) {
	s.Queue.WorkAlone(ctx, s.Store, queue.Item{Kind: queueKind, ID: queueItem},
		func(ctx context.Context, c *queue.Claim) error {
			_ = timing.Every(ctx, s.Limits.Every, func() {
				if err := s.Pass(ctx, c.Held()); err != nil && ctx.Err() == nil {
					s.Log.Warn("not all that is over was archived; it will be tried again", zap.Duration("in", s.Limits.Every),
						zap.Error(err))
				}
			})
			return nil
		})
}

// Pass archives and removes all due objects. After an error it continues with the others. Each transaction requires
// held.
func (s *Service) Pass(ctx context.Context, held ...clientv3.Cmp) error {
	var failed error
	for _, k := range s.Kinds {
		if err := s.pass(ctx, k, held); err != nil {
			s.metrics.failures.Inc()
			failed = errors.Join(failed, fmt.Errorf("%s: %w", k.Name, err))
		}
	}
	if failed == nil {
		s.metrics.passed.Set(float64(s.Now().Unix()))
	}
	return failed
}

func (s *Service) pass(ctx context.Context, k Kind, held []clientv3.Cmp) error {
	now := s.Now()
	busy, err := s.Queue.Items(ctx, k.Queue)
	if err != nil {
		return err
	}
	tenants, failed := k.Objects.Tenants(ctx, s.Store)
	var all store.Moved
	for _, t := range tenants {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m := store.Move{Before: now.Add(-s.Limits.After).Unix(), Busy: func(id string) bool { return busy[id] }, Most: most,
			Held: held}
		done, err := k.Objects.Archive(ctx, s.Store, t, m)
		all.Kept, all.Moved = all.Kept+done.Kept, all.Moved+done.Moved
		failed = errors.Join(failed, err)
	}
	removed, err := k.Objects.Retire(ctx, s.Store, now.Add(-s.Limits.Keep).Unix(), held, k.Release)
	failed = errors.Join(failed, err)
	segments, records := 0, 0
	err = k.Objects.Segments(ctx, s.Store, store.Account{}, func(of *store.Segment) error {
		segments,
			records = segments+1, records+of.Records
		return nil
	})
	s.metrics.tell(k.Name, all.Kept, records, segments)
	if all.Moved+removed > 0 {
		s.Log.Info("archived", zap.String("kind", k.Name), zap.Int("moved", all.Moved), zap.Int("removed", removed),
			zap.Int("left", all.Kept))
	}
	return errors.Join(failed, err)
}

// Leaves returns how long after its end an object stops counting for a quota of an account, and when the next one
// does; zero: none is archived. Keys without an organization have no archived objects.
func (s *Service) Leaves(ctx context.Context, q store.Quota, of store.Account) (after time.Duration, next time.Time,
	err error) {
	if of.Organization == "" {
		return s.Limits.After, next, nil
	}
	for _, k := range s.Kinds {
		if k.Quota != q {
			continue
		}
		err = k.Objects.Segments(ctx, s.Store, of, func(one *store.Segment) error {
			if at := time.Unix(one.Ended, 0).Add(s.Limits.Keep); next.IsZero() || at.Before(next) {
				next = at
			}
			return nil
		})
	}
	return s.Limits.Keep, next, err
}
