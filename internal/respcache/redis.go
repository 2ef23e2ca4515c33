package respcache

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	defaultTimeout = 100 * time.Millisecond
	// rest is how long nobody asks Redis after it has failed.
	rest = time.Second
	// maxPuts bounds the answers that are on their way to Redis.
	maxPuts = 64
)

// RedisOptions are the options of a Redis.
type RedisOptions struct {
	// Prefix is the prefix of every key.
	Prefix string
	// Timeout bounds the wait of a request for Redis; 0 is 100 ms.
	Timeout time.Duration
	// Lease is how long the others wait for the answer to a request whose process has died; 0 is 5 s.
	Lease time.Duration
	// Failed is called for every command that has failed, or was left out because of it.
	Failed func()
	Log    *zap.Logger
}

// A Redis keeps answers in Redis or Valkey, where all processes with the same prefix and pepper find them. Each
// answer is sealed under its key: only who knows the request can read it, and nobody can write another. While Redis
// is unavailable there are no answers.
type Redis struct {
	client redis.UniversalClient
	o      RedisOptions
	until  atomic.Int64 // time in nanoseconds before which nobody asks
	away   atomic.Bool
	puts   chan struct{}
	under  sync.WaitGroup

	asks, changes *redis.Script
}

// NewRedis returns a store that uses a client, without connecting. The caller closes the client after it.
func NewRedis(client redis.UniversalClient, o RedisOptions) *Redis {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	return &Redis{client: client, o: o, puts: make(chan struct{}, maxPuts), asks: redis.NewScript(askScript),
		changes: redis.NewScript(changeScript)}
}

// Close waits for writes that are under way.
func (r *Redis) Close(context.Context) error {
	r.under.Wait()
	return nil
}

// Trouble says what the gateway does while Redis does not answer; empty: it has answered when it was last asked.
func (r *Redis) Trouble() string {
	if !r.away.Load() {
		return ""
	}
	return "The Redis of response caches did not answer when it was last asked: answers are neither found nor kept."
}

var errRests = errors.New("it has failed a moment ago")

// do has a command wait for Redis no longer than it may, and notes whether it has failed. That ctx has ended is no
// failure of Redis.
func (r *Redis) do(ctx context.Context, command func(context.Context) error) error {
	if r.rests() {
		r.o.Failed()
		return errRests
	}
	within, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	err := command(within)
	if err == nil || ctx.Err() == nil {
		r.heard(err)
	}
	return err
}

// put sends an answer to Redis in the background, ends the lease of its request, if there is one, and calls done when
// the answer is there or lost. It is lost if too many are under way.
func (r *Redis) put(k Key, a *Answer, ttl time.Duration, l *lease, done func()) {
	select {
	case r.puts <- struct{}{}:
	default:
		r.o.Failed()
		if l != nil {
			l.end(true)
		}
		done()
		return
	}
	if l != nil {
		l.stop()
	}
	r.under.Go(func() {
		defer func() { <-r.puts; done() }()
		_ = r.do(context.Background(), func(ctx context.Context) error {
			sealed, err := seal(k, a)
			if err != nil {
				return err
			}
			_, err = r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.Set(ctx, r.name(k, "answer"), sealed, ttl)
				if l != nil {
					_ = l.change(ctx, p, "", 0)
				}
				return nil
			})
			return err
		})
	})
}

// rests reports whether Redis has failed a moment ago.
func (r *Redis) rests() bool { return time.Now().UnixNano() < r.until.Load() }

// heard notes whether a command has failed.
func (r *Redis) heard(err error) {
	if err == nil {
		if r.away.CompareAndSwap(true, false) {
			r.o.Log.Info("redis of the response cache is back")
		}
		return
	}
	r.until.Store(time.Now().Add(rest).UnixNano())
	r.o.Failed()
	if r.away.CompareAndSwap(false, true) {
		r.o.Log.Warn("redis of the response cache is unavailable: no answers are found or kept", zap.Error(err))
	}
}

// name is a name in Redis, which does not tell the key. All names of a key are in one slot of a cluster.
func (r *Redis) name(k Key, of string) string {
	sum := sha256.Sum256(append([]byte("name"), k[:]...))
	return r.o.Prefix + ":{" + hex.EncodeToString(sum[:]) + "}:" + of
}

func sealer(k Key) (cipher.AEAD, error) {
	sum := sha256.Sum256(append([]byte("seal"), k[:]...))
	block, err := aes.NewCipher(sum[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal encrypts an answer: what is known of it as JSON in one line, and its body.
func seal(k Key, a *Answer) ([]byte, error) {
	about := *a
	about.Body = nil
	plain, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}
	s, err := sealer(k)
	if err != nil {
		return nil, err
	}
	return s.Seal(nil, nil, append(append(plain, '\n'), a.Body...), nil), nil
}

var errDamaged = errors.New("it is damaged")

// open returns a sealed answer, or nil if somebody has changed it.
func (r *Redis) open(k Key, sealed string) *Answer {
	a, err := open(k, []byte(sealed))
	if err != nil {
		r.o.Log.Warn("an answer in redis cannot be opened", zap.Error(err))
	}
	return a
}

func open(k Key, sealed []byte) (*Answer, error) {
	s, err := sealer(k)
	if err != nil {
		return nil, err
	}
	plain, err := s.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, errDamaged
	}
	about, body, _ := bytes.Cut(plain, []byte("\n"))
	a := &Answer{}
	if err := json.Unmarshal(about, a); err != nil {
		return nil, errDamaged
	}
	a.Body = body
	return a, nil
}
