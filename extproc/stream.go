package extproc

import (
	"errors"
	"io"
	"runtime/debug"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
)

// Process serves one stream of one ext_proc filter. Which filter it is, Envoy says in the stream's metadata.
func (s *Server) Process(stream extprocv3.ExternalProcessor_ProcessServer) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("panic in an exchange", zap.Any("panic", r), zap.ByteString("stack", debug.Stack()))
			err = status.Error(codes.Internal, "panic")
		}
	}()
	role := metadata.ValueFromIncomingContext(stream.Context(), envoy.RoleHeader)
	switch {
	case len(role) == 1 && role[0] == envoy.RoleDownstream:
		return s.downstream(stream)
	case len(role) == 1 && role[0] == envoy.RoleUpstream:
		return s.upstream(stream)
	}
	return status.Errorf(codes.InvalidArgument, "unknown role %q", role)
}

// downstream carries one exchange, from its request headers to its end.
func (s *Server) downstream(stream extprocv3.ExternalProcessor_ProcessServer) error {
	x := exchange.New(&s.env, s.config.current.Load())
	defer func() {
		if p := x.Plan(); p != nil {
			s.plans.Delete(p.ID)
		}
		s.journal.exchange(x.Close())
	}()
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil // Envoy has closed its side: the only end that is not an error
		}
		if err != nil {
			return err
		}
		reply, phase := step(x, in)
		if phase == phaseUnknown {
			return status.Errorf(codes.InvalidArgument, "unexpected message %T", in.GetRequest())
		}
		if reply.Plan != nil {
			s.plans.Store(reply.Plan.ID, reply.Plan)
		}
		if err := stream.Send(encodeReply(phase, &reply)); err != nil {
			return err
		}
	}
}

// step gives a message of Envoy's to the exchange.
func step(x *exchange.Exchange, in *extprocv3.ProcessingRequest) (exchange.Reply, phase) {
	switch m := in.GetRequest().(type) {
	case *extprocv3.ProcessingRequest_RequestHeaders:
		return x.RequestHeaders(decodeHeaders(m.RequestHeaders), m.RequestHeaders.GetEndOfStream()), phaseRequestHeaders
	case *extprocv3.ProcessingRequest_RequestBody:
		return x.RequestBody(m.RequestBody.GetBody()), phaseRequestBody
	case *extprocv3.ProcessingRequest_ResponseHeaders:
		return x.ResponseHeaders(decodeHeaders(m.ResponseHeaders), decodeFacts(in), m.ResponseHeaders.GetEndOfStream()), phaseResponseHeaders
	case *extprocv3.ProcessingRequest_ResponseBody:
		return x.ResponseBody(m.ResponseBody.GetBody(), m.ResponseBody.GetEndOfStream()), phaseResponseBody
	}
	return exchange.Reply{}, phaseUnknown
}

// upstream carries one attempt after the first: its headers come once, and go out with the body for its provider. Every
// other way out is an error, for the request must not go on as it was made for another provider.
func (s *Server) upstream(stream extprocv3.ExternalProcessor_ProcessServer) error {
	in, err := stream.Recv()
	if err != nil {
		return status.Error(codes.Aborted, "no message")
	}
	id, cluster, n := decodeAttempt(in)
	found, ok := s.plans.Load(id)
	if !ok {
		return status.Errorf(codes.NotFound, "no plan %q", id)
	}
	p := found.(*exchange.Plan)
	if n < 2 || n > len(p.Targets) || p.Targets[n-1].Cluster != cluster {
		return status.Errorf(codes.FailedPrecondition, "attempt %d at %q is not planned", n, cluster)
	}
	attempt, err := p.Encode(n)
	if err != nil {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	if err := stream.Send(encodeAttempt(&attempt)); err != nil {
		return err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return status.Error(codes.Aborted, "unexpected message after an attempt's headers")
	}
	return nil
}
