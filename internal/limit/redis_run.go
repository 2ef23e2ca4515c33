package limit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	// linger is how long settlements are collected for a batch.
	linger = time.Millisecond
	// probeFirst and probeLast are the first and the longest interval between attempts to reach the store again.
	probeFirst = 20 * time.Millisecond
	probeLast  = time.Second
	// flushTimeouts is the timeout of a batch, as a multiple of a request's timeout.
	flushTimeouts = 10
	// renewEvery is the longest interval between renewals, so that each replica notices soon that the store has lost its
	// data.
	renewEvery = time.Second
	// graceRenewals is the number of renewals for which a store that has lost its data waits for the replicas before it
	// decides.
	graceRenewals = 2
)

// run sends what is owed, renews the leases, and checks whether an unavailable store is available again.
func (r *Redis) run(ctx context.Context) {
	defer close(r.done)
	renewal := time.NewTicker(r.renewEvery())
	defer renewal.Stop()
	probe := probeFirst
	for {
		wake, timer := r.wake, (<-chan time.Time)(nil)
		if r.away.Load() {
			wake, timer = nil, time.After(probe)
		}
		due := false
		select {
		case <-ctx.Done():
			return
		case <-timer:
		case <-renewal.C:
			due = true
		case <-wake:
			select {
			case <-time.After(linger):
			case <-ctx.Done():
				return
			}
		}
		if due {
			r.unsettled.sweep(r.now())
		}
		if err := r.step(ctx, due); err != nil && ctx.Err() == nil {
			r.lost(err)
			r.unsettled.forget(r.now())
			probe = min(2*probe, probeLast)
			continue
		}
		probe = probeFirst
	}
}

// step does what is due. If it succeeds, the store is available and has everything.
func (r *Redis) step(ctx context.Context, due bool) error {
	wasAway := r.away.Load()
	cold := false
	if leases, ended, urgent := r.unsettled.leases(); wasAway || due || urgent {
		var err error
		if cold, err = r.renew(ctx, leases, ended); err != nil {
			return err
		}
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if cold {
		return errStoreLost
	}
	if wasAway {
		r.away.Store(false)
		r.o.Log.Info("the store of limits is back", zap.Int64("amounts_dropped", r.unsettled.lost()))
	}
	return nil
}

func (r *Redis) renewEvery() time.Duration { return min(renewEvery, r.o.Liveness/3) }

// meet reads the identity of the store before the first demand.
func (r *Redis) meet(ctx context.Context) error {
	if r.born.Load() != 0 {
		return nil
	}
	r.registering.Lock()
	defer r.registering.Unlock()
	if r.born.Load() != 0 {
		return nil
	}
	is, err := r.renewal(ctx, nil, nil)
	if err != nil {
		return err
	}
	if is.cold {
		return errStoreLost
	}
	r.born.Store(is.born)
	return nil
}

// register registers a lease at the store, so that it counts.
func (r *Redis) register(ctx context.Context, l *lease) error {
	if l.registered.Load() {
		return nil
	}
	r.registering.Lock()
	defer r.registering.Unlock()
	if l.registered.Load() {
		return nil
	}
	is, err := r.renewal(ctx, []string{l.name}, nil)
	if err != nil {
		return err
	}
	if is.born != r.born.Load() {
		return errStoreLost
	}
	l.registered.Store(true)
	return nil
}

// renew renews leases and ends others, in the background. Amounts that the store has lost, or leases that it has
// expired, are sent again afterwards. It returns whether the store still waits for other replicas.
func (r *Redis) renew(ctx context.Context, renewed, ended []string) (cold bool, err error) {
	is, err := r.renewal(ctx, renewed, ended)
	if err != nil {
		return false, err
	}
	r.unsettled.end(ended)
	if known := r.born.Load(); known != is.born {
		if known != 0 {
			r.unsettled.retell(r.now())
		}
		r.born.Store(is.born)
	}
	for i, alive := range is.alive {
		if alive == 0 {
			r.unsettled.lapse(renewed[i])
		}
	}
	return is.cold, nil
}

// A renewed is the answer of the renew script.
type renewed struct {
	born  int64
	cold  bool    // it still waits for replicas
	alive []int64 // of each lease, whether it was alive
}

func (r *Redis) renewal(ctx context.Context, leases, ended []string) (renewed, error) {
	args := []any{r.known(), (graceRenewals * r.renewEvery()).Microseconds(), r.o.Liveness.Microseconds(), len(leases)}
	for _, name := range slices.Concat(leases, ended) {
		args = append(args, name)
	}
	reply, err := r.scripts.renew.run(ctx, r, r.o.Timeout, []string{r.leasesKey(), r.storeKey()}, args)
	if err != nil {
		return renewed{}, err
	}
	answer, err := integers(reply, 2+len(leases))
	if err != nil {
		return renewed{}, err
	}
	return renewed{answer[0], answer[1] > 0, answer[2:]}, nil
}

// flush sends what is owed, batch by batch. A batch that may have arrived is sent again unchanged, with its number,
// until the store confirms it.
func (r *Redis) flush(ctx context.Context) error {
	for {
		number, batch := r.unsettled.next()
		if len(batch) == 0 {
			return nil
		}
		err := r.apply(ctx, flushTimeouts*r.o.Timeout, number, batch)
		if err != nil && isPermanent(err) {
			r.o.Log.Error("the store of limits refuses what is settled", zap.Error(err), zap.Int("entries", len(batch)))
			err = nil
		}
		if err != nil {
			return fmt.Errorf("settle: %w", err)
		}
		r.unsettled.sent()
	}
}

// apply runs the script that applies a batch.
func (r *Redis) apply(ctx context.Context, timeout time.Duration, number any, batch []entry) error {
	keys := []string{r.leasesKey(), r.storeKey(), r.batchKey()}
	args := []any{r.known(), number}
	for _, e := range batch {
		keys = append(keys, e.key)
		args = append(args, e.kind, e.at, e.amount)
	}
	reply, err := r.scripts.apply.run(ctx, r, timeout, keys, args)
	if err != nil {
		return err
	}
	answer, err := integers(reply, 1)
	if err == nil && answer[0] == storeLost {
		err = errStoreLost
	}
	return err
}

// isPermanent reports whether the store will never accept a batch, because somebody else has written to our keys.
func isPermanent(err error) bool {
	return redis.HasErrorPrefix(err, "WRONGTYPE") || redis.HasErrorPrefix(err, "ERR") &&
		strings.Contains(err.Error(), "script")
}
