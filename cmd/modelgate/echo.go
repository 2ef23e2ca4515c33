package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/fakeprovider"
)

type echoCmd struct {
	Listen string `default:"127.0.0.1:9100" help:"Address to listen on, without TLS: host:port or unix:///path."`
}

// Run serves until ctx ends.
func (c *echoCmd) Run(ctx context.Context, log *zap.Logger) error {
	l, err := listen(c.Listen)
	if err != nil {
		return err
	}
	p := newParts(log)
	startEcho(p, l, log)
	log.Info("echo provider started", zap.Stringer("listen", l.Addr()))
	return errors.Join(p.wait(ctx), p.stop(context.WithoutCancel(ctx)))
}

// startEcho starts the built-in provider as a part.
func startEcho(p *parts, l net.Listener, log *zap.Logger) {
	server := &http.Server{
		Handler:           fakeprovider.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          zap.NewStdLog(log.Named("echo")),
	}
	p.serve("echo provider", func(ctx context.Context) error { return serveUntil(ctx, server, l, httpStop) })
}
