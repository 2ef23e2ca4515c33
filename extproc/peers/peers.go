// Package peers connects the processes of an ext_proc service that has several behind one address. Envoy chooses a
// process for each stream, but an exchange, and the plan of its attempts, is in one of them.
//
// The id of an exchange has the address of its process. The process that gets an attempt of another's exchange asks
// that one for the provider's request. A record of Envoy's access log is sent on in the same way. The record of an
// attempt that failed has no id, so every process gets it.
package peers

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/transport"
)

// header is on the streams of peers. What comes with it is not sent on again.
const header = "x-mg-peer"

// From reports whether a stream is another process's.
func From(h transport.Headers) bool { return h.Get(header) != "" }

const (
	// askTimeout bounds how long a process waits for another's answer. Envoy waits no longer.
	askTimeout = 5 * time.Second
	// lookupInterval is how often names are looked up.
	lookupInterval = 5 * time.Second
	// keepUnused is how long the connection to a process is kept that no name leads to and that nothing was sent to.
	keepUnused = 10 * time.Minute
)

// Options are the dependencies of Peers.
type Options struct {
	// Self is where the other processes reach this one.
	Self netip.AddrPort
	// Names are the host:port that lead to all processes, this one too.
	Names []string
	// Credentials are for the connections to them.
	Credentials credentials.TransportCredentials
	Registerer  prometheus.Registerer
	Logger      *zap.Logger
}

// Peers are the other processes of the service.
type Peers struct {
	options  Options
	failures *prometheus.CounterVec
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	known map[netip.AddrPort]*peer
	named map[netip.AddrPort]bool
}

// Start looks the names up until Close.
func Start(o Options) *Peers {
	p := &Peers{options: o, known: map[netip.AddrPort]*peer{},
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_peer_failures_total",
			Help: "Attempts, and messages of Envoy's access log, that did not reach the ext_proc process that they are for."},
			[]string{"what"})}
	o.Registerer.MustRegister(p.failures)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.running.Go(p.follow)
	return p
}

// Close closes all connections.
func (p *Peers) Close() error {
	p.mu.Lock()
	p.cancel() // none is opened from now on
	p.mu.Unlock()
	p.running.Wait()
	return nil
}

// Self is where the other processes reach this one. It is invalid if there are none.
func (p *Peers) Self() netip.AddrPort {
	if p == nil {
		return netip.AddrPort{}
	}
	return p.options.Self
}

// Owner returns the address of the process that has an exchange, if that is another one.
func (p *Peers) Owner(id string) (netip.AddrPort, bool) {
	address, ok := addressOf(id)
	return address, ok && address != p.options.Self
}

// Ask sends the message of an attempt to the process that has its plan, and returns the answer.
func (p *Peers) Ask(ctx context.Context, owner netip.AddrPort, message []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := p.ask(ctx, owner, message)
	if err != nil {
		p.failures.WithLabelValues("attempt").Inc()
		return nil, fmt.Errorf("ask the process %s for its attempt: %w", owner, err)
	}
	return answer, nil
}

func (p *Peers) ask(ctx context.Context, owner netip.AddrPort, message []byte) (answer []byte, err error) {
	of, err := p.peer(owner)
	if err != nil {
		return nil, err
	}
	ctx = metadata.AppendToOutgoingContext(ctx, envoy.RoleHeader, envoy.RoleUpstream, header, "1")
	stream, err := of.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true},
		extprocv3.ExternalProcessor_Process_FullMethodName, grpc.ForceCodecV2(raw{}))
	if err != nil {
		return nil, err
	}
	if err = stream.SendMsg(message); err == nil {
		err = stream.CloseSend()
	}
	if err != nil {
		return nil, err
	}
	return answer, stream.RecvMsg(&answer)
}

// Tell sends a message of the access log to a process. It does not wait.
func (p *Peers) Tell(owner netip.AddrPort, m *accesslogv3.StreamAccessLogsMessage) {
	of, err := p.peer(owner)
	if err != nil || !of.queue(m) {
		p.failures.WithLabelValues("log").Inc()
	}
}

// TellAll sends a message of the access log to all other processes. It does not wait.
func (p *Peers) TellAll(m *accesslogv3.StreamAccessLogsMessage) {
	p.mu.Lock()
	named := p.named // never changed
	p.mu.Unlock()
	for at := range named {
		if at != p.options.Self {
			p.Tell(at, m)
		}
	}
}

// follow looks the names up again and again: processes come and go.
func (p *Peers) follow() {
	tick := time.NewTicker(lookupInterval)
	defer tick.Stop()
	for {
		named := p.lookUp()
		p.mu.Lock()
		if len(named) > 0 {
			p.named = named
		}
		for at, of := range p.known {
			if !p.named[at] && of.unused(keepUnused) {
				of.cancel()
				delete(p.known, at)
			}
		}
		p.mu.Unlock()
		select {
		case <-p.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p *Peers) lookUp() map[netip.AddrPort]bool {
	all := map[netip.AddrPort]bool{}
	for _, name := range p.options.Names {
		host, port, err := net.SplitHostPort(name)
		if err == nil {
			var addresses []netip.Addr
			if addresses, err = net.DefaultResolver.LookupNetIP(p.ctx, "ip", host); err == nil {
				for _, a := range addresses {
					if at, err := netip.ParseAddrPort(net.JoinHostPort(a.Unmap().String(), port)); err == nil {
						all[at] = true
					}
				}
			}
		}
		if err != nil && p.ctx.Err() == nil {
			p.options.Logger.Warn("the other ext_proc processes are not found", zap.String("name", name), zap.Error(err))
		}
	}
	return all
}
