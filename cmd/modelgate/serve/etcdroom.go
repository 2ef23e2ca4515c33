package serve

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdspace"
	"github.com/modelgate/modelgate/internal/parts"
	"github.com/modelgate/modelgate/internal/telemetry"
)

// upkeepFlags are flags of the control plane. One replica of it keeps etcd.
type upkeepFlags struct {
	Compact    bool `negatable:"" default:"true" help:"Compact etcd on a schedule. Revisions older than ten minutes are removed, or earlier if etcd fills up. Turn it off if etcd compacts itself (--auto-compaction-retention)."`
	Defragment bool `negatable:"" default:"true" help:"Defragment etcd members, one at a time and only if that frees much space, and clear the alarm NOSPACE. Turn it off if another tool does this, or if the etcd user lacks the permission."`
}

// newRoom returns what knows how full etcd is, with its metrics.
func newRoom(etcd *clientv3.Client, measured *telemetry.Telemetry, log *zap.Logger) (*etcdspace.Room, error) {
	room := etcdspace.New(etcd, log.Named("etcd-room"))
	return room, room.Register(measured.Registry)
}

// keeper returns what makes room in etcd, where this control plane leads.
func (f upkeepFlags) keeper(room *etcdspace.Room, leads func(context.Context) bool,
	log *zap.Logger) *etcdspace.Keeper {
	return etcdspace.NewKeeper(room, etcdspace.KeeperOptions{
		Compact: f.Compact, Defragment: f.Defragment, Leads: leads, Now: time.Now, Log: log.Named("etcd-room"),
	})
}

// followRoom has a room know how full etcd is, and what it is given act on that.
func followRoom(p *parts.Parts, room *etcdspace.Room, act func(context.Context)) {
	p.Serve("room of etcd", func(ctx context.Context) error { return room.Run(ctx, act) })
}

// repairTime is how long the start of run tries to make room in an etcd that is full.
const repairTime = 20 * time.Second

// startRoom has etcd's room followed and kept. If etcd is full it makes room first, if it can: what run writes
// at its start can be written then.
func (g *gateway) startRoom(ctx context.Context) error {
	var err error
	if g.room, err = newRoom(g.etcd, g.telemetry, g.log); err != nil {
		return err
	}
	keeper := upkeepFlags{Compact: true, Defragment: true}.keeper(g.room, nil, g.log)
	repairing, cancel := context.WithTimeout(ctx, repairTime)
	defer cancel()
	if err := keeper.Repair(repairing); err != nil && ctx.Err() == nil {
		g.log.Warn("reading the state of etcd's space failed", zap.Error(err))
	}
	followRoom(g.parts, g.room, keeper.Step)
	return nil
}
