package app

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/leader"
)

// announce tells Envoy Gateway of changes, while this control plane holds the lock for it, until ctx ends.
func (c *ControlPlane) announce(ctx context.Context) error {
	from := c.options.Kubernetes
	return leader.Task{Etcd: c.options.Etcd, Key: configstore.Turns + "envoygateway",
		What: "HTTPRoutes of Envoy Gateway", Log: c.options.Log,
		Do: func(ctx context.Context, _ clientv3.Cmp, _ func()) {
			c.routes.Announce(ctx, from.Client, from.Namespaces)
		}}.Run(ctx)
}
