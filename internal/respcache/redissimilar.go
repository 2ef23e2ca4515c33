package respcache

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

const (
	// maxStored is the most texts in Redis that one is compared with. The newest stay.
	maxStored = 128
	// maxFetched is how many answers to similar requests are asked for, until one is there.
	maxFetched = 3
)

// likenesses returns those of a bucket in Redis whose answers may be younger than maxAge.
func (r *Redis) likenesses(ctx context.Context, bucket Key, now time.Time, maxAge time.Duration) []likeness {
	var stored []string
	err := r.do(ctx, func(ctx context.Context) (err error) {
		stored, err = r.client.LRange(ctx, r.name(bucket, "similar"), 0, maxStored-1).Result()
		return err
	})
	if err != nil {
		return nil
	}
	s, err := sealer(bucket)
	if err != nil {
		return nil
	}
	var all []likeness
	for _, sealed := range stored {
		plain, err := s.Open(nil, nil, []byte(sealed), nil)
		if err == nil && len(plain) <= len(Key{})+8 {
			err = errDamaged
		}
		if err != nil {
			r.o.Log.Warn("a vector in redis cannot be opened", zap.Error(errDamaged))
			continue
		}
		k, rest := Key(plain[:len(Key{})]), plain[len(Key{}):]
		at := time.UnixMilli(int64(binary.BigEndian.Uint64(rest)))
		if now.Sub(at) <= maxAge {
			all = append(all, likeness{vectorIn(rest[8:]), k})
		}
	}
	return all
}

// learn adds a likeness to a bucket in Redis, in the background. It is sealed under the bucket's key, which only the
// same requests yield: a vector says what a text is about. It is lost if too many are under way.
func (r *Redis) learn(bucket Key, l likeness, at time.Time, ttl time.Duration) {
	select {
	case r.puts <- struct{}{}:
	default:
		r.o.Failed()
		return
	}
	r.under.Go(func() {
		defer func() { <-r.puts }()
		_ = r.do(context.Background(), func(ctx context.Context) error {
			s, err := sealer(bucket)
			if err != nil {
				return err
			}
			plain := binary.BigEndian.AppendUint64(l.key[:], uint64(at.UnixMilli()))
			for _, step := range l.vector.steps {
				plain = append(plain, byte(step))
			}
			name := r.name(bucket, "similar")
			_, err = r.client.TxPipelined(ctx, func(p redis.Pipeliner) error {
				p.LPush(ctx, name, s.Seal(nil, nil, plain, nil))
				p.LTrim(ctx, name, 0, maxStored-1)
				p.Expire(ctx, name, ttl)
				return nil
			})
			return err
		})
	})
}

// find returns the answer for a key; nil if there is none.
func (r *Redis) find(ctx context.Context, k Key) *Answer {
	sealed := ""
	err := r.do(ctx, func(ctx context.Context) (err error) {
		if sealed, err = r.client.Get(ctx, r.name(k, "answer")).Result(); errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	if err != nil || sealed == "" {
		return nil
	}
	return r.open(k, sealed)
}
