package respcache

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// defaultLease is how long the other processes wait for one that was not heard of.
	defaultLease = 5 * time.Second
	// notKept is in the place of a lease for a moment, after a request whose answer is not kept. Equal requests do not
	// wait for each other then.
	notKept    = "-"
	notKeptFor = time.Second
	// aboutAnswer is how much of a sealed answer identifies it.
	aboutAnswer = 28
	// Those that wait look at the lease after firstLook, and then less often.
	firstLook = 20 * time.Millisecond
	lastLook  = 250 * time.Millisecond
)

// askScript returns an answer, unless it begins like a useless one. Without one it takes the lease, and returns who
// has it.
const askScript = `
local answer, useless = redis.call('GET', KEYS[1]), ARGV[3]
if answer and answer ~= '' and (useless == '' or string.sub(answer, 1, #useless) ~= useless) then
  return {answer, ''}
end
local holder = redis.call('GET', KEYS[2])
if not holder or holder == '' then
  holder = ARGV[1]
  redis.call('SET', KEYS[2], holder, 'PX', ARGV[2])
end
return {'', holder}`

// changeScript puts something in the place of a lease, or nothing, if it is still that of the token.
const changeScript = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if ARGV[2] == '' then return redis.call('DEL', KEYS[1]) end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

// A lease says that this process sends a request, for whose answer the others wait. It is renewed until its end. If
// the process dies, another may take it after a while.
type lease struct {
	redis *Redis
	name  string
	token string // nobody else knows it: the lease of another is never ended

	mu    sync.Mutex
	timer *time.Timer // of the next renewal; nil: there is none
}

func (r *Redis) newLease(k Key) *lease {
	return &lease{redis: r, name: r.name(k, "flight"), token: rand.Text()}
}

// begin begins the renewals.
func (l *lease) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = time.AfterFunc(l.redis.o.Lease/3, l.renew)
}

func (l *lease) renew() {
	_ = l.redis.do(context.Background(), func(ctx context.Context) error {
		return l.change(ctx, l.redis.client, l.token, l.redis.o.Lease)
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Reset(l.redis.o.Lease / 3)
	}
}

// stop ends the renewals.
func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// end ends the lease in the background: with again, one of the waiting requests takes it, and otherwise all of them
// go on.
func (l *lease) end(again bool) {
	l.stop()
	instead := ""
	if !again {
		instead = notKept
	}
	if l.redis.rests() {
		return // it expires
	}
	l.redis.under.Go(func() {
		_ = l.redis.do(context.Background(), func(ctx context.Context) error {
			return l.change(ctx, l.redis.client, instead, notKeptFor)
		})
	})
}

func (l *lease) change(ctx context.Context, c redis.Scripter, to string, ttl time.Duration) error {
	return l.redis.changes.Eval(ctx, c, []string{l.name}, l.token, to, ttl.Milliseconds()).Err()
}

// ask returns the sealed answer for a key, unless it begins like a useless one. Without one it takes the lease, and
// returns the holder's token.
func (r *Redis) ask(ctx context.Context, k Key, l *lease, useless string) (sealed, holder string, err error) {
	var reply []string
	err = r.do(ctx, func(ctx context.Context) (err error) {
		reply, err = r.asks.Run(ctx, r.client, []string{r.name(k, "answer"), l.name}, l.token, r.o.Lease.Milliseconds(),
			useless).StringSlice()
		return err
	})
	if err != nil {
		return "", "", err
	}
	return reply[0], reply[1], nil
}

// follow waits until another process has the lease no more. It reports false if it cannot know.
func (r *Redis) follow(ctx context.Context, name, holder string) bool {
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	for pause := firstLook; ; timer.Reset(pause) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
		has := ""
		err := r.do(ctx, func(ctx context.Context) (err error) {
			if has, err = r.client.Get(ctx, name).Result(); errors.Is(err, redis.Nil) {
				err = nil
			}
			return err
		})
		if err != nil {
			return false
		}
		if has != holder {
			return true
		}
		pause = min(pause*3/2, lastLook)
	}
}
