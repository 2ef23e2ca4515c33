package peers

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
)

// waitingLogs is how many messages of the access log wait for a process. Envoy sends one each 10 ms at most.
const waitingLogs = 256

// A peer is the connection to another process.
type peer struct {
	conn   *grpc.ClientConn
	logs   chan *accesslogv3.StreamAccessLogsMessage
	cancel context.CancelFunc
	used   atomic.Int64 // in Unix nanoseconds
}

// peer returns the connection to a process, which it opens if there is none.
func (p *Peers) peer(at netip.AddrPort) (*peer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.known[at]
	if of == nil {
		if p.ctx.Err() != nil {
			return nil, errors.New("this process ends")
		}
		conn, err := grpc.NewClient("passthrough:///"+at.String(),
			grpc.WithTransportCredentials(p.options.Credentials), grpc.WithIdleTimeout(time.Minute), grpc.WithNoProxy(),
			// The process may have been replaced since the last message.
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
			grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second,
				Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6, MaxDelay: 200 * time.Millisecond}}))
		if err != nil {
			return nil, err
		}
		of = &peer{conn: conn, logs: make(chan *accesslogv3.StreamAccessLogsMessage, waitingLogs)}
		ctx, cancel := context.WithCancel(p.ctx)
		of.cancel = cancel
		p.known[at] = of
		p.running.Go(func() {
			defer func() { _ = conn.Close() }()
			p.send(ctx, of)
		})
	}
	of.used.Store(time.Now().UnixNano())
	return of, nil
}

func (p *peer) unused(d time.Duration) bool { return time.Since(time.Unix(0, p.used.Load())) > d }

// queue has a message sent, and reports whether there is room for it.
func (p *peer) queue(m *accesslogv3.StreamAccessLogsMessage) bool {
	select {
	case p.logs <- m:
		return true
	default:
		return false
	}
}

// send sends the queued messages until ctx ends. What cannot be sent is dropped: the records of exchanges are complete
// without Envoy's after a while.
func (p *Peers) send(ctx context.Context, of *peer) {
	ctx = metadata.AppendToOutgoingContext(ctx, header, "1")
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-of.logs:
			if err := tell(ctx, of.conn, m); err != nil {
				p.failures.WithLabelValues("log").Inc()
			}
		}
	}
}

// tell sends one message on a stream of its own: the name of the log stands in the first message of a stream.
func tell(ctx context.Context, conn *grpc.ClientConn, m *accesslogv3.StreamAccessLogsMessage) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, err := accesslogv3.NewAccessLogServiceClient(conn).StreamAccessLogs(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(m); err != nil {
		return err
	}
	_, err = stream.CloseAndRecv()
	return err
}

// raw passes messages on as they are.
type raw struct{}

var _ encoding.CodecV2 = raw{}

// Name implements [encoding.CodecV2].
func (raw) Name() string { return "proto" }

// Marshal implements [encoding.CodecV2].
func (raw) Marshal(v any) (mem.BufferSlice, error) {
	b, ok := v.([]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(b)}, nil
}

// Unmarshal implements [encoding.CodecV2].
func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T takes no message", v)
	}
	*b = data.Materialize()
	return nil
}
