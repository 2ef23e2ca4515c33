package extproc

import (
	"context"
	"net"
	"runtime/debug"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/extproc/wire"
)

// maxMessage bounds one message from Envoy: a buffered body of 48 MiB, the limit after translation, and its framing.
const maxMessage = 64 << 20

// lean returns a server of extproc/transport, with a goroutine per connection.
func (s *Server) lean(maxHeld int) *transport.Server {
	return transport.New(transport.Options{
		MaxMessage: maxMessage, MaxHeld: maxHeld,
		Panicked: func(reason any, stack []byte) {
			s.log.Error("panic on a stream", zap.Any("panic", reason), zap.ByteString("stack", stack))
		},
		Service: func(stream *transport.Stream, h transport.Headers) (transport.Handler, error) {
			switch path := h.Get(":path"); path {
			case extprocv3.ExternalProcessor_Process_FullMethodName:
				handler, err := s.open(stream, traitsOf(h.Get))
				if err != nil {
					return nil, err
				}
				return &leanHandler{handler: handler}, nil
			case accesslogv3.AccessLogService_StreamAccessLogs_FullMethodName:
				return s.openLogs(stream), nil
			default:
				return nil, status.Errorf(codes.Unimplemented, "there is no method %q", path)
			}
		},
	})
}

// grpc returns a server of grpc-go, with two goroutines per stream.
func (s *Server) grpc() grpcServer {
	g := grpc.NewServer(grpc.ForceServerCodecV2(wire.New()), grpc.StreamInterceptor(s.recoverPanic),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxConcurrentStreams(1<<20),
		grpc.WaitForHandlers(true))
	g.RegisterService(&processorService, s)
	accesslogv3.RegisterAccessLogServiceServer(g, s)
	return grpcServer{g}
}

type grpcServer struct{ server *grpc.Server }

// Serve implements server.
func (g grpcServer) Serve(l net.Listener) error { return g.server.Serve(l) }

// Shutdown implements server.
func (g grpcServer) Shutdown(ctx context.Context) {
	defer context.AfterFunc(ctx, g.server.Stop)()
	g.server.GracefulStop()
}

// processorService is envoy.service.ext_proc.v3.ExternalProcessor with the messages of package wire.
var processorService = grpc.ServiceDesc{
	ServiceName: "envoy.service.ext_proc.v3.ExternalProcessor",
	HandlerType: (*any)(nil),
	Streams: []grpc.StreamDesc{{
		StreamName:    "Process",
		Handler:       func(s any, stream grpc.ServerStream) error { return s.(*Server).process(stream) },
		ServerStreams: true,
		ClientStreams: true,
	}},
}

// recoverPanic converts a panic to an error that ends only its stream.
func (s *Server) recoverPanic(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo,
	handle grpc.StreamHandler) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("panic on a stream", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			err = status.Error(codes.Internal, "panic")
		}
	}()
	return handle(srv, stream)
}
