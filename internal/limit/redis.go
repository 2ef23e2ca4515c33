package limit

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// ErrStore means that the store is not available, and that the operator has chosen to refuse requests then.
var ErrStore = errors.New("the store of limits is unavailable")

const (
	defaultPrefix   = "modelgate"
	defaultTimeout  = 100 * time.Millisecond
	defaultLiveness = 30 * time.Second
)

// RedisOptions are the options of a limiter in Redis.
type RedisOptions struct {
	// Prefix is the prefix of every key, in braces, so that installations can share a server; empty is "modelgate". It
	// puts all keys into one slot of a Redis Cluster. That is necessary because all counters of a request are decided
	// together, and the counters of a provider or model are combined with those of any key.
	Prefix string
	// FailOpen selects what happens while the store is not available. If it is set, this process decides alone and admits
	// Share of each limit, at least 1. Otherwise Reserve returns ErrStore.
	FailOpen bool
	// Share is this replica's part of the limits while the store is not available, above 0 and at most 1; 0 means 1. With
	// the inverse of the number of replicas, all replicas together stay within the limit.
	Share float64
	// Timeout bounds the wait of a request for the store; 0 is 100 ms. After a timeout, other requests do not wait until
	// the store has answered in the background.
	Timeout time.Duration
	// Liveness is how long the amounts of a killed process are held; 0 is 30 s.
	Liveness time.Duration
	// Log logs when the store becomes unavailable or available; it may be nil.
	Log *zap.Logger
}

// A Redis is a limiter with counters in Redis or Valkey. All processes with the same prefix share them. A demand is
// one script, which uses the server's clock. Settlements are sent in the background in batches. Each settlement is
// applied once, even if its batch is sent again. Amounts that are admitted while the store is not available are sent
// later.
//
// If the store has lost its data, all replicas send the amounts that they were admitted and the amounts of their
// running requests. The store decides again after all had time for that. Amounts of replicas that have ended are lost.
// A store that has lost only its last moments, or a part of its keys, is not detected: it should persist its data, or
// have replicas, and not evict keys.
type Redis struct {
	client    redis.UniversalClient
	o         RedisOptions
	local     Limiter
	unsettled *unsettled
	// offset is the server's clock minus ours, in nanoseconds.
	offset atomic.Int64
	away   atomic.Bool
	// born is when the current store began, in microseconds of its clock; 0 if it is not known yet.
	born atomic.Int64
	// registering is locked while a lease is registered at the store.
	registering sync.Mutex
	scripts     scripts
	// wake wakes the background goroutine: there is something to send, or the store is not available.
	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}
}

// Trouble says what the gateway does while the store does not answer; empty: it answers.
func (r *Redis) Trouble() string {
	switch {
	case !r.away.Load():
		return ""
	case r.o.FailOpen:
		return "The Redis of limits does not answer: the process admits requests within the limits that it has counted itself."
	}
	return "The Redis of limits does not answer: requests that have a limit are refused."
}

// OpenRedis returns a client for NewRedis, without connecting. The URL's scheme is redis, rediss or unix. With
// "addr=HOST:PORT" for each further node it is a cluster, with "master_name=NAME" it uses sentinels.
func OpenRedis(address string) (redis.UniversalClient, error) {
	client, err := openRedis(address)
	if e := (*url.Error)(nil); errors.As(err, &e) { // it would show the password
		err = e.Err
	}
	if err != nil {
		return nil, fmt.Errorf("parse URL of redis: %w", err)
	}
	return client, nil
}

func openRedis(address string) (redis.UniversalClient, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	switch query := u.Query(); {
	case query.Has("master_name"):
		o, err := redis.ParseFailoverURL(address)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		return redis.NewFailoverClient(o), nil
	case query.Has("addr"):
		o, err := redis.ParseClusterURL(address)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		return redis.NewClusterClient(o), nil
	default:
		o, err := redis.ParseURL(address)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		return redis.NewClient(o), nil
	}
}

// NewRedis returns a limiter that uses a client, without connecting. The client must respect the deadlines of
// contexts, as OpenRedis's does. The caller closes it after the limiter.
func NewRedis(client redis.UniversalClient, o RedisOptions) *Redis {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Liveness == 0 {
		o.Liveness = defaultLiveness
	}
	if o.Share == 0 {
		o.Share = 1
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &Redis{
		client: client, o: o, local: Divide(NewMemory(Options{}), Division{Part: o.Share, OneLedger: true}),
		unsettled: newUnsettled(), scripts: newScripts(), wake: make(chan struct{}, 1), stop: stop,
		done: make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// Close sends what is owed until ctx ends, and releases the amounts of running requests. Nothing may be reserved or
// settled afterwards.
func (r *Redis) Close(ctx context.Context) error {
	r.stop()
	<-r.done
	if err := r.flush(ctx); err != nil {
		return fmt.Errorf("tell the store of limits what is owed: %w", err)
	}
	leases, ended, _ := r.unsettled.leases()
	if _, err := r.renewal(ctx, nil, append(leases, ended...)); err != nil {
		return fmt.Errorf("tell the store of limits that this process ends: %w", err)
	}
	return nil
}

func (r *Redis) key(counter string, w Window) string {
	return "{" + r.o.Prefix + "}:" + kindOf(w) + ":" + counter
}

func (r *Redis) leasesKey() string { return "{" + r.o.Prefix + "}:leases" }

func (r *Redis) storeKey() string { return "{" + r.o.Prefix + "}:store" }

func (r *Redis) batchKey() string { return "{" + r.o.Prefix + "}:batch:" + r.unsettled.process }

// kindOf returns the name of a window's kind in the scripts.
func kindOf(w Window) string {
	switch w {
	case CalendarDay:
		return "d"
	case CalendarMonth:
		return "m"
	case Now:
		return "c"
	default:
		return strconv.FormatInt(w.length().Microseconds(), 10)
	}
}

// known returns the identity of the current store for the scripts.
func (r *Redis) known() string {
	if born := r.born.Load(); born != 0 {
		return strconv.FormatInt(born, 10)
	}
	return ""
}

// now estimates the server's time.
func (r *Redis) now() time.Time { return time.Now().Add(time.Duration(r.offset.Load())) }

// poke wakes the background goroutine.
func (r *Redis) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

//go:embed *.lua
var lua embed.FS

// scripts are the scripts that the store runs.
type scripts struct{ reserve, apply, renew script }

func newScripts() scripts {
	return scripts{newScript("reserve.lua"), newScript("apply.lua"), newScript("renew.lua")}
}

// A script is run by its hash, and sent as text if the server does not know it.
type script struct{ text, hash string }

func newScript(name string) script {
	var text []byte
	for _, part := range []string{"shared.lua", name} {
		source, err := lua.ReadFile(part)
		if err != nil {
			panic(err) // it is embedded
		}
		text = append(text, source...)
	}
	sum := sha1.Sum(text)
	return script{string(text), hex.EncodeToString(sum[:])}
}

// once is a command that the client must not retry: it may have been executed even if the reply was lost.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run runs a script within the timeout.
func (s script) run(ctx context.Context, r *Redis, timeout time.Duration, keys []string, args []any) ([]any, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	command := append(make([]any, 0, 3+len(keys)+len(args)), "evalsha", s.hash, len(keys))
	for _, k := range keys {
		command = append(command, k)
	}
	command = append(command, args...)
	cmd := redis.NewCmd(ctx, command...)
	err := r.client.Process(ctx, once{cmd})
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		command[0], command[1] = "eval", s.text
		cmd = redis.NewCmd(ctx, command...)
		err = r.client.Process(ctx, once{cmd})
	}
	if err != nil {
		return nil, err
	}
	return cmd.Slice()
}
