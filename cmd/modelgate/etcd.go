package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.uber.org/zap"
)

// startEtcd starts an etcd of one member that keeps its data in dir and returns a client within the process. It listens
// only on the Unix socket etcd.sock in sockets, for etcdctl.
func startEtcd(ctx context.Context, p *parts, dir, sockets string, log *zap.Logger) (*clientv3.Client, error) {
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
	config.AutoCompactionMode, config.AutoCompactionRetention = embed.CompactorModeRevision, "1000"
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)

	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("starting etcd in %s: %w", dir, err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		server.Close()
		return nil, fmt.Errorf("starting etcd in %s: %w", dir, err)
	case <-ctx.Done():
		server.Close()
		return nil, ctx.Err()
	}
	etcd := v3client.New(server.Server)
	p.add("etcd", func(context.Context) error {
		_ = etcd.Close() // it reports the end of its own context
		server.Close()
		return nil
	})
	return etcd, nil
}
