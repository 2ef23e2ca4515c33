package serve

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/proc"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/usage"
)

// dirSpool holds, below the data folder, the records that the ledger has not yet.
const dirSpool = "spool"

// limitStoreFlags say where what is used is counted.
type limitStoreFlags struct {
	Store        string        `name:"limits" default:"memory" placeholder:"URL" help:"Store for usage counters: memory, for this process only, or a Redis or Valkey that all processes share, as redis://, rediss:// or unix:// URL. Its password may be in MODELGATE_REDIS_PASSWORD or a file instead."`
	Prefix       string        `name:"limits-prefix" default:"modelgate" help:"Prefix of all keys in Redis."`
	Failure      string        `name:"limits-failure" default:"open" enum:"open,closed" help:"Behaviour while Redis is unavailable. open: admit requests within the limits that this process has counted. closed: refuse every request that has a limit."`
	Share        float64       `name:"limits-share" default:"1" help:"Share of each limit that this process admits while Redis is unavailable. Use the inverse of the number of processes, so that all processes together stay within the limits."`
	Part         float64       `name:"limits-part" default:"1" help:"Share of each limit and budget that this installation admits. Use it if another installation with its own Redis admits the rest, for example in another region."`
	Timeout      time.Duration `name:"limits-timeout" default:"100ms" help:"How long a request waits for Redis."`
	PasswordFile string        `name:"limits-password-file" placeholder:"FILE" help:"File that contains the Redis password."`
	Password     string        `name:"limits-password" env:"MODELGATE_REDIS_PASSWORD" hidden:""`
}

// troubles say what is wrong with the stores that processes share, each with "" if nothing is.
type troubles []func() string

// says returns what is wrong with all of them.
func (t *troubles) says() string {
	var all []string
	for _, trouble := range *t {
		if says := trouble(); says != "" {
			all = append(all, says)
		}
	}
	return strings.Join(all, " ")
}

// open opens what requests are limited by, and has it closed with p.
func (f limitStoreFlags) open(p *proc.Parts, t *troubles, log *zap.Logger) (limit.Limiter, error) {
	for name, part := range map[string]float64{"share": f.Share, "part": f.Part} {
		if part <= 0 || part > 1 {
			return nil, admincli.Misused("--limits-%s: must be above 0 and at most 1", name)
		}
	}
	if f.Store == "memory" {
		return limit.Part(limit.NewMemory(limit.Options{}), f.Part), nil
	}
	address, err := f.address()
	if err != nil {
		return nil, fmt.Errorf("--limits: %w", err)
	}
	redis.SetLogger(redisLog{log.Named("redis")}) // before there is a client: it is one for all
	client, err := limit.OpenRedis(address)
	if err != nil {
		return nil, admincli.Misused("--limits: %w", err)
	}
	p.Add("connections to redis", func(context.Context) error { return client.Close() })
	limits := limit.NewRedis(client, limit.RedisOptions{
		Prefix: f.Prefix, FailOpen: f.Failure == "open", Share: f.Share, Timeout: f.Timeout, Log: log.Named("limits"),
	})
	p.Add("limits", limits.Close)
	*t = append(*t, limits.Trouble)
	return limit.Part(limits, f.Part), nil
}

// A redisLog takes what the client of Redis has to say, which the limiter says better.
type redisLog struct{ log *zap.Logger }

// Printf logs a message.
func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", zap.String("message", fmt.Sprintf(format, v...)))
}

// address returns the URL with the password that is elsewhere.
func (f limitStoreFlags) address() (string, error) {
	return redisURL(f.Store, f.PasswordFile, f.Password)
}

// redisURL returns a URL of Redis with the password that is in a file, or given by itself.
func redisURL(address, file, password string) (string, error) {
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("reading the password: %w", err)
		}
		password = strings.TrimSpace(string(text))
	}
	if password == "" {
		return address, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", admincli.Misused("must be memory or a URL of Redis") // the reason would tell a password that is in it
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}

// openSpool opens the folder in which records wait for the ledger, and has it closed with p.
func openSpool(p *proc.Parts, dir string, maxBytes int64, t *troubles, log *zap.Logger,
	registry prometheus.Registerer) (usage.Spool, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("--spool: naming who ships records: %w", err)
	}
	spool, err := usage.OpenSpool(usage.SpoolOptions{Dir: dir, Process: host + ":" + dir, MaxBytes: maxBytes,
		Stores: t.says, Log: log.Named("spool"), Registerer: registry})
	if err != nil {
		return nil, fmt.Errorf("--spool: %w", err)
	}
	p.Add("spool", func(context.Context) error { return spool.Close() })
	return spool, nil
}
