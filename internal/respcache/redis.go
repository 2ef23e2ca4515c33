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
	// Failed is called for every command that has failed, or was left out because of it.
	Failed func()
	Log    *zap.Logger
}

// A Redis keeps answers in Redis or Valkey, where all processes with the same prefix and pepper find them. Each answer
// is sealed under its key: only who knows the request can read it, and nobody can write another. While Redis is away
// there are no answers.
type Redis struct {
	client redis.UniversalClient
	o      RedisOptions
	until  atomic.Int64 // time in nanoseconds before which nobody asks
	away   atomic.Bool
	puts   chan struct{}
	under  sync.WaitGroup
}

// NewRedis returns a store that uses a client, without connecting. The caller closes the client after it.
func NewRedis(client redis.UniversalClient, o RedisOptions) *Redis {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	return &Redis{client: client, o: o, puts: make(chan struct{}, maxPuts)}
}

// Close waits for the answers that are on their way.
func (r *Redis) Close(context.Context) error {
	r.under.Wait()
	return nil
}

func (r *Redis) get(ctx context.Context, k Key) *Answer {
	if r.rests() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.Timeout)
	defer cancel()
	sealed, err := r.client.Get(ctx, r.name(k)).Bytes()
	if errors.Is(err, redis.Nil) {
		r.heard(nil)
		return nil
	}
	if r.heard(err); err != nil {
		return nil
	}
	a, err := open(k, sealed)
	if err != nil {
		r.o.Log.Warn("an answer in redis cannot be opened", zap.Error(err))
	}
	return a
}

// put sends an answer to Redis in the background, and calls done when it is there or lost. It is lost if too many are
// under way.
func (r *Redis) put(k Key, a *Answer, ttl time.Duration, done func()) {
	if r.rests() {
		done()
		return
	}
	select {
	case r.puts <- struct{}{}:
	default:
		r.o.Failed()
		done()
		return
	}
	r.under.Go(func() {
		defer func() { <-r.puts; done() }()
		ctx, cancel := context.WithTimeout(context.Background(), r.o.Timeout)
		defer cancel()
		sealed, err := seal(k, a)
		if err == nil {
			err = r.client.Set(ctx, r.name(k), sealed, ttl).Err()
		}
		r.heard(err)
	})
}

// rests reports whether Redis has failed a moment ago.
func (r *Redis) rests() bool {
	if time.Now().UnixNano() >= r.until.Load() {
		return false
	}
	r.o.Failed()
	return true
}

// heard notes whether a command has failed. A client that has left is no failure of Redis.
func (r *Redis) heard(err error) {
	switch {
	case err == nil:
		if r.away.CompareAndSwap(true, false) {
			r.o.Log.Info("redis of the response cache is back")
		}
	case !errors.Is(err, context.Canceled):
		r.until.Store(time.Now().Add(rest).UnixNano())
		r.o.Failed()
		if r.away.CompareAndSwap(false, true) {
			r.o.Log.Warn("redis of the response cache is away: no answers are found or kept", zap.Error(err))
		}
	}
}

// name is the name of an answer in Redis, which does not tell its key.
func (r *Redis) name(k Key) string {
	sum := sha256.Sum256(append([]byte("name"), k[:]...))
	return r.o.Prefix + ":answer:" + hex.EncodeToString(sum[:])
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
