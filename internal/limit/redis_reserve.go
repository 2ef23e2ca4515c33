package limit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// The first value of the reserve script's answer.
const (
	admitted = iota
	refused
	leaseLost
	storeLost
)

// errStoreLost means that the store has lost its counts, and that the replicas are sending them again.
var errStoreLost = errors.New("the store has lost what was counted, and is told again")

// A use is one counter of a demand. Rules with the same name share it.
type use struct {
	key      string
	window   Window
	reserved int64
	used     int64 // known after settling
	slot     int64
	limit    int64
	limited  bool // by a rule that is not a shadow
}

// uses returns the counters of rules, and the index of each rule's counter.
func (r *Redis) uses(rules []Rule, a Amounts) (uses []use, of []int) {
	uses, of = make([]use, 0, len(rules)), make([]int, len(rules))
	for i, rule := range rules {
		key, at := r.key(rule.Counter, rule.Window), 0
		for at < len(uses) && uses[at].key != key {
			at++
		}
		if at == len(uses) {
			uses = append(uses, use{key: key, window: rule.Window, reserved: a[rule.Measure], limit: math.MaxInt64})
		}
		of[i] = at
		if !rule.Shadow {
			uses[at].limited = true
			uses[at].limit = min(uses[at].limit, rule.Limit)
		}
	}
	return uses, of
}

// holds reports whether a counter holds its amount until it is settled.
func holds(uses []use) bool {
	for _, u := range uses {
		if u.window.length() == 0 {
			return true
		}
	}
	return false
}

// A redisReservation has the amounts that the store counted for a demand.
type redisReservation struct {
	redis   *Redis
	lease   *lease // nil if nothing is held, or if the store was not available
	local   Reservation
	rules   []Rule
	uses    []use
	of      []int
	settled atomic.Bool
}

// Settle implements Reservation.
func (s *redisReservation) Settle(used Amounts) {
	if s.settled.Swap(true) {
		return
	}
	if s.local != nil {
		s.local.Settle(used)
	}
	used = used.clamp()
	for i, rule := range s.rules {
		s.uses[s.of[i]].used = used[rule.Measure]
	}
	s.redis.unsettled.settle(s.lease, s.uses, s.redis.now())
	s.redis.poke()
}

// Reserve implements Limiter. The request waits at most the timeout for the store. The end of its context does not
// cancel the call, because then it would not be known whether anything was reserved.
func (r *Redis) Reserve(ctx context.Context, d Demand) (Decision, error) {
	d.Amounts = d.Amounts.clamp()
	if len(d.Rules) == 0 {
		return r.local.Reserve(ctx, d)
	}
	if r.away.Load() {
		return r.degraded(ctx, d)
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.Timeout)
	defer cancel()
	s := &redisReservation{redis: r, rules: d.Rules}
	s.uses, s.of = r.uses(d.Rules, d.Amounts)
	// If the lease has expired or the store has lost it, try once with a new one.
	for range 2 {
		answer, err := r.ask(asking, s)
		if err != nil {
			r.lost(err)
			return r.degraded(ctx, d)
		}
		if answer[0] != leaseLost {
			return s.decide(d, answer), nil
		}
	}
	r.lost(errors.New("the store forgets who holds what"))
	return r.degraded(ctx, d)
}

// ask runs the script of a demand.
func (r *Redis) ask(ctx context.Context, s *redisReservation) ([]int64, error) {
	if err := r.meet(ctx); err != nil {
		return nil, err
	}
	name := ""
	if holds(s.uses) {
		s.lease = r.unsettled.enter()
		name = s.lease.name
		if err := r.register(ctx, s.lease); err != nil {
			r.unsettled.leave(s.lease, s.uses, refused)
			return nil, err
		}
	}
	answer, err := r.look(ctx, name, "", s.uses)
	if s.lease == nil {
		return answer, err
	}
	if err != nil {
		r.unsettled.lose(s.lease, s.uses)
		return nil, err
	}
	if r.unsettled.leave(s.lease, s.uses, answer[0]) {
		r.poke()
	}
	return answer, nil
}

// look runs the script that decides, or with "peek" only reads, and updates the server's time.
func (r *Redis) look(ctx context.Context, lease, peek string, uses []use) ([]int64, error) {
	keys := append(make([]string, 0, 2+len(uses)), r.leasesKey(), r.storeKey())
	args := append(make([]any, 0, 3+3*len(uses)), r.known(), lease, peek)
	for _, u := range uses {
		most := ""
		if u.limited {
			most = strconv.FormatInt(u.limit, 10)
		}
		keys = append(keys, u.key)
		args = append(args, kindOf(u.window), u.reserved, most)
	}
	reply, err := r.scripts.reserve.run(ctx, r, r.o.Timeout, keys, args)
	if err != nil {
		return nil, err
	}
	answer, err := integers(reply, 2)
	if err != nil {
		return nil, err
	}
	r.offset.Store(int64(time.Until(time.UnixMicro(answer[1]))))
	switch {
	case answer[0] == storeLost:
		return nil, errStoreLost
	case answer[0] != leaseLost && len(answer) != 2+3*len(uses):
		return nil, fmt.Errorf("the store answers with %d numbers", len(answer))
	}
	return answer, nil
}

func integers(reply []any, least int) ([]int64, error) {
	if len(reply) < least {
		return nil, fmt.Errorf("the store answers with %d numbers", len(reply))
	}
	all := make([]int64, len(reply))
	for i, v := range reply {
		n, ok := v.(int64)
		if !ok {
			return nil, fmt.Errorf("the store answers with %T", v)
		}
		all[i] = n
	}
	return all, nil
}

// decide converts the answer to a demand.
func (s *redisReservation) decide(d Demand, answer []int64) Decision {
	now := time.UnixMicro(answer[1])
	decision := Decision{States: make([]State, 0, len(d.Rules)), Refused: -1}
	for i, rule := range d.Rules {
		u := &s.uses[s.of[i]]
		at := answer[2+3*s.of[i]:][:3]
		state := stored(&rule, d.Amounts[rule.Measure], now, at, answer[0] == refused)
		decision.add(i, &rule, state)
		u.slot = at[2]
	}
	if answer[0] == admitted {
		s.redis.unsettled.admit(s.uses, now)
		decision.Reservation = s
	}
	return decision
}

// stored converts the script's answer about a counter: the used amount, the last slot or the spent amount, and the
// slot that must end.
func stored(rule *Rule, amount int64, now time.Time, at []int64, wasRefused bool) windowState {
	s := windowState{used: at[0], refuses: wasRefused && rule.exceeds(at[0], amount)}
	w := rule.Window
	ends := func(slot int64) time.Duration {
		return time.Duration((slot+countedSlots)*int64(w.slot()) - now.UnixNano())
	}
	switch {
	case s.used == 0 || w == Now:
	case w.calendar():
		s.reset = w.left(now)
	default:
		s.reset = ends(at[1])
	}
	switch {
	case !s.refuses || amount > rule.Limit:
	case w.length() == 0:
		s.retry = w.heldRetry(amount, at[1], rule.Limit, now)
	default:
		s.retry = ends(at[2])
	}
	return s
}

// lost handles a failure of the store.
func (r *Redis) lost(err error) {
	if r.away.CompareAndSwap(false, true) {
		r.o.Log.Warn("the store of limits is unavailable", zap.Error(err), zap.Bool("fail_open", r.o.FailOpen))
	}
	r.poke()
}

// degraded decides without the store.
func (r *Redis) degraded(ctx context.Context, d Demand) (Decision, error) {
	enforced := slices.ContainsFunc(d.Rules, func(rule Rule) bool { return !rule.Shadow })
	if enforced && !r.o.FailOpen {
		return Decision{}, ErrStore
	}
	decision, err := r.local.Reserve(ctx, d)
	decision.Degraded = true
	if decision.Reservation != nil {
		s := &redisReservation{redis: r, local: decision.Reservation, rules: d.Rules}
		s.uses, s.of = r.uses(d.Rules, Amounts{})
		decision.Reservation = s
	}
	return decision, err
}

// Raise implements Limiter. It returns ErrStore while the store is not available. This process then counts alone, and
// admits its share of the rest.
func (r *Redis) Raise(ctx context.Context, counter string, w Window, at time.Time, amount int64) error {
	if !w.calendar() || amount <= 0 {
		return nil
	}
	if err := r.local.Raise(ctx, counter, w, at, amount); err != nil {
		return err
	}
	if r.away.Load() {
		return ErrStore
	}
	if err := r.meet(ctx); err != nil {
		return fmt.Errorf("raise a counter: %w", err)
	}
	if err := r.apply(ctx, r.o.Timeout, "",
		[]entry{{r.key(counter, w), "^" + kindOf(w), w.period(at), amount}}); err != nil {
		return fmt.Errorf("raise a counter: %w", err)
	}
	return nil
}

// Seed implements Limiter. The local counters, for the time without the store, get their share.
func (r *Redis) Seed(ctx context.Context, past []Past) error {
	away := error(nil)
	if r.away.Load() {
		away = ErrStore
	} else if err := r.seed(ctx, past); err != nil {
		return fmt.Errorf("seed counters: %w", err)
	}
	return cmp.Or(r.local.Seed(ctx, past), away)
}

func (r *Redis) seed(ctx context.Context, past []Past) error {
	if err := r.meet(ctx); err != nil {
		return err
	}
	of := map[string][]entry{}
	for _, p := range past {
		if w := p.Window; w.length() > 0 && p.Amount > 0 {
			key, at := r.key(p.Counter, w), p.At.Add(time.Duration(r.offset.Load())).UnixNano()/int64(w.slot())
			of[key] = append(of[key], entry{key, "?" + kindOf(w), at, min(p.Amount, maxAmount)})
		}
	}
	for _, entries := range of { // the entries of a counter in one step, because they are all skipped or none
		if err := r.apply(ctx, flushTimeouts*r.o.Timeout, "", entries); err != nil {
			return err
		}
	}
	return nil
}

// Peek implements Limiter. While the store is not available, it returns the local states, or ErrStore.
func (r *Redis) Peek(ctx context.Context, rules []Rule) ([]State, error) {
	if r.away.Load() {
		if !r.o.FailOpen {
			return nil, ErrStore
		}
		return r.local.Peek(ctx, rules)
	}
	if err := r.meet(ctx); err != nil {
		return nil, fmt.Errorf("look at counters: %w", err)
	}
	uses, of := r.uses(rules, Amounts{})
	answer, err := r.look(ctx, "", "peek", uses)
	if err != nil {
		return nil, fmt.Errorf("look at counters: %w", err)
	}
	states := make([]State, len(rules))
	for i, rule := range rules {
		states[i] = stored(&rule, 0, time.UnixMicro(answer[1]), answer[2+3*of[i]:][:3], false).state(&rule)
	}
	return states, nil
}
