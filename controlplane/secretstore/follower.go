// Package secretstore follows secrets that are kept elsewhere, such as in Vault or in a cloud's secret manager: it
// reads them in the background, and keeps the last good ones in memory.
//
// Nobody waits for a store: [Follower.Get] answers at once with the last known value, and the channel of
// [Follower.Changed] reports changes. The most likely mistake is to read on demand instead, in a goroutine that
// others wait for.
package secretstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/timing"
)

const (
	defaultInterval = time.Minute
	// Timeout bounds one reading, with the sign-in that it may need.
	Timeout      = 10 * time.Second
	firstBackoff = time.Second // before a reading that failed is tried again; it doubles
	lastBackoff  = time.Minute
	shortestWait = 5 * time.Second // between two readings, whatever the lease says
	lookInterval = 2 * time.Second // at what the store is signed in with
	atOnce       = 4               // readings
	// LeaseShare is the part of a lease after which what it is for is had again.
	LeaseShare = 2.0 / 3
)

// ErrUnread is the error for a secret that has never been read. The one that wraps it has the cause.
var ErrUnread = errors.New("it has not been read yet")

// A RefusedError is a store's answer about a secret, such as that there is none. Any other error of a store means
// that it could not be asked.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns what the store says.
func (e *RefusedError) Unwrap() error { return e.Err }

// A Store is where secrets are. It is safe for concurrent use.
type Store interface {
	// Read reads the secret of a path.
	Read(ctx context.Context, path string) (Found, error)
	// Tend keeps what the store is signed in with valid, and reports whether that is another than at the last time.
	Tend(ctx context.Context) bool
}

// Found is the result of reading a secret.
type Found struct {
	Fields *Fields
	Lease  Lease
}

// A Lease says for how long a secret is good.
type Lease struct {
	Of       string // the id of this version, if it has one
	Duration time.Duration
}

// Options configure a Follower.
type Options struct {
	Store Store
	// Interval is how often each secret is read. 0: a minute.
	Interval time.Duration
	Log      *zap.Logger
}

// A Follower reads secrets again and again. A nil one has no store. It is safe for concurrent use.
type Follower struct {
	store    Store
	interval time.Duration
	look     time.Duration // at what the store is signed in with
	log      *zap.Logger
	changed  chan struct{}
	turns    chan struct{} // held while reading
	failures atomic.Uint64

	mu      sync.Mutex // guards what follows
	ctx     context.Context
	secrets map[string]*followed // by path
	workers sync.WaitGroup
}

// A followed secret has the last known value, and the work on the next.
type followed struct {
	fields *Fields // as last read; nil: never, or it is gone
	err    error   // of the last reading
	tried  bool
	again  chan struct{} // buffers one: it is to be read now
	stop   context.CancelFunc
}

// New returns a Follower that reads nothing before Run.
func New(o Options) *Follower {
	f := &Follower{store: o.Store, interval: o.Interval, look: lookInterval, log: o.Log, changed: make(chan struct{}, 1),
		turns: make(chan struct{}, atOnce), secrets: map[string]*followed{}}
	if f.interval == 0 {
		f.interval = defaultInterval
	}
	return f
}

// Run reads until ctx is done, and returns when nothing reads any more.
func (f *Follower) Run(ctx context.Context) {
	if f == nil {
		<-ctx.Done()
		return
	}
	f.mu.Lock()
	f.ctx = ctx
	for path, s := range f.secrets {
		f.begin(path, s)
	}
	f.mu.Unlock()
	for timing.Sleep(ctx, f.look) == nil {
		f.tend(ctx)
	}
	f.workers.Wait()
}

// tend keeps the store signed in, and reads what could not be read once that is with something else.
func (f *Follower) tend(ctx context.Context) {
	attempt, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	if !f.store.Tend(attempt) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.secrets {
		if s.err != nil {
			signal(s.again)
		}
	}
}

// Follow reads the secrets of the paths from now on, and forgets all others.
func (f *Follower) Follow(paths map[string]bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for path, s := range f.secrets {
		if !paths[path] {
			if s.stop != nil {
				s.stop()
			}
			delete(f.secrets, path)
		}
	}
	for path := range paths {
		if f.secrets[path] != nil {
			continue
		}
		s := &followed{again: make(chan struct{}, 1)}
		f.secrets[path] = s
		if f.ctx != nil && f.ctx.Err() == nil {
			f.begin(path, s)
		}
	}
}

// Get returns a field of a secret as it was last read, also while the store is unavailable. If it was never read,
// the error is an ErrUnread. Any other error is the store's answer.
func (f *Follower) Get(path, field string) (secret.Value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.secrets[path]
	switch {
	case s == nil || s.fields == nil && s.err == nil:
		return secret.Value{}, fmt.Errorf("%s: %w", path, ErrUnread)
	case s.fields != nil:
		return s.fields.Get(path, field)
	case refused(s.err):
		return secret.Value{}, fmt.Errorf("%s: %w", path, s.err)
	}
	return secret.Value{}, fmt.Errorf("%s: %w: %w", path, ErrUnread, s.err)
}

// Changed returns the channel that has something when Get answers other than before. It buffers one.
func (f *Follower) Changed() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.changed
}

// Settled reports whether every secret was tried to be read.
func (f *Follower) Settled() bool {
	if f == nil {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.secrets {
		if !s.tried {
			return false
		}
	}
	return true
}

// Failures returns how many readings have failed.
func (f *Follower) Failures() uint64 {
	if f == nil {
		return 0
	}
	return f.failures.Load()
}

// Stale returns how many secrets are in force though the last reading failed.
func (f *Follower) Stale() int {
	if f == nil {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.secrets {
		if s.fields != nil && s.err != nil {
			n++
		}
	}
	return n
}

// begin has a worker read a secret. The lock is held.
func (f *Follower) begin(path string, s *followed) {
	ctx, stop := context.WithCancel(f.ctx)
	s.stop = stop
	f.workers.Go(func() {
		defer stop()
		f.follow(ctx, path, s)
	})
}

// follow reads a secret again and again until ctx is done.
func (f *Follower) follow(ctx context.Context, path string, s *followed) {
	for backoff := firstBackoff; ; {
		found, err := f.read(ctx, path)
		if ctx.Err() != nil {
			return
		}
		f.settle(path, s, found.Fields, err)
		wait := backoff
		if err == nil {
			wait, backoff = f.next(found.Lease), firstBackoff
		} else {
			backoff = min(2*backoff, lastBackoff)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.again:
			backoff = firstBackoff
		case <-time.After(jittered(wait)):
		}
	}
}

// next returns when a secret is read again. One that has a lease of its own is another one each time, and is read when
// that is about to end; for any other, a lease says how long it may be kept.
func (f *Follower) next(l Lease) time.Duration {
	switch {
	case l.Of != "" && l.Duration > 0:
		return max(time.Duration(LeaseShare*float64(l.Duration)), shortestWait)
	case l.Duration > 0:
		return min(f.interval, max(l.Duration, shortestWait))
	}
	return f.interval
}

// jittered keeps replicas, and the secrets of one, from asking all at once.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.9 + 0.1*rand.Float64()))
}

func (f *Follower) read(ctx context.Context, path string) (Found, error) {
	select {
	case f.turns <- struct{}{}:
	case <-ctx.Done():
		return Found{}, ctx.Err()
	}
	defer func() { <-f.turns }()
	attempt, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	return f.store.Read(attempt, path)
}

// settle notes what a reading has found. What the store says is gone is forgotten; what could not be read stays.
func (f *Follower) settle(path string, s *followed, now *Fields, err error) {
	if err != nil {
		f.failures.Add(1)
	}
	f.mu.Lock()
	before, beforeErr, stale := s.fields, s.err, false
	switch {
	case err == nil, refused(err):
		s.fields, s.err = now, err
	case s.fields == nil && refused(s.err): // what the store said last stays, too
	default:
		stale, s.err = s.fields != nil, err
	}
	differs := !s.tried || !before.equal(s.fields) || s.fields == nil && said(beforeErr) != said(s.err)
	s.tried = true
	f.mu.Unlock()
	switch {
	case stale && said(beforeErr) != said(err):
		f.log.Warn("a secret cannot be read again; the last one stays in force", zap.String("path", path),
			zap.Error(err))
	case err == nil && before != nil && beforeErr != nil:
		f.log.Info("a secret can be read again", zap.String("path", path))
	}
	if differs {
		signal(f.changed)
	}
}

func refused(err error) bool {
	_, ok := errors.AsType[*RefusedError](err)
	return ok
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
