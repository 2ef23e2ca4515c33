package proc

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/parts"
)

// StartEtcd starts an etcd of one member that keeps its data in dir and returns a client within the process. It
// listens only on the Unix socket etcd.sock in sockets, for etcdctl. Quota is the most bytes that its database may
// have.
func StartEtcd(ctx context.Context, p *parts.Parts, dir, sockets string, quota int64,
	log *zap.Logger) (*clientv3.Client, error) {
	config := embed.NewConfig()
	config.Name = "modelgate"
	config.Dir = dir
	client := []url.URL{{Scheme: "unix", Path: filepath.Join(sockets, "etcd.sock")}}
	config.ListenClientUrls, config.AdvertiseClientUrls = client, client
	// It never has peers: nothing listens for any, and the name that stands for its own address is not used.
	config.ListenPeerUrls = nil
	config.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "localhost:2380"}}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	// With a single member an election is a formality, which by default takes a second.
	config.TickMs, config.ElectionMs = 10, 50
	config.QuotaBackendBytes = quota
	end := newEtcdEnd()
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log.WithOptions(end.options()...))

	server, err := openEtcd(ctx, config, end)
	if err != nil {
		return nil, err
	}
	etcd := v3client.New(server.Server)
	etcd.Maintenance = embeddedMaintenance{etcd.Maintenance, server.Server.Defragment}
	p.Add("etcd", func(context.Context) error {
		_ = etcd.Close() // it reports the end of its own context
		closeEtcd(server)
		return nil
	})
	p.Serve("watch of etcd", func(ctx context.Context) error {
		select {
		case err := <-end.said:
			return damagedEtcd(dir, err)
		case <-ctx.Done():
			return nil
		}
	})
	return etcd, nil
}

// embeddedMaintenance defragments an etcd of this process. The client's own way wants a health server, which only
// etcd's listeners have.
type embeddedMaintenance struct {
	clientv3.Maintenance
	defragment func() error
}

// Defragment ignores the endpoint: there is one member.
func (m embeddedMaintenance) Defragment(context.Context, string) (*clientv3.DefragmentResponse, error) {
	if err := m.defragment(); err != nil {
		return nil, fmt.Errorf("defragmenting etcd: %w", err)
	}
	return &clientv3.DefragmentResponse{}, nil
}
