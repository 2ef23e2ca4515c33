package serve

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/etcdspace"
)

// upkeepFlags are flags of the control plane. One replica of it keeps etcd.
type upkeepFlags struct {
	Compact    bool `negatable:"" default:"true" help:"Compact etcd on a schedule. Revisions older than ten minutes are removed, or earlier if etcd fills up. Turn it off if etcd compacts itself (--auto-compaction-retention)."`
	Defragment bool `negatable:"" default:"true" help:"Defragment etcd members, one at a time and only if that frees much space, and clear the alarm NOSPACE. Turn it off if another tool does this, or if the etcd user lacks the permission."`
}

// keeper returns what makes room in etcd, where this control plane leads.
func (f upkeepFlags) keeper(room *etcdspace.Room, leads func(context.Context) bool,
	log *zap.Logger) *etcdspace.Keeper {
	return etcdspace.NewKeeper(room, etcdspace.KeeperOptions{
		Compact: f.Compact, Defragment: f.Defragment, Leads: leads, Now: time.Now, Log: log.Named("etcd-room"),
	})
}
