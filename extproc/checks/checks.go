// Package checks answers Envoys that do not send their requests through the ext_proc filter: the authorization service
// (ext_authz) checks keys alone, and the rate limit service counts under the limits of the gateway. The health service
// says whether the process takes new streams.
package checks

import (
	"context"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/transport"
)

// Options are the dependencies of Checks.
type Options struct {
	Env *call.Env
	// Config returns the configuration, or nil if there is none yet.
	Config func() *call.Config
	// Ready returns an error if new streams have to go to another process.
	Ready func() error
	// KeyHeaders are the headers in which clients may send a key in place of a bearer token.
	KeyHeaders []string
	Registerer prometheus.Registerer
}

// Checks answers. It is safe for concurrent use.
type Checks struct {
	options Options
	count   *prometheus.CounterVec
}

// New returns checks that are ready.
func New(o Options) *Checks {
	c := &Checks{options: o, count: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "modelgate_checks_total",
		Help: "Requests of other Envoys that were checked, by service: authorization or ratelimit, and by result: admitted, refused or failed."},
		[]string{"service", "result"})}
	for _, service := range []string{"authorization", "ratelimit"} { // a rate needs a beginning
		for _, result := range []string{"admitted", "refused", "failed"} {
			c.count.WithLabelValues(service, result)
		}
	}
	o.Registerer.MustRegister(c.count)
	return c
}

// Handler returns the handler of a stream for a method, or nil if it is none of the services'.
func (c *Checks) Handler(method string, stream *transport.Stream) transport.Handler {
	switch method {
	case authv3.Authorization_Check_FullMethodName:
		return answering(stream, &authv3.CheckRequest{}, c.Authorize)
	case rlsv3.RateLimitService_ShouldRateLimit_FullMethodName:
		return answering(stream, &rlsv3.RateLimitRequest{}, c.ShouldRateLimit)
	case healthv1.Health_Check_FullMethodName:
		return answering(stream, &healthv1.HealthCheckRequest{}, c.health)
	}
	return nil
}

// A handler answers one message.
type handler[In, Out proto.Message] struct {
	stream *transport.Stream
	in     In
	answer func(context.Context, In) (Out, error)
}

func answering[In, Out proto.Message](stream *transport.Stream, in In,
	answer func(context.Context, In) (Out, error)) transport.Handler {
	return &handler[In, Out]{stream, in, answer}
}

// Message implements [transport.Handler]. The answer may need the store of limits.
func (h *handler[In, Out]) Message(b []byte, _ bool) error {
	if err := proto.Unmarshal(b, h.in); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return h.stream.Go(func() error {
		out, err := h.answer(h.stream, h.in)
		if err != nil {
			return err
		}
		answer, err := proto.Marshal(out)
		if err != nil {
			return err
		}
		return h.stream.Send(transport.Encoded(answer))
	})
}

// Close implements [transport.Handler].
func (h *handler[In, Out]) Close() error { return nil }

// health implements the health service of gRPC.
func (c *Checks) health(context.Context, *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	says := healthv1.HealthCheckResponse_SERVING
	if c.options.Ready() != nil {
		says = healthv1.HealthCheckResponse_NOT_SERVING
	}
	return &healthv1.HealthCheckResponse{Status: says}, nil
}

// config returns the configuration, with its rules.
func (c *Checks) config() (*call.Derived, error) {
	config := c.options.Config()
	if config == nil {
		return nil, status.Error(codes.Unavailable, "there is no configuration yet")
	}
	return c.options.Env.Derived(config), nil
}

func (c *Checks) counted(service string, admitted bool, err error) {
	result := "refused"
	switch {
	case err != nil:
		result = "failed"
	case admitted:
		result = "admitted"
	}
	c.count.WithLabelValues(service, result).Inc()
}
