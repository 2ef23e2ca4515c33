package app

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/firststart"
)

// baselinePause is how long a control plane waits before it tries again to apply the files of --config.
const baselinePause = 250 * time.Millisecond

// A Baseline is what the files of --config say. They are the operator's word each time a control plane starts: what
// was changed in these objects since then is overwritten.
type Baseline struct {
	objects []configv1.Object
	api     *adminapi.Client
	refused func(error) error // says that they were refused
	loaded  func() error      // reports why the configuration in etcd is not known yet
	log     *zap.Logger

	applied atomic.Bool // or cannot be for now: etcd is full
}

// NewBaseline returns the baseline of a control plane, whose admin API is called in process. Refused says that the
// objects were refused.
func NewBaseline(objects []configv1.Object, plane *ControlPlane, refused func(error) error,
	log *zap.Logger) *Baseline {
	return &Baseline{
		objects: objects,
		refused: refused,
		api: plane.As(authz.Principal{Name: "--config", Role: "owner",
			Scopes: authz.ScopesOf(configv1.Role_OWNER)}),
		loaded: plane.Ready,
		log:    log,
	}
}

// Ready reports that the files are not applied yet.
func (b *Baseline) Ready() error {
	if !b.applied.Load() {
		return errors.New("the files of --config are not applied yet")
	}
	return nil
}

// Run applies the files, and waits for ctx to end. It tries again if etcd is unavailable; what is refused is an error.
func (b *Baseline) Run(ctx context.Context) error {
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
		} else if isRefused(err) {
			return b.refused(err)
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

func (b *Baseline) apply(ctx context.Context) error {
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

// isRefused reports whether trying again is useless. It is not after a conflict with another control plane that
// applies its files at the same time.
func isRefused(err error) bool {
	e, ok := errors.AsType[*openai.Error](err)
	return ok && e.Status < http.StatusInternalServerError && e.Code != openai.CodeConflict
}
