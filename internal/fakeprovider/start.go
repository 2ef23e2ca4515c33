package fakeprovider

import (
	"context"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/internal/parts"
)

// Start starts the built-in provider as a part.
func Start(p *parts.Parts, l net.Listener, log *zap.Logger) {
	server := &http.Server{
		Handler:           Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          zap.NewStdLog(log.Named("echo")),
	}
	p.Serve("echo provider", func(ctx context.Context) error { return parts.ServeUntil(ctx, server, l, parts.HTTPStop) })
}
