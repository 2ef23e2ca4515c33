package extproc

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
)

func headersOf(pairs ...string) *extprocv3.HttpHeaders {
	h := &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{}}
	for i := 0; i < len(pairs); i += 2 {
		h.Headers.Headers = append(h.Headers.Headers, &corev3.HeaderValue{Key: pairs[i], RawValue: []byte(pairs[i+1])})
	}
	return h
}

func requestHeaders(pairs ...string) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: headersOf(pairs...)}}
}

// TestNoEndButEnvoysIsOK holds the rule that keeps unchecked requests out: Envoy takes a stream that ends with OK for
// leave to go on.
func TestNoEndButEnvoysIsOK(t *testing.T) {
	client := extprocv3.NewExternalProcessorClient(startServer(t, &exchange.Config{}))
	for _, c := range []struct {
		name, role string
		first      *extprocv3.ProcessingRequest
		want       codes.Code
	}{
		{"no role", "", requestHeaders(":path", "/"), codes.InvalidArgument},
		{"unknown role", "root", requestHeaders(":path", "/"), codes.InvalidArgument},
		{"a message that was not asked for", envoy.RoleDownstream,
			&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestTrailers{
				RequestTrailers: &extprocv3.HttpTrailers{}}}, codes.FailedPrecondition},
		{"a message without content", envoy.RoleDownstream, &extprocv3.ProcessingRequest{}, codes.FailedPrecondition},
		{"an attempt of an unknown exchange", envoy.RoleUpstream, requestHeaders(":path", "/"), codes.FailedPrecondition},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := t.Context()
			if c.role != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, envoy.RoleHeader, c.role)
			}
			stream, err := client.Process(ctx)
			require.NoError(t, err)
			_ = stream.Send(c.first) // a refused stream may have ended already
			_, err = stream.Recv()
			require.Equal(t, c.want, status.Code(err), "%v", err)
		})
	}
}

// TestTheAuthorityNamesTheFilter opens streams without gRPC metadata.
func TestTheAuthorityNamesTheFilter(t *testing.T) {
	client := extprocv3.NewExternalProcessorClient(startServer(t, nil))
	for authority, want := range map[string]codes.Code{
		envoy.ClusterExtProc: codes.OK, envoy.RoleInternal: codes.OK, envoy.RoleUpstream: codes.FailedPrecondition,
		"root": codes.InvalidArgument,
	} {
		stream, err := client.Process(t.Context(), grpc.CallAuthority(authority))
		require.NoError(t, err)
		_ = stream.Send(requestHeaders(":method", "POST", ":path", "/v1/chat/completions"))
		reply, err := stream.Recv()
		require.Equal(t, want, status.Code(err), "%s: %v", authority, err)
		require.Equal(t, authority == envoy.ClusterExtProc,
			reply.GetModeOverride().GetRequestBodyMode() == filterv3.ProcessingMode_STREAMED,
			"%s: the answer waits for the body", authority)
	}
}

func TestEnvoysOwnAnswerMayComeFirst(t *testing.T) {
	client := extprocv3.NewExternalProcessorClient(startServer(t, &exchange.Config{}))
	stream, err := client.Process(metadata.AppendToOutgoingContext(t.Context(), envoy.RoleHeader, envoy.RoleDownstream))
	require.NoError(t, err)
	require.NoError(t,
		stream.Send(
			&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{
				ResponseHeaders: headersOf(":status", "408")}}))
	reply, err := stream.Recv()
	require.NoError(t, err)
	require.Empty(t, reply.GetResponseHeaders().GetResponse().GetHeaderMutation().GetSetHeaders())
	require.NoError(t, stream.CloseSend())
}

func TestWithoutConfigurationNothingPasses(t *testing.T) {
	client := extprocv3.NewExternalProcessorClient(startServer(t, nil))
	stream, err := client.Process(metadata.AppendToOutgoingContext(t.Context(), envoy.RoleHeader, envoy.RoleDownstream,
		envoy.DrainsHeader, "1"))
	require.NoError(t, err)
	require.NoError(t, stream.Send(requestHeaders(":method", "POST", ":path", "/v1/chat/completions", "authorization",
		"Bearer x")))
	reply, err := stream.Recv()
	require.NoError(t, err)
	require.Equal(t, filterv3.ProcessingMode_STREAMED, reply.GetModeOverride().GetRequestBodyMode(),
		"the answer waits for the body")
	for _, end := range []bool{false, true} {
		require.NoError(t,
			stream.Send(
				&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
					RequestBody: &extprocv3.HttpBody{Body: []byte("x"), EndOfStream: end}}}))
		require.Equal(t, end, reply.GetRequestBody() != nil)
		reply, err = stream.Recv()
		require.NoError(t, err)
		require.Equal(t, !end, reply.GetRequestBody().GetResponse().GetBodyMutation().GetClearBody())
	}
	require.EqualValues(t, 503, reply.GetImmediateResponse().GetStatus().GetCode())
	require.Equal(t, "mg_not_ready", reply.GetImmediateResponse().GetDetails())

	stream, err = client.Process(metadata.AppendToOutgoingContext(t.Context(), envoy.RoleHeader, envoy.RoleDownstream))
	require.NoError(t, err)
	require.NoError(t, stream.Send(requestHeaders(":method", "POST", ":path", "/v1/chat/completions", "authorization",
		"Bearer x")))
	reply, err = stream.Recv()
	require.NoError(t, err)
	require.EqualValues(t, 503, reply.GetImmediateResponse().GetStatus().GetCode(),
		"a listener that does not drain has the answer at once")
}

// TestAPanicEndsOneExchange sends a request that only a configuration without a hasher cannot bear.
func TestAPanicEndsOneExchange(t *testing.T) {
	client := extprocv3.NewExternalProcessorClient(startServer(t, &exchange.Config{}))
	for range 2 {
		stream, err := client.Process(metadata.AppendToOutgoingContext(t.Context(), envoy.RoleHeader, envoy.RoleDownstream))
		require.NoError(t, err)
		require.NoError(t, stream.Send(requestHeaders(":method", "GET", ":path", "/v1/models", "authorization", "Bearer "+
			validKey)))
		_, err = stream.Recv()
		require.Equal(t, codes.Internal, status.Code(err), "%v", err)
	}
}
