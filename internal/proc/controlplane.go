package proc

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/modelgate/modelgate/internal/parts"
)

// ConnectControlPlane returns a connection to the control plane that ends with p. It is made when it is first used,
// and again after it breaks.
func ConnectControlPlane(p *parts.Parts, address string,
	secure credentials.TransportCredentials) (*grpc.ClientConn, error) {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(secure),
		// Not gRPC's own pauses of up to two minutes: a control plane that is back can be used at once.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: 2 * time.Second},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 30 * time.Second, Timeout: 5 * time.Second}))
	if err != nil {
		return nil, fmt.Errorf("connecting to the control plane: %w", err)
	}
	p.Add("connection to the control plane", func(context.Context) error { return connection.Close() })
	return connection, nil
}
