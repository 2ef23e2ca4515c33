package proc

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// NewRoom returns what knows how full etcd is, with its metrics.
func NewRoom(etcd *clientv3.Client, measured *telemetry.Telemetry, log *zap.Logger) (*etcdspace.Room, error) {
	room := etcdspace.New(etcd, log.Named("etcd-room"))
	return room, room.Register(measured.Registry)
}

// FollowRoom has a room know how full etcd is, and what it is given act on that.
func FollowRoom(p *parts.Parts, room *etcdspace.Room, act func(context.Context)) {
	p.Serve("room of etcd", func(ctx context.Context) error { return room.Run(ctx, act) })
}
