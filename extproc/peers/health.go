package peers

import (
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/modelgate/modelgate/extproc/transport"
)

// Health returns the handler of a health check of gRPC. An Envoy that finds the service at a port opens no new streams
// to a process for which ready returns an error.
func Health(stream *transport.Stream, ready func() error) transport.Handler {
	return &health{stream, ready}
}

type health struct {
	stream *transport.Stream
	ready  func() error
}

// Message implements [transport.Handler].
func (h *health) Message([]byte, bool) error {
	says := healthv1.HealthCheckResponse_SERVING
	if h.ready() != nil {
		says = healthv1.HealthCheckResponse_NOT_SERVING
	}
	answer, err := proto.Marshal(&healthv1.HealthCheckResponse{Status: says})
	if err != nil {
		return err
	}
	return h.stream.Send(transport.Encoded(answer))
}

// Close implements [transport.Handler].
func (h *health) Close() error { return nil }
