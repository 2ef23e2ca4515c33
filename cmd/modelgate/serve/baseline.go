package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/cmdline"
	"github.com/modelgate/modelgate/controlplane/app"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/firststart"
)

// baselinePause is how long a control plane waits before it tries again to apply the files of --config.
const baselinePause = 250 * time.Millisecond

// A baseline is what the files of --config say. They are the operator's word each time a control plane starts: what
// was changed in these objects since then is overwritten.
type baseline struct {
	objects []configv1.Object
	api     *adminapi.Client
	loaded  func() error // reports why the configuration in etcd is not known yet
	log     *zap.Logger

	applied atomic.Bool // or cannot be for now: etcd is full
}

// configObjects returns the objects of the files of --config. There may be none.
func configObjects(files []string) ([]configv1.Object, error) {
	if len(files) == 0 {
		return nil, nil
	}
	docs, err := (cmdline.FileFlags{Filename: files}).Read(os.Stdin)
	if err != nil {
		return nil, fmt.Errorf("--config: %w", err)
	}
	return cmdline.ObjectsOf(docs), nil
}

// newBaseline returns the baseline of a control plane, whose admin API is called in process.
func newBaseline(objects []configv1.Object, plane *app.ControlPlane, log *zap.Logger) *baseline {
	return &baseline{
		objects: objects,
		api: plane.As(authz.Principal{Name: "--config", Role: "owner",
			Scopes: authz.ScopesOf(configv1.Role_OWNER)}),
		loaded: plane.Ready,
		log:    log,
	}
}

// Ready reports that the files are not applied yet.
func (b *baseline) Ready() error {
	if !b.applied.Load() {
		return errors.New("the files of --config are not applied yet")
	}
	return nil
}

// run applies the files, and waits for ctx to end. It tries again if etcd is unavailable; what is refused is an error.
func (b *baseline) run(ctx context.Context) error {
	pause := time.NewTicker(baselinePause)
	defer pause.Stop()
	told := ""
	for {
		err := b.apply(ctx)
		if err == nil {
			<-ctx.Done()
			return ctx.Err()
		}
		if firststart.IsStoreFull(err) {
			// What is stored is served: without this, no control plane that is started would be ready.
			b.applied.Store(true)
		} else if refused(err) {
			return fmt.Errorf("applying --config: %w", admincli.Said(err))
		}
		if why := err.Error(); why != told { // not four times a second
			told = why
			b.log.Warn("the files of --config are not applied yet", zap.Error(err))
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (b *baseline) apply(ctx context.Context) error {
	// Not before: the first control plane of an etcd claims it for its root secret, under which credentials are sealed.
	if err := b.loaded(); err != nil {
		return err
	}
	answer, err := b.api.Apply(ctx, b.objects, false)
	if err != nil {
		return err
	}
	if err := answer.Waits(); err != nil {
		b.log.Warn("a part of the files of --config is not applied", zap.Error(err))
	}
	b.log.Info("the files of --config are applied", zap.Int("objects", len(answer.Changes)))
	b.applied.Store(true)
	return nil
}

// refused reports whether trying again is useless. It is not after a conflict with another control plane that applies
// its files at the same time.
func refused(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	return ok && e.Status < http.StatusInternalServerError && e.Code != openai.CodeConflict
}
