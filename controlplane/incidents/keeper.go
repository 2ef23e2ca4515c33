package incidents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/attention"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/leader"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	judgeEvery = 15 * time.Second
	timeout    = 30 * time.Second
)

// Options configure a Keeper. Every field is required unless its comment says otherwise.
type Options struct {
	Etcd  *clientv3.Client
	Facts func(context.Context) (attention.Facts, error)
	// Versions returns the versions of an object, the newest first.
	Versions func(ctx context.Context, kind configv1.Kind, name string) ([]adminapi.Version, error)
	// Undoes reports whether a rollback of an object to a revision would change it.
	Undoes func(ctx context.Context, kind configv1.Kind, name string, revision int64) (bool, error)
	// KeyName returns the name of a key for people; empty: it has none.
	KeyName func(id string) string
	// State returns the configuration, and false while it is not known.
	State func() (configstore.State, bool)
	Log   Log
	Store *Store
	// Logger takes what goes wrong, and each transition.
	Logger *zap.Logger
	// Interval is the time between judgements. 0: 15 s.
	Interval time.Duration
	// Now is the clock. Nil: the system's.
	Now func() time.Time
}

// A Keeper judges from time to time, and keeps what has changed. One control plane of several does, the one that holds
// a lock in etcd. What two do in its absence is kept once.
type Keeper struct {
	options Options
	// seen is since when a trouble is there that is no incident yet, by subject. It is used by one goroutine.
	seen map[string]time.Time
	// unkept is the trouble of the ledger while it cannot be kept, or nil. The same goroutine uses it.
	unkept *Trouble
}

// New returns a keeper that does nothing before Run.
func New(o Options) *Keeper {
	o.Interval = cmp.Or(o.Interval, judgeEvery)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Keeper{options: o, seen: map[string]time.Time{}}
}

// Run judges until ctx ends, whenever this control plane holds the lock.
func (k *Keeper) Run(ctx context.Context) error {
	return leader.Task{Etcd: k.options.Etcd, Key: configstore.Turns + "incidents", What: "incidents",
		Log: k.options.Logger, Do: k.lead}.Run(ctx)
}

// lead works while the lock is held.
func (k *Keeper) lead(ctx context.Context, _ clientv3.Cmp, _ func()) {
	_ = timing.Every(ctx, k.options.Interval, func() {
		if err := k.judge(ctx); err != nil && ctx.Err() == nil {
			k.options.Logger.Warn("incidents could not be judged", zap.Error(err))
		}
	})
}

// judge makes the changes that are due now.
func (k *Keeper) judge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	state, ready := k.options.State()
	if !ready {
		return nil
	}
	facts, err := k.options.Facts(ctx)
	if err != nil {
		return fmt.Errorf("gathering facts: %w", err)
	}
	now := k.options.Now().UTC()
	open, err := k.options.Store.open(ctx)
	found := k.withUnkept(now, Judge(facts), err == nil)
	k.note(now, found)
	if err != nil {
		return err
	}
	d := &describer{log: k.options.Log, versions: k.options.Versions, undoes: k.options.Undoes,
		keyName: k.options.KeyName, now: now, gap: k.options.Interval + time.Second}
	found = slices.DeleteFunc(found, func(t Trouble) bool {
		_, is := open[t.Subject]
		return !is && !settled(t.Kind, now.Sub(k.seen[t.Subject]))
	})
	begun := map[string]time.Time{}
	for _, t := range found {
		if _, is := open[t.Subject]; is {
			continue
		}
		if begun[t.Subject], err = d.since(ctx, t, k.seen[t.Subject]); err != nil {
			return fmt.Errorf("looking for the begin of %s: %w", t.Subject, err)
		}
		if seen := k.seen[t.Subject]; seen.Before(begun[t.Subject]) {
			begun[t.Subject] = seen
		}
	}
	sure := facts.Ledger == ""
	changes := step(now, found, begun, open, sure)
	if sure {
		changes, err = k.describe(ctx, d, found, open, changes, facts, modelsIn(state))
	}
	return errors.Join(err, k.apply(ctx, now, changes))
}

// withUnkept returns what was found with the trouble of the ledger that could not be kept, because the ledger is where
// incidents are kept. It is over when it can.
func (k *Keeper) withUnkept(now time.Time, found []Trouble, can bool) []Trouble {
	i := slices.IndexFunc(found, func(t Trouble) bool { return t.Kind == adminapi.AttentionLedger })
	switch {
	case i >= 0 && can:
		k.unkept = nil
	case i >= 0:
		k.unkept = &found[i]
	case can && k.unkept != nil:
		t := *k.unkept
		t.Since, t.Last, k.unkept = k.seen[t.Subject], now, nil
		return append(found, t)
	}
	return found
}

// note remembers since when each trouble is there, and forgets those that are over.
func (k *Keeper) note(now time.Time, found []Trouble) {
	seen := map[string]time.Time{}
	for _, t := range found {
		seen[t.Subject] = now
		if at, was := k.seen[t.Subject]; was {
			seen[t.Subject] = at
		}
	}
	k.seen = seen
}

// describe adds to changes what is told of each incident that goes on, and adds changes for that alone.
func (k *Keeper) describe(ctx context.Context, d *describer, found []Trouble, open map[string]kept, changes []change,
	f attention.Facts, models []*configv1.Model) ([]change, error) {
	ill := map[string]bool{}
	for _, t := range found {
		if name, ok := strings.CutPrefix(t.Subject, "provider/"); ok {
			ill[name] = true
		}
	}
	for _, t := range found {
		i := slices.IndexFunc(changes, func(c change) bool { return c.after.Subject == t.Subject })
		c := change{after: open[t.Subject]}
		if i >= 0 {
			c = changes[i]
		}
		before := c.after
		a := &c.after
		var err error
		var last time.Time
		if a.Hit, last, err = d.hit(ctx, t, a.Since); err != nil {
			return changes, err
		}
		if !a.Described { // also of one that has opened while the ledger did not answer
			if a.Change, err = d.change(ctx, t, a.Since); err != nil {
				return changes, err
			}
			a.Described = true
		}
		a.Last, a.Gateway, a.Requests = later(last, t.Last), remedy(t, f, models, ill), requestsPath(t, a.Since)
		if t.Kind == adminapi.AttentionBudget { // which is spent until it is raised or resets, whatever it refuses
			a.Last = time.Time{}
		}
		switch {
		case i >= 0:
			changes[i] = c
		case !sameTold(before, c.after):
			changes = append(changes, c)
		}
	}
	return changes, nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sameTold reports whether two states of an incident are told alike.
func sameTold(a, b kept) bool {
	return a.Described == b.Described && a.Hit.Requests == b.Hit.Requests && a.Hit.CostUSD == b.Hit.CostUSD &&
		a.Gateway == b.Gateway && a.Last.Equal(b.Last)
}

// apply keeps changes. What another control plane has changed is left for the next judgement.
func (k *Keeper) apply(ctx context.Context, now time.Time, changes []change) error {
	ended := false
	for _, c := range changes {
		err := k.options.Store.apply(ctx, c)
		if errors.Is(err, errLost) {
			continue
		}
		if err != nil {
			return err
		}
		if c.transition != nil {
			k.options.Logger.Info("an incident has changed", zap.String("subject", c.after.Subject),
				zap.String("state", c.after.State), zap.String("kind", c.after.Kind), zap.String("why", c.after.Why))
			ended = ended || c.after.State == adminapi.IncidentClosed
		}
	}
	if ended {
		return k.options.Store.prune(ctx, now)
	}
	return nil
}

// modelsIn returns the models of a configuration, by name.
func modelsIn(state configstore.State) []*configv1.Model {
	byName := map[string]*configv1.Model{}
	for _, m := range configstore.All[*configv1.Model](state) {
		byName[m.GetName()] = m
	}
	var all []*configv1.Model
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		all = append(all, byName[name])
	}
	return all
}
