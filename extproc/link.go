package extproc

import (
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/carrier"
	"github.com/modelgate/modelgate/extproc/peers"
	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/extproc/wire"
)

// maxMessage bounds one message from Envoy: a buffered body of 48 MiB, the limit after translation, and its framing.
const maxMessage = 64 << 20

// newTransport returns what serves Envoy's streams.
func (s *Server) newTransport(maxHeld int) *transport.Server {
	s.carriers.Panicked = func(reason any, stack []byte) {
		s.log.Error("panic on a stream", zap.Any("panic", reason), zap.ByteString("stack", stack))
	}
	return transport.New(transport.Options{MaxMessage: maxMessage, MaxHeld: maxHeld, Panicked: s.carriers.Panicked,
		Service: func(stream *transport.Stream, h transport.Headers) (transport.Handler, error) {
			switch path := h.Get(":path"); path {
			case extprocv3.ExternalProcessor_Process_FullMethodName:
				traits := traitsOf(h)
				if traits.Role == envoy.RoleUpstream && s.peers != nil && !peers.From(h) {
					return s.peers.Handler(stream, func() (transport.Handler, error) { return s.open(stream, traits) }), nil
				}
				return s.open(stream, traits)
			case accesslogv3.AccessLogService_StreamAccessLogs_FullMethodName:
				return s.openLogs(stream, peers.From(h)), nil
			default:
				if checks := s.checks.Handler(path, stream); checks != nil {
					return checks, nil
				}
				return nil, status.Errorf(codes.Unimplemented, "there is no method %q", path)
			}
		},
	})
}

// open returns the handler of a stream of an ext_proc filter.
func (s *Server) open(stream *transport.Stream, t carrier.Traits) (transport.Handler, error) {
	handler, err := s.carriers.Open(link{stream}, t)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &linked{handler: handler}, nil
}

// traitsOf reads what Envoy sends with the headers of a stream.
func traitsOf(h transport.Headers) carrier.Traits {
	t := carrier.Traits{Role: h.Get(envoy.RoleHeader), Drains: h.Get(envoy.DrainsHeader) != "",
		Certificates: h.Get(envoy.CertificatesHeader)}
	if t.Role != "" {
		return t
	}
	t.Role, t.Typed = h.Get(":authority"), true
	if t.Role == envoy.ClusterExtProc {
		t.Role, t.Drains = envoy.RoleDownstream, true
	}
	return t
}

// A link is a stream of an ext_proc filter.
type link struct{ *transport.Stream }

// Send implements [carrier.Link].
func (l link) Send(r *carrier.Response) error { return l.Stream.Send((*wire.Response)(r)) }

// A linked handler gets the messages of a stream of an ext_proc filter.
type linked struct {
	handler carrier.Handler
	in      wire.Message
}

// Message implements [transport.Handler].
func (l *linked) Message(b []byte, owned bool) error {
	if err := l.in.Decode(b); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	if !owned {
		l.in.Body = append([]byte(nil), l.in.Body...)
	}
	return ended(l.handler.Take((*carrier.Message)(&l.in)))
}

// Close implements [transport.Handler].
func (l *linked) Close() error { return ended(l.handler.Close()) }

// ended returns the error that ends a stream. None but nil is OK.
func ended(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}
