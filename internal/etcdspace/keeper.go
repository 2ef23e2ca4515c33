package etcdspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const (
	// history is how far back in time revisions are kept. Whoever follows etcd is behind by moments, and reads anew where
	// that was too long; a backup, which reads at one revision, takes longer.
	history      = 10 * time.Minute
	compactEvery = time.Minute
	// Under pressure, that is when the file has so much of the quota, less history is kept.
	pressed          = 0.50
	pressedHistory   = 30 * time.Second
	pressedInterval  = 15 * time.Second
	compactTimeout   = time.Minute
	defragTimeout    = 5 * time.Minute // a member takes about 10 s for a GB, and answers nobody meanwhile
	defragPause      = 5 * time.Minute // between two members, or the same again
	pressedPause     = time.Minute
	fullPause        = 5 * time.Second
	worthDefragment  = 64 << 20 // bytes that are gained, if the file is not large for the quota
	worthOfTheQuota  = 0.10     // gained, if it is
	worthWhenFull    = 0.01
	defragmentBeyond = 0.75 // of the quota
	// disarmBelow is the part of the quota below which the alarm can be taken back: nearer to it, it is raised again at
	// once.
	disarmBelow = 0.97
)

// KeeperOptions say what a Keeper does.
type KeeperOptions struct {
	// Compact and Defragment are off if the operator does it. With both off the alarm is left alone too.
	Compact, Defragment bool
	// Leads reports whether this process is the one of several that keeps etcd. It is asked before every step. Nil: it is
	// alone.
	Leads func(ctx context.Context) bool
	Now   func() time.Time
	Log   *zap.Logger
}

// A Keeper makes room in etcd. It is used by one goroutine.
type Keeper struct {
	KeeperOptions
	room    *Room
	seen    []moment // old to new
	kept    int64    // revision of the last compaction
	compact time.Time
	defrag  time.Time // when the last one ended, or this process began to lead
	took    time.Duration
	// tidied holds, by member, the revision to which etcd was compacted before the last defragmentation.
	tidied map[uint64]int64
	led    bool
}

// A moment is how far etcd was at a time.
type moment struct {
	at       time.Time
	revision int64
}

// NewKeeper returns a keeper of the etcd that room watches.
func NewKeeper(room *Room, o KeeperOptions) *Keeper {
	return &Keeper{KeeperOptions: o, room: room, tidied: map[uint64]int64{}}
}

// Step does what is due, which is little most times. It is called after each look.
func (k *Keeper) Step(ctx context.Context) {
	state, now := k.room.State(), k.Now()
	k.seen = append(k.seen, moment{now, state.Revision})
	leads := k.Leads == nil || k.Leads(ctx)
	if leads && !k.led {
		k.defrag = now // whoever led before may be in the midst of one
	}
	if k.led = leads; !leads {
		k.forget(now)
		return
	}
	if k.Compact {
		k.compactDue(ctx, state, now)
	}
	if k.Defragment {
		k.defragmentDue(ctx, state, now)
	}
	if state := k.room.State(); state.Full && (k.Compact || k.Defragment) && state.Filled() < disarmBelow {
		k.disarm(ctx, state)
	}
	k.forget(now)
}

// Repair does at once what can be done for an etcd that is full, without a pause: when the process starts.
func (k *Keeper) Repair(ctx context.Context) error {
	for range 3 { // what a compaction has freed shows a moment later
		state, err := k.room.Look(ctx)
		if err != nil || !state.Full {
			return err
		}
		k.compact, k.defrag = time.Time{}, time.Time{}
		k.led = true
		k.Step(ctx)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
	_, err := k.room.Look(ctx)
	return err
}

// forget drops moments that no compaction needs any more: it keeps the newest of those that are old enough.
func (k *Keeper) forget(now time.Time) {
	old := k.olderThan(now.Add(-history))
	k.seen = slices.Delete(k.seen, 0, max(old, 0))
}

// olderThan returns the index of the newest moment before a time, or -1.
func (k *Keeper) olderThan(t time.Time) int {
	i, _ := slices.BinarySearchFunc(k.seen, t, func(m moment, t time.Time) int { return m.at.Compare(t) })
	return i - 1
}

func (k *Keeper) compactDue(ctx context.Context, state *State, now time.Time) {
	every, keep := compactEvery, history
	if state.Filled() >= pressed {
		every, keep = pressedInterval, pressedHistory
	}
	if state.Full {
		every, keep = fullPause, 0
	}
	if now.Sub(k.compact) < every {
		return
	}
	revision := state.Revision
	if !state.Full {
		i := k.olderThan(now.Add(-keep))
		if i < 0 {
			return
		}
		revision = k.seen[i].revision
	}
	if revision <= k.kept {
		return
	}
	k.compact = now
	ctx, cancel := context.WithTimeout(ctx, compactTimeout)
	defer cancel()
	_, err := k.room.etcd.Compact(ctx, revision, clientv3.WithCompactPhysical())
	if errors.Is(err, rpctypes.ErrCompacted) { // by etcd itself, or by another
		err = nil
	}
	k.room.metrics.did("compact", err)
	if err != nil {
		k.Log.Warn("etcd was not compacted", zap.Int64("revision", revision), zap.Error(err))
		return
	}
	k.kept = revision
}

// defragmentDue defragments one member at most.
func (k *Keeper) defragmentDue(ctx context.Context, state *State, now time.Time) {
	pause := defragPause
	if state.Filled() >= defragmentBeyond {
		pause = pressedPause
	}
	if state.Full {
		pause = max(fullPause, 2*k.took)
	}
	if now.Sub(k.defrag) < pause {
		return
	}
	if k.Compact && state.Full {
		// What the compaction before has freed is known after another look.
		if fresh, err := k.room.Look(ctx); err == nil {
			state = fresh
		}
	}
	m, ok := k.next(state)
	if !ok {
		return
	}
	began := k.Now()
	limited, cancel := context.WithTimeout(ctx, defragTimeout)
	defer cancel()
	_, err := k.room.etcd.Defragment(limited, m.Endpoint)
	k.defrag = k.Now()
	k.took = k.defrag.Sub(began)
	k.room.metrics.did("defragment", err)
	if err != nil {
		k.Log.Warn("a member of etcd was not defragmented", zap.String("member", m.Name), zap.Error(err))
		return
	}
	k.tidied[m.ID] = k.kept
	after, err := k.room.Look(ctx)
	if err != nil {
		return // the next look tells
	}
	for _, now := range after.Members {
		if now.ID == m.ID {
			k.Log.Info("a member of etcd was defragmented", zap.String("member", m.Name), zap.Duration("took", k.took),
				zap.Int64("bytes_before", m.Size), zap.Int64("bytes", now.Size))
		}
	}
}

// next returns the member that gains most from a defragmentation, the leader last. While a member is unavailable
// it returns none, unless etcd is full: too few others would be left.
func (k *Keeper) next(s *State) (best Member, ok bool) {
	if s.Missing > 0 && !s.Full {
		return best, false
	}
	for _, m := range s.Members {
		if !k.worth(m, s.Full) {
			continue
		}
		if !ok || best.Leader && !m.Leader || best.Leader == m.Leader && m.Size-m.InUse > best.Size-best.InUse {
			best, ok = m, true
		}
	}
	return best, ok
}

func (k *Keeper) worth(m Member, full bool) bool {
	gain := m.Size - m.InUse
	tidied, ever := k.tidied[m.ID]
	switch {
	case full && (!ever || tidied != k.kept):
		return true // what a compaction frees etcd tells only after another write, and there is none
	case full:
		return part(gain, m.Quota) >= worthWhenFull
	case part(m.Size, m.Quota) >= defragmentBeyond:
		return part(gain, m.Quota) >= worthOfTheQuota
	default:
		return gain >= worthDefragment && gain > m.InUse
	}
}

// disarm takes the alarm NOSPACE back, and no other.
func (k *Keeper) disarm(ctx context.Context, state *State) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var err error
	for _, a := range state.alarms {
		if _, failed := k.room.etcd.AlarmDisarm(ctx, (*clientv3.AlarmMember)(a)); failed != nil {
			err = fmt.Errorf("disarm: %w", failed)
		}
	}
	k.room.metrics.did("disarm", err)
	if err != nil {
		k.Log.Warn("etcd has room again, and its alarm was not taken back", zap.Error(err))
		return
	}
	k.Log.Info("etcd has room again: the alarm NOSPACE is taken back")
	_, _ = k.room.Look(ctx) // the next one tells
}
