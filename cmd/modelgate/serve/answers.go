package serve

import (
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/extproc/app"
)

// answerFlags say where response caches keep answers.
type answerFlags struct {
	Store        string        `name:"cache" default:"memory" placeholder:"URL" env:"MODELGATE_CACHE" help:"Store for the answers of response caches: memory, for this process only, or a Redis or Valkey that all processes share, as redis://, rediss:// or unix:// URL. Its password may be in MODELGATE_CACHE_PASSWORD or a file instead."`
	Prefix       string        `name:"cache-prefix" default:"modelgate" help:"Prefix of all keys of answers in Redis."`
	Timeout      time.Duration `name:"cache-timeout" default:"100ms" help:"How long a request waits for an answer in Redis."`
	PasswordFile string        `name:"cache-password-file" placeholder:"FILE" help:"File that contains the password of that Redis."`
	Password     string        `name:"cache-password" env:"MODELGATE_CACHE_PASSWORD" hidden:""`
}

// store returns where answers are kept.
func (f answerFlags) store(log *zap.Logger) (app.Answers, error) {
	client, err := openRedis("--cache", f.Store, f.PasswordFile, f.Password, log)
	return app.Answers{Redis: client, Prefix: f.Prefix, Timeout: f.Timeout}, err
}
