package snapshot

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/modelgate/modelgate/controlplane/xds"
	"github.com/modelgate/modelgate/envoy"
)

// A decider stands for the ext_proc service: it sends what is for the job service there, what names a provider to that
// as it is, and everything else, once its body is there, to the provider "plain".
type decider struct {
	mu    sync.Mutex // guards roles
	roles map[string]bool
	first map[string]string // clusters of first attempts, by provider
}

// decide serves a decider where Envoy looks for the ext_proc service.
func (e *realEnvoy) decide(t *testing.T, in xds.Input) *decider {
	t.Helper()
	l, err := net.Listen("unix", e.extProc)
	require.NoError(t, err)
	d := &decider{roles: map[string]bool{}, first: map[string]string{}}
	for _, r := range built(t, in) {
		if provider := envoy.ProviderOf(r.Name); strings.HasPrefix(r.Name, provider+"/first/") {
			d.first[provider] = r.Name
		}
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	extprocv3.RegisterExternalProcessorServer(s, d)
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Stop(); served.Wait() })
	return d
}

// seen returns the roles that streams had.
func (d *decider) seen() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := d.roles
	d.roles = map[string]bool{}
	return seen
}

// Process serves one request.
func (d *decider) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	role := metadata.ValueFromIncomingContext(stream.Context(), ":authority")
	d.mu.Lock()
	d.roles[strings.Join(role, ",")] = true
	d.mu.Unlock()
	for {
		in, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the end of the request
		}
		var out *extprocv3.ProcessingResponse
		switch {
		case in.GetRequestHeaders() != nil:
			out = d.onHeaders(in.GetRequestHeaders())
		case in.GetRequestBody() != nil:
			out = d.onward("plain", "/chat")
			out.Response = &extprocv3.ProcessingResponse_RequestBody{
				RequestBody: &extprocv3.BodyResponse{Response: out.GetRequestHeaders().GetResponse()}}
		case in.GetResponseHeaders() != nil:
			out = &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
				ResponseHeaders: &extprocv3.HeadersResponse{}}}
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}

func (d *decider) onHeaders(h *extprocv3.HttpHeaders) *extprocv3.ProcessingResponse {
	value := func(name string) string {
		for _, v := range h.GetHeaders().GetHeaders() {
			if v.GetKey() == name {
				return string(v.GetRawValue())
			}
		}
		return ""
	}
	path := value(":path")
	out := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extprocv3.HeadersResponse{}}}
	switch to := value(envoy.HeaderProvider); {
	case to != "":
		out = d.onward(to, path)
		out.GetRequestHeaders().GetResponse().HeaderMutation.RemoveHeaders = []string{envoy.HeaderProvider}
	case strings.HasPrefix(path, "/v1/files"), strings.HasPrefix(path, "/v1/batches"):
		out = d.onward("", "")
		out.GetRequestHeaders().GetResponse().HeaderMutation = &extprocv3.HeaderMutation{
			RemoveHeaders: []string{"authorization", envoy.HeaderOrganization},
			SetHeaders:    []*corev3.HeaderValueOption{setTo(envoy.HeaderKey, "key_ours")},
		}
	}
	out.ModeOverride = &filterv3.ProcessingMode{ResponseHeaderMode: filterv3.ProcessingMode_SEND,
		RequestTrailerMode: filterv3.ProcessingMode_SKIP, ResponseTrailerMode: filterv3.ProcessingMode_SKIP}
	if out.GetDynamicMetadata() == nil {
		out.ModeOverride.RequestBodyMode = filterv3.ProcessingMode_BUFFERED
	}
	return out
}

// onward plans a request to a provider, or to the job service if there is none.
func (d *decider) onward(to, path string) *extprocv3.ProcessingResponse {
	kind, plan := envoy.KindJobs, map[string]any{}
	common := &extprocv3.CommonResponse{ClearRouteCache: true, HeaderMutation: &extprocv3.HeaderMutation{}}
	if to != "" {
		kind = envoy.KindPassed
		plan[envoy.MetadataPlan] = map[string]any{"priority_groups": []any{map[string]any{"name": "1",
			"clusters": []any{map[string]any{"cluster_name": d.first[to], "weight": 100}}}}}
		common.HeaderMutation.SetHeaders = []*corev3.HeaderValueOption{setTo(":path", path)}
	}
	plan[envoy.Metadata] = map[string]any{envoy.MetadataKind: kind, envoy.MetadataRequest: strconv.Itoa(1)}
	s, err := structpb.NewStruct(plan)
	if err != nil {
		panic(err)
	}
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: common}},
		DynamicMetadata: s,
	}
}

func setTo(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, RawValue: []byte(value)}}
}
