package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/internal/atomicfile"
)

// renewRetry is how long after a failure a key is renewed again.
const renewRetry = time.Minute

type keyRenewCmd struct {
	adminflags.AdminFlags
	File  string        `required:"" placeholder:"FILE" help:"File with the key alone, which a workload reads. It is replaced in one step."`
	Every time.Duration `default:"168h" help:"How long a key is used. The time of the file says when it was renewed."`
	Grace time.Duration `default:"24h" help:"How long the old key stays valid, at most 720h: the workload must read the file again by then."`
	Watch bool          `help:"Keep running, and renew the key whenever it is due."`
	ID    string        `arg:"" predictor:"keys" help:"Id or name of the key."`
}

// Help is shown below the flags' summary.
func (keyRenewCmd) Help() string {
	return "Example, beside a workload, with a token that can do nothing else:\n" +
		"  modelgate token create --name renewer --scopes keys:read,keys:write --organization acme --project web\n" +
		"  modelgate key renew worker --file /run/key/key --every 168h --watch"
}

// Run renews a key if it is due.
func (c keyRenewCmd) Run(ctx context.Context, stdout io.Writer, log *zap.Logger) error {
	if c.Every < time.Minute || c.Grace < time.Minute || c.Grace%time.Second != 0 {
		return admincli.Misused("--every and --grace must be at least a minute, and --grace whole seconds")
	}
	for {
		due, err := c.renew(ctx, stdout)
		if !c.Watch {
			return err
		}
		if err != nil {
			log.Warn("the key was not renewed", zap.Error(err))
			due = renewRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(due):
		}
	}
}

// renew renews the key if it is due, and returns when it is due next.
func (c keyRenewCmd) renew(ctx context.Context, stdout io.Writer) (next time.Duration, err error) {
	info, err := os.Stat(c.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return 0, err
	case !info.Mode().IsRegular():
		return 0, fmt.Errorf("%s is no file", c.File)
	default:
		if next = time.Until(info.ModTime().Add(c.Every)); next > 0 && info.Size() > 0 {
			return next, c.say(stdout, "is due at "+info.ModTime().Add(c.Every).UTC().Format(time.RFC3339))
		}
	}
	if err := writable(c.File); err != nil { // a new key that cannot be stored would be lost
		return 0, err
	}
	client, err := c.Client()
	if err != nil {
		return 0, err
	}
	id, err := adminflags.IDOf(ctx, client, configv1.KeyKind(), c.ID)
	if err != nil {
		return 0, err
	}
	key, err := client.RotateKey(ctx, id, adminapi.RotateRequest{Grace: int64(c.Grace / time.Second)})
	if err != nil {
		return 0, admincli.Said(err)
	}
	if err := atomicfile.Write(c.File, []byte(key.Key+"\n"), 0o600); err != nil {
		return 0, fmt.Errorf("the key was renewed and could not be stored; run this again before the old one ends: %w", err)
	}
	return c.Every, c.say(stdout, "was renewed")
}

func (c keyRenewCmd) say(stdout io.Writer, what string) error {
	_, err := fmt.Fprintf(stdout, "The key %s %s.\n", c.ID, what)
	return err
}

// writable returns why a file cannot be replaced.
func writable(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".modelgate-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
