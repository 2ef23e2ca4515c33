package serve

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/extproc/app"
	"github.com/modelgate/modelgate/internal/limit"
)

// limitStoreFlags say where what is used is counted.
type limitStoreFlags struct {
	Store        string        `name:"limits" default:"memory" placeholder:"URL" help:"Store for usage counters: memory, for this process only, or a Redis or Valkey that all processes share, as redis://, rediss:// or unix:// URL. Its password may be in MODELGATE_REDIS_PASSWORD or a file instead."`
	Prefix       string        `name:"limits-prefix" default:"modelgate" help:"Prefix of all keys in Redis."`
	Failure      string        `name:"limits-failure" default:"open" enum:"open,closed" help:"Behaviour while Redis is unavailable. open: admit requests within the limits that this process has counted. closed: refuse every request that has a limit."`
	Share        float64       `name:"limits-share" default:"1" help:"Share of each limit that this process admits while Redis is unavailable. Use the inverse of the number of processes, so that all processes together stay within the limits."`
	Part         float64       `name:"limits-part" default:"1" help:"Share of each limit and budget that this installation admits. Use it if another installation with its own Redis admits the rest, for example in another region."`
	OneLedger    bool          `name:"limits-one-ledger" help:"The installations that divide limits by --limits-part write into the same ledger. Each of them then admits its part of what is left of a budget, and all of them together the whole."`
	Timeout      time.Duration `name:"limits-timeout" default:"100ms" help:"How long a request waits for Redis."`
	PasswordFile string        `name:"limits-password-file" placeholder:"FILE" help:"File that contains the Redis password."`
	Password     string        `name:"limits-password" env:"MODELGATE_REDIS_PASSWORD" hidden:""`
}

// store returns where usage is counted.
func (f limitStoreFlags) store(log *zap.Logger) (app.Limits, error) {
	for name, part := range map[string]float64{"share": f.Share, "part": f.Part} {
		if part <= 0 || part > 1 {
			return app.Limits{}, admincli.Misused("--limits-%s: must be above 0 and at most 1", name)
		}
	}
	client, err := openRedis("--limits", f.Store, f.PasswordFile, f.Password, log)
	return app.Limits{Redis: client, Prefix: f.Prefix, FailOpen: f.Failure == "open", Share: f.Share,
		Timeout: f.Timeout, Division: limit.Division{Part: f.Part, OneLedger: f.OneLedger}}, err
}

// openRedis returns a client of the Redis that a flag names, or nil for the memory. The password may be in a file, or
// given by itself.
func openRedis(flag, address, file, password string, log *zap.Logger) (redis.UniversalClient, error) {
	if address == "memory" {
		return nil, nil //nolint:nilnil // there is none
	}
	address, err := redisURL(address, file, password)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	redis.SetLogger(redisLog{log.Named("redis")}) // before there is a client: it is one for all
	client, err := limit.OpenRedis(address)
	if err != nil {
		return nil, admincli.Misused("%s: %w", flag, err)
	}
	return client, nil
}

// A redisLog takes what the client of Redis has to say, which the limiter says better.
type redisLog struct{ log *zap.Logger }

// Printf logs a message.
func (l redisLog) Printf(_ context.Context, format string, v ...any) {
	l.log.Debug("redis client", zap.String("message", fmt.Sprintf(format, v...)))
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
