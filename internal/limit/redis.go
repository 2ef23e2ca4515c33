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

// ErrStore says that the store is away, and the operator has chosen to refuse requests then.
var ErrStore = errors.New("the store of limits is away")

const (
	defaultPrefix   = "modelgate"
	defaultTimeout  = 100 * time.Millisecond
	defaultLiveness = 30 * time.Second
)

// RedisOptions are those of a limiter in Redis.
type RedisOptions struct {
	// Prefix begins every key, in braces, so that installations can share a server; empty is "modelgate". All keys of an
	// installation are thereby in one slot of a Redis Cluster: the counters of a request must be decided together, and
	// those of a provider or model go with those of any key.
	Prefix string
	// FailOpen says what happens while the store is away: with it, this process decides alone and admits Share of each
	// limit, and at least 1; without, Reserve returns ErrStore.
	FailOpen bool
	// Share is this replica's part of the limits while the store is away, above 0 and at most 1, which 0 stands for: the
	// inverse of the number of replicas keeps what all of them admit then within the limit.
	Share float64
	// Timeout is the most that a request waits for the store; 0 is 100 ms. After one that waited in vain others do not,
	// until the store has answered in the background.
	Timeout time.Duration
	// Liveness is how long after its end a process that was killed still holds what it held; 0 is 30 s.
	Liveness time.Duration
	// Log is told when the store goes and comes; nil is nobody.
	Log *zap.Logger
}

// A Redis is a limiter whose counts are in Redis or Valkey, shared by all that have its prefix. A demand is one
// script, whose clock is the server's. What is settled goes out in the background, each settlement once, however often
// a batch of them has to be sent. While the store is away, what is admitted here is owed to it and counted when it is
// back.
//
// A store that comes back without its data is told by all replicas what each was admitted and what its running
// requests hold, and decides again when all had the time to. What it does not learn is what replicas were admitted
// that have ended since. A store that lost its last moments only, or a part of its keys, cannot be told from one that
// did not: it should persist, or have replicas, and not evict.
type Redis struct {
	client redis.UniversalClient
	o      RedisOptions
	local  Limiter
	owed   *owed
	// offset is how far the server's clock is ahead of ours, in nanoseconds.
	offset atomic.Int64
	away   atomic.Bool
	// born is when the store that we know began, in microseconds of its clock; 0 before we met it.
	born atomic.Int64
	// registering is held while the store is asked who it is and told of a lease.
	registering sync.Mutex
	scripts     scripts
	// wake tells the background that something is owed, or the store away.
	wake chan struct{}
	stop context.CancelFunc
	done chan struct{}
}

// OpenRedis returns a client as NewRedis needs it, without connecting. The URL's scheme is redis, rediss or unix; with
// "addr=HOST:PORT" for each further node it is that of a cluster, with "master_name=NAME" that of sentinels.
func OpenRedis(address string) (redis.UniversalClient, error) {
	client, err := openRedis(address)
	if e := (*url.Error)(nil); errors.As(err, &e) { // it would tell the password
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

// NewRedis returns a limiter on a client, which heeds the deadlines of contexts as one of OpenRedis does, and which
// the caller closes after the limiter. It does not connect yet.
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
		client: client, o: o, local: Part(NewMemory(Options{}), o.Share), owed: newOwed(),
		scripts: newScripts(), wake: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
	}
	go r.run(ctx)
	return r
}

// Close sends what is owed, as far as the context allows it, and gives back what requests that run still hold. Nothing
// may be reserved or settled from then on.
func (r *Redis) Close(ctx context.Context) error {
	r.stop()
	<-r.done
	if err := r.flush(ctx); err != nil {
		return fmt.Errorf("tell the store of limits what is owed: %w", err)
	}
	leases, ended, _ := r.owed.leases()
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

func (r *Redis) batchKey() string { return "{" + r.o.Prefix + "}:batch:" + r.owed.process }

// kindOf returns a window as the scripts know it.
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

// known is how the scripts name the store that we know.
func (r *Redis) known() string {
	if born := r.born.Load(); born != 0 {
		return strconv.FormatInt(born, 10)
	}
	return ""
}

// now is the server's time, as far as it is known.
func (r *Redis) now() time.Time { return time.Now().Add(time.Duration(r.offset.Load())) }

// poke wakes the background.
func (r *Redis) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

//go:embed *.lua
var lua embed.FS

// scripts are what the store runs.
type scripts struct{ reserve, apply, renew script }

func newScripts() scripts {
	return scripts{newScript("reserve.lua"), newScript("apply.lua"), newScript("renew.lua")}
}

// A script is run by its hash, and sent whole where the server does not know it.
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

// once is a command that the client must not send again by itself: it may have been executed though the reply was
// lost.
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
