package app

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/modelgate/modelgate/envoy/bootstrap"
	"github.com/modelgate/modelgate/envoy/process"
)

// tellAgain is the pause after Envoy could not be reached.
const tellAgain = 100 * time.Millisecond

// An extProcWatch knows whether the ext_proc service beside an Envoy is there: it keeps a connection, which the
// system closes at once when that process ends. Without it every request is a 503 until the service is started again.
type extProcWatch struct {
	connection *grpc.ClientConn
	away       atomic.Bool
	log        *zap.Logger
}

func watchExtProc(all bootstrap.Addresses, secure credentials.TransportCredentials,
	log *zap.Logger) (*extProcWatch, error) {
	var others []grpc.DialOption
	target := all[0].String()
	if len(all) > 1 { // it is available while one of them is
		several := manual.NewBuilderWithScheme("several")
		state := resolver.State{}
		for _, a := range all {
			state.Addresses = append(state.Addresses, resolver.Address{Addr: a.String()})
		}
		several.InitialState(state)
		others, target = append(others, grpc.WithResolvers(several)), "several:///extproc"
	}
	connection, err := grpc.NewClient(target, append(others, grpc.WithTransportCredentials(secure),
		grpc.WithIdleTimeout(0), grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
				MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))...)
	if err != nil {
		return nil, fmt.Errorf("connecting to the ext_proc service: %w", err)
	}
	return &extProcWatch{connection: connection, log: log}, nil
}

// Ready reports that the service does not answer.
func (w *extProcWatch) Ready() error {
	if w.away.Load() {
		return errors.New("the ext_proc service is unavailable, so every request is answered with 503")
	}
	return nil
}

// run has Envoy end the connections of clients while the service does not answer: each gets one 503 on the connection
// that it keeps, and the next may lead to another Envoy.
func (w *extProcWatch) run(ctx context.Context, envoy *process.Process) error {
	for ctx.Err() == nil {
		w.connection.Connect()
		state := w.connection.GetState()
		// Only what could not be connected is missing. One that hands its socket over to its successor is not.
		away := w.away.Load()
		switch state {
		case connectivity.TransientFailure:
			away = true
		case connectivity.Ready:
			away = false
		}
		if away != w.away.Load() && !w.tell(ctx, envoy, away) {
			continue
		}
		w.connection.WaitForStateChange(ctx, state)
	}
	return nil
}

// tell reports whether Envoy has answered.
func (w *extProcWatch) tell(ctx context.Context, envoy *process.Process, away bool) bool {
	if err := envoy.Divert(ctx, away); err != nil {
		w.log.Debug("reporting the state of the ext_proc service to envoy failed", zap.Error(err))
		select {
		case <-time.After(tellAgain): // it is being started again
		case <-ctx.Done():
		}
		return false
	}
	w.away.Store(away)
	if away {
		w.log.Warn("the ext_proc service is unavailable; envoy closes client connections, so that clients can connect elsewhere")
	} else {
		w.log.Info("the ext_proc service is available again")
	}
	return true
}
