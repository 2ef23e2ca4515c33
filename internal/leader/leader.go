// Package leader has one of several processes do something, while it holds a lock in etcd.
package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/timing"
)

const (
	// TTL is how long, in seconds, a process that died keeps others from taking over.
	TTL = 15
	// retry is the pause after the lock was lost.
	retry = 2 * time.Second
	// letGo bounds how long the lock is given back.
	letGo = 10 * time.Second
)

// A Task is something that one process does at a time.
type Task struct {
	Etcd *clientv3.Client
	Key  string // of the lock
	What string // for logs: "alerts"
	Log  *zap.Logger
	// Do works until its context ends, which is when the lock is lost. Held holds in etcd while it is not. Resign gives
	// the lock up.
	Do func(ctx context.Context, held clientv3.Cmp, resign func())
}

// Run runs the task whenever this process holds the lock, until ctx ends.
func (t Task) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := t.lead(ctx); err != nil && ctx.Err() == nil {
			t.Log.Warn(t.What+" pause", zap.Error(err))
		}
		_ = timing.Sleep(ctx, retry) // its end ends the loop
	}
	return ctx.Err()
}

// lead waits for the lock and works while it is held.
func (t Task) lead(ctx context.Context) error {
	session, err := concurrency.NewSession(t.Etcd, concurrency.WithTTL(TTL), concurrency.WithContext(ctx))
	if err != nil {
		return fmt.Errorf("asking for the lock of %s: %w", t.What, err)
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGo)
		defer cancel()
		_, _ = t.Etcd.Revoke(end, session.Lease()) // else it ends by itself
	}()
	mutex := concurrency.NewMutex(session, t.Key)
	if err := mutex.Lock(ctx); err != nil {
		return fmt.Errorf("waiting for the lock of %s: %w", t.What, err)
	}
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(session.Ctx(), cancel)
	defer stop()
	t.Do(held, mutex.IsOwner(), cancel)
	return errors.New("the lock of " + t.What + " is lost")
}
