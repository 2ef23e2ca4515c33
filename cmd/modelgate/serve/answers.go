package serve

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/proc"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/respcache"
)

// answerFlags say where response caches keep answers.
type answerFlags struct {
	Store        string        `name:"cache" default:"memory" placeholder:"URL" env:"MODELGATE_CACHE" help:"Store for the answers of response caches: memory, for this process only, or a Redis or Valkey that all processes share, as redis://, rediss:// or unix:// URL. Its password may be in MODELGATE_CACHE_PASSWORD or a file instead."`
	Prefix       string        `name:"cache-prefix" default:"modelgate" help:"Prefix of all keys of answers in Redis."`
	Timeout      time.Duration `name:"cache-timeout" default:"100ms" help:"How long a request waits for an answer in Redis."`
	PasswordFile string        `name:"cache-password-file" placeholder:"FILE" help:"File that contains the password of that Redis."`
	Password     string        `name:"cache-password" env:"MODELGATE_CACHE_PASSWORD" hidden:""`
}

// open opens the store, and has it closed with p. It returns nil for one in memory.
func (f answerFlags) open(p *proc.Parts, r prometheus.Registerer, t *troubles,
	log *zap.Logger) (*respcache.Redis, error) {
	failures := prometheus.NewCounter(prometheus.CounterOpts{Name: "modelgate_cache_store_failures_total",
		Help: "Answers that were not looked up, shared or kept, because the Redis of response caches was away."})
	r.MustRegister(failures)
	if f.Store == "memory" {
		return nil, nil //nolint:nilnil // there is none
	}
	address, err := redisURL(f.Store, f.PasswordFile, f.Password)
	if err != nil {
		return nil, fmt.Errorf("--cache: %w", err)
	}
	redis.SetLogger(redisLog{log.Named("redis")}) // before there is a client: it is one for all
	client, err := limit.OpenRedis(address)
	if err != nil {
		return nil, admincli.Misused("--cache: %w", err)
	}
	p.Add("connections to the redis of answers", func(context.Context) error { return client.Close() })
	store := respcache.NewRedis(client, respcache.RedisOptions{Prefix: f.Prefix, Timeout: f.Timeout, Failed: failures.Inc,
		Log: log.Named("cache")})
	p.Add("answers", store.Close)
	*t = append(*t, store.Trouble)
	return store, nil
}
