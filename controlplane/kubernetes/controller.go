package kubernetes

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/client-go/dynamic"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/leader"
)

// Principal is the name under which objects of Kubernetes are written, and the scheme of what declares them.
const Principal = "kubernetes"

const (
	// gather is how long changes are gathered, so that many are written together.
	gather = 50 * time.Millisecond
	// atOnce is how many objects are written together at most.
	atOnce = 2000
	// again is how often what is refused is looked at anew, and what is left over.
	again = 30 * time.Second
	// recheck is how often it is looked whether what is in force still is.
	recheck = 15 * time.Second
)

// A Source is where objects are read.
type Source struct {
	Client dynamic.Interface
	// Platform is the namespace whose objects are the platform's: they have their own names, and any kind.
	Platform string
	// Namespaces are watched. None: all of them.
	Namespaces []string
	// GatewayController is how GatewayClasses of the Gateway API name this gateway. "": none is read.
	GatewayController string
	// GatewayService is the Service of Platform that leads to the data plane; it may be "".
	GatewayService string
}

// Options configure a Controller. Every field is required unless its comment says otherwise.
type Options struct {
	Source
	Etcd  *clientv3.Client
	Store *configstore.Store
	// Changes writes the configuration.
	Changes *config.Service
	// Owners says what is declared by what.
	Owners *configstore.OwnerIndex
	// Await returns when the data plane has taken a revision, or when its context ends: then it says who has not.
	Await func(ctx context.Context, revision int64) []string
	// ObjectError says why an object has no effect, or "".
	ObjectError func(kind, name string) string
	// Ready reports why the configuration in etcd is not known yet.
	Ready func() error
	Log   *zap.Logger
}

// A Controller makes configuration of objects of Kubernetes.
type Controller struct {
	options Options
	task    leader.Task
}

// New returns a controller that does nothing before Run.
func New(o Options) *Controller {
	c := &Controller{options: o}
	c.task = leader.Task{Etcd: o.Etcd, Key: configstore.Turns + Principal, What: "objects of Kubernetes", Log: o.Log,
		Do: c.lead}
	return c
}

// Run works while this control plane holds the lock, until ctx ends.
func (c *Controller) Run(ctx context.Context) error { return c.task.Run(ctx) }

// lead watches and writes until ctx ends.
func (c *Controller) lead(ctx context.Context, held clientv3.Cmp, _ func()) {
	ctx = authz.WithPrincipal(ctx, authz.Principal{Name: Principal, Role: "owner",
		Scopes: authz.ScopesOf(configv1.Role_OWNER)})
	queue := newQueue()
	w := newWatches(ctx, c.options, queue)
	r := &reconciler{options: c.options, held: held, queue: queue, watches: w, refused: map[key]bool{},
		names: map[key]string{}, needs: newNeeds(), then: func() {}}
	r.status = newStatuses(c.options, w)
	var running sync.WaitGroup
	running.Go(func() { w.run() })
	running.Go(func() { r.status.run(ctx) })
	running.Go(func() { r.wake(ctx) })
	running.Go(func() { r.run(ctx) })
	if c.options.GatewayController != "" {
		g := &gatewayAPI{options: c.options, watches: w, held: held, changed: make(chan struct{}, 1)}
		r.then = g.look
		running.Go(func() { g.run(ctx) })
	}
	running.Wait()
}
