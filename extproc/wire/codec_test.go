package wire

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	priorityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/router/cluster_specifiers/priority_group/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/carrier"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
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

func TestCodecWritesWhatTheGeneratedTypesRead(t *testing.T) {
	plan := &routing.Plan{ID: "p-1", Kind: envoy.KindLLM, Timeout: 1500 * time.Millisecond, Retry: "500,503",
		Targets: []routing.Target{
			{Cluster: "a/first"}, {Cluster: "b/retry"},
		}}
	once := &routing.Plan{ID: "p-1", Kind: envoy.KindLLM, Timeout: time.Second, Retry: "500,503",
		Targets: []routing.Target{{Cluster: "a/first"}}}
	usual := &routing.Plan{ID: "p-1", Kind: envoy.KindLLM, Timeout: 2 * time.Minute, Retry: "500,503",
		Targets: []routing.Target{{Cluster: "a/first"}}}
	passes := &routing.Plan{ID: "p-1", Kind: envoy.KindPassed, Timeout: time.Second,
		Targets: []routing.Target{{Cluster: "a/first"}}}
	session := &routing.Plan{ID: "p-1", Kind: envoy.KindSession, Timeout: time.Second, Retry: "500,503",
		Targets: []routing.Target{{Cluster: "a/session"}, {Cluster: "b/session"}}}
	jobs := &routing.Plan{ID: "p-1", Kind: envoy.KindJobs}
	named := &exchange.Names{ID: "p-1"}
	set := exchange.Headers{{Name: ":path", Value: "/v1"}, {Name: "x", Value: ""},
		{Name: "long", Value: strings.Repeat("v", 70000)}}
	for name, r := range map[string]Response{
		"how long Envoy must wait": {Patience: 90 * time.Second},
		"request headers": {Phase: carrier.RequestHeaders, Reply: &exchange.Reply{ResponseBody: exchange.Streamed,
			Names: named, Remove: []string{"cookie", "x-title"}}},
		"a plan": {Phase: carrier.RequestBody, Reply: &exchange.Reply{Plan: plan, Set: set,
			ReplaceBody: true, Body: []byte("{}")}},
		"a plan of one attempt": {Phase: carrier.RequestBody, Reply: &exchange.Reply{Plan: once, Set: set,
			ReplaceBody: true, Body: []byte("{}")}},
		"a plan with the timeout of the route": {Phase: carrier.RequestBody, Reply: &exchange.Reply{Plan: usual, Set: set,
			ReplaceBody: true, Body: []byte("{}")}},
		"a request that passes": {Phase: carrier.RequestHeaders, Reply: &exchange.Reply{Plan: passes, Names: named,
			PassRequest: true, ResponseBody: exchange.None, Set: set, Remove: []string{"cookie"}}},
		"a request for the job service": {Phase: carrier.RequestHeaders, Reply: &exchange.Reply{Plan: jobs, Names: named,
			PassRequest: true, ResponseBody: exchange.None, Set: set}},
		"an answer that passes unseen": {Phase: carrier.ResponseHeaders, Reply: &exchange.Reply{ResponseBody: exchange.None,
			Log: true, Set: set}},
		"response headers": {Phase: carrier.ResponseHeaders,
			Reply: &exchange.Reply{ResponseBody: exchange.Buffered, Set: set}},
		"Envoy's own answer": {Phase: carrier.ResponseHeaders, Reply: &exchange.Reply{ResponseBody: exchange.None}},
		"a piece": {Phase: carrier.ResponseBody, Reply: &exchange.Reply{ReplaceBody: true,
			Body: []byte("data: x\n\n")}},
		"a piece that is held": {Phase: carrier.ResponseBody, Reply: &exchange.Reply{ReplaceBody: true}},
		"request headers of what may stream": {Phase: carrier.RequestHeaders,
			Reply: &exchange.Reply{ResponseBody: exchange.Duplex, Names: named}},
		"a piece of a duplex body": {Phase: carrier.ResponseBody,
			Reply: &exchange.Reply{Piece: true, Body: []byte("data: x\n\n")}},
		"the end of a duplex body": {Phase: carrier.ResponseBody, Reply: &exchange.Reply{Piece: true, End: true}},
		"trailers": {Phase: carrier.ResponseTrailers,
			Reply: &exchange.Reply{Piece: true, Remove: []string{"x-t"}}},
		"nothing": {Phase: carrier.ResponseBody, Reply: &exchange.Reply{}},
		"a large body": {Phase: carrier.ResponseBody, Reply: &exchange.Reply{ReplaceBody: true,
			Body: make([]byte, 3<<20)}},
		"an answer that waits": {Phase: carrier.RequestHeaders, Reply: &exchange.Reply{Drain: true, Names: named,
			Patience: time.Second}},
		"an immediate answer": {Phase: carrier.RequestHeaders,
			Reply: &exchange.Reply{Immediate: &exchange.Immediate{Status: 401,
				Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte("{}"), Details: "mg_x"}}},
		"an attempt": {Attempt: &routing.Attempt{Header: set, Body: []byte("body")}},
		"a session": {Phase: carrier.RequestHeaders, Reply: &exchange.Reply{Plan: session, Names: named, PassRequest: true,
			ResponseBody: exchange.Duplex, Set: set, Remove: []string{"cookie"}}},
		"the end of a session": {Phase: carrier.ResponseBody,
			Reply: &exchange.Reply{Piece: true, Body: []byte{0x88, 0}, End: true}},
		"an attempt to open a session": {Attempt: &routing.Attempt{Header: set}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, typed := range []bool{false, true} {
				r.Typed = typed
				var got extprocv3.ProcessingResponse
				require.NoError(t, proto.Unmarshal(r.Append(nil), &got))
				want := standardAttemptOr(r)
				if proto.Equal(want, &got) {
					continue
				}
				diff := cmp.Diff(want, &got, protocmp.Transform()) // reads a typed plan, which may be written otherwise
				require.Empty(t, diff)
			}
		})
	}
}

func standardAttemptOr(r Response) *extprocv3.ProcessingResponse {
	switch {
	case r.Patience > 0:
		return &extprocv3.ProcessingResponse{OverrideMessageTimeout: durationpb.New(r.Patience)}
	case r.Attempt != nil:
		return standardAttempt(r.Attempt)
	}
	out := encodeStandard(r.Phase, r.Reply)
	if plan := r.Reply.Plan; r.Typed && plan != nil && plan.Targets != nil {
		delete(out.GetDynamicMetadata().GetFields(), "mg.plan")
		out.TypedDynamicMetadata = map[string]*anypb.Any{"mg.plan": typedPlan(plan)}
	}
	return out
}

func typedPlan(p *routing.Plan) *anypb.Any {
	plan := &priorityv3.PriorityGroupsOverride{}
	for i, t := range p.Targets {
		plan.PriorityGroups = append(plan.PriorityGroups, &priorityv3.PriorityGroup{Name: strconv.Itoa(i + 1),
			Clusters: []*priorityv3.ClusterWeight{{ClusterName: t.Cluster, Weight: wrapperspb.UInt32(100)}}})
	}
	packed, err := anypb.New(plan)
	if err != nil {
		panic(err)
	}
	return packed
}

func TestCodecReadsWhatTheGeneratedTypesWrite(t *testing.T) {
	headers := headersOf(":path", "/v1/models", "x-unknown", "1", "empty", "")
	headers.EndOfStream = true
	headers.Headers.Headers[1] = &corev3.HeaderValue{Key: "x-plain", Value: "not raw"}
	metadata, err := structpb.NewStruct(map[string]any{"rid": "p-1", "other": []any{1, "x"}})
	require.NoError(t, err)
	attributes, err := structpb.NewStruct(map[string]any{envoy.AttributeClusterName: "a/retry", envoy.AttributeAttempt: 3,
		envoy.AttributeCodeDetails: "via_upstream", "other": true})
	require.NoError(t, err)
	filter := map[string]*structpb.Struct{"envoy.filters.http.ext_proc": attributes}
	facts := exchange.Facts{Cluster: "a/retry", Attempts: 3, CodeDetails: "via_upstream"}
	wanted := exchange.Headers{{Name: ":path", Value: "/v1/models"}, {Name: "x-plain", Value: "not raw"},
		{Name: "empty", Value: ""}}
	for name, c := range map[string]struct {
		in   *extprocv3.ProcessingRequest
		want Message
	}{
		"request headers": {&extprocv3.ProcessingRequest{
			Request:        &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers},
			ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: filterv3.ProcessingMode_BUFFERED},
		}, Message{Phase: carrier.RequestHeaders, End: true, Headers: wanted}},
		"request headers of an attempt": {&extprocv3.ProcessingRequest{
			Request:         &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers},
			Attributes:      filter,
			MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"mg": metadata, "else": attributes}},
		}, Message{Phase: carrier.RequestHeaders, End: true, Headers: wanted, Facts: facts, Request: "p-1"}},
		"request body": {&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: []byte("{}"), EndOfStream: true}}},
			Message{Phase: carrier.RequestBody, Body: []byte("{}"), End: true}},
		"response headers": {&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseHeaders{
			ResponseHeaders: headers}, Attributes: filter},
			Message{Phase: carrier.ResponseHeaders, End: true, Headers: wanted, Facts: facts}},
		"response body": {&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
			ResponseBody: &extprocv3.HttpBody{Body: []byte("x")}}},
			Message{Phase: carrier.ResponseBody, Body: []byte("x")}},
		"response trailers": {&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseTrailers{
			ResponseTrailers: &extprocv3.HttpTrailers{Trailers: headersOf("x-t", "1").GetHeaders()}}},
			Message{Phase: carrier.ResponseTrailers, Headers: exchange.Headers{{Name: "x-t", Value: "1"}}}},
		"request trailers": {&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestTrailers{
			RequestTrailers: &extprocv3.HttpTrailers{}}}, Message{Phase: carrier.RequestTrailers}},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := proto.Marshal(c.in)
			require.NoError(t, err)
			got := Message{Request: "of the message before"}
			require.NoError(t, got.Decode(b))
			require.Empty(t, cmp.Diff(c.want, got, cmp.AllowUnexported(Message{})))
			for cut := range b {
				_ = new(Message).decode(b[:cut]) // truncated: an error or a part, never a panic
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	b, err := proto.Marshal(requestHeaders(":path", "/", "authorization", "x"))
	require.NoError(f, err)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var in extprocv3.ProcessingRequest
		valid := proto.Unmarshal(b, &in) == nil
		if err := new(Message).decode(b); err != nil && valid {
			t.Fatalf("refused what the generated types read: %v", err)
		}
	})
}

// encodeStandard is what a reply is, said with the generated types.
func encodeStandard(p carrier.Phase, r *exchange.Reply) *extprocv3.ProcessingResponse {
	switch {
	case r.Immediate != nil:
		return standardImmediate(r.Immediate)
	case p == carrier.ResponseTrailers:
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
			ResponseTrailers: &extprocv3.TrailersResponse{HeaderMutation: mutation(nil, r.Remove)}}}
	case r.Piece:
		piece := &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
			StreamedResponse: &extprocv3.StreamedBodyResponse{Body: r.Body, EndOfStream: r.End}}}
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{
			ResponseBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: piece}}}}
	}
	common := &extprocv3.CommonResponse{HeaderMutation: mutation(r.Set, r.Remove)}
	if r.ReplaceBody {
		common.BodyMutation = bodyMutation(r.Body)
	}
	out := &extprocv3.ProcessingResponse{ModeOverride: modes[r.ResponseBody], DynamicMetadata: facts(r)}
	if r.Drain {
		out.ModeOverride = &filterv3.ProcessingMode{
			ResponseHeaderMode: filterv3.ProcessingMode_SKIP, RequestBodyMode: filterv3.ProcessingMode_STREAMED,
			RequestTrailerMode: filterv3.ProcessingMode_SEND, ResponseTrailerMode: filterv3.ProcessingMode_SKIP,
		}
	}
	if r.PassRequest {
		out.ModeOverride = proto.CloneOf(out.ModeOverride)
		out.ModeOverride.RequestBodyMode = filterv3.ProcessingMode_NONE
	}
	if r.Plan != nil {
		common.ClearRouteCache = true // ignored by Envoy unless there is a header mutation too
		common.HeaderMutation.SetHeaders = append(common.HeaderMutation.SetHeaders, planHeaders(r.Plan)...)
	}
	switch p {
	case carrier.RequestHeaders:
		out.Response = &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: common}}
	case carrier.RequestBody:
		out.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{Response: common}}
	case carrier.ResponseHeaders:
		out.Response = &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{
			Response: common}}
	default:
		out.Response = &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: &extprocv3.BodyResponse{Response: common}}
	}
	return out
}

var modes = map[exchange.BodyMode]*filterv3.ProcessingMode{
	exchange.None:     override(filterv3.ProcessingMode_NONE),
	exchange.Streamed: override(filterv3.ProcessingMode_STREAMED),
	exchange.Buffered: override(filterv3.ProcessingMode_BUFFERED),
	exchange.Duplex:   duplexOverride(),
}

func duplexOverride() *filterv3.ProcessingMode {
	m := override(filterv3.ProcessingMode_FULL_DUPLEX_STREAMED)
	m.ResponseTrailerMode = filterv3.ProcessingMode_SEND
	return m
}

func override(response filterv3.ProcessingMode_BodySendMode) *filterv3.ProcessingMode {
	return &filterv3.ProcessingMode{
		RequestBodyMode:     filterv3.ProcessingMode_BUFFERED,
		RequestTrailerMode:  filterv3.ProcessingMode_SKIP,
		ResponseHeaderMode:  filterv3.ProcessingMode_SEND,
		ResponseBodyMode:    response,
		ResponseTrailerMode: filterv3.ProcessingMode_SKIP,
	}
}

func mutation(set exchange.Headers, remove []string) *extprocv3.HeaderMutation {
	m := &extprocv3.HeaderMutation{RemoveHeaders: remove}
	if len(set) > 0 {
		m.SetHeaders = make([]*corev3.HeaderValueOption, len(set), len(set)+4)
		for i, h := range set {
			m.SetHeaders[i] = setHeader(h.Name, h.Value)
		}
	}
	return m
}

func setHeader(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, RawValue: []byte(value)}}
}

func bodyMutation(body []byte) *extprocv3.BodyMutation {
	if len(body) == 0 {
		return &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_ClearBody{ClearBody: true}}
	}
	return &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: body}}
}

func planHeaders(p *routing.Plan) []*corev3.HeaderValueOption {
	if p.Timeout == 0 {
		return nil
	}
	timeout := setHeader("x-envoy-upstream-rq-per-try-timeout-ms", strconv.FormatInt(p.Timeout.Milliseconds(), 10))
	if p.Kind == envoy.KindLLM && p.Timeout == 2*time.Minute { // the route's
		return []*corev3.HeaderValueOption{setHeader("x-envoy-max-retries", "0")}
	}
	if p.Kind != envoy.KindLLM && p.Kind != envoy.KindSession {
		return []*corev3.HeaderValueOption{timeout}
	}
	if len(p.Targets) == 1 {
		return []*corev3.HeaderValueOption{setHeader("x-envoy-max-retries", "0"), timeout}
	}
	return []*corev3.HeaderValueOption{
		setHeader("x-envoy-max-retries", strconv.Itoa(len(p.Targets)-1)),
		setHeader("x-envoy-retry-on", "reset,connect-failure,refused-stream,retriable-status-codes"),
		setHeader("x-envoy-retriable-status-codes", p.Retry),
		timeout,
	}
}

func facts(r *exchange.Reply) *structpb.Struct {
	var own, namespaces []structField
	if r.Names != nil {
		own = append(own, field("rid", structpb.NewStringValue(r.Names.ID)))
	}
	if r.Log {
		own = append(own, field("log", structpb.NewStringValue("all")))
	}
	if r.Plan != nil {
		own = append(own, field("kind", structpb.NewStringValue(r.Plan.Kind)))
	}
	if r.Plan != nil && r.Plan.Targets != nil {
		namespaces = append(namespaces, field("mg.plan", object(field("priority_groups", groups(r.Plan)))))
	}
	if own == nil {
		return nil
	}
	return structOf(append(namespaces, field("mg", object(own...)))...)
}

func groups(p *routing.Plan) *structpb.Value {
	groups := make([]*structpb.Value, len(p.Targets))
	for i, t := range p.Targets {
		cluster := object(field("cluster_name", structpb.NewStringValue(t.Cluster)),
			field("weight", structpb.NewNumberValue(100)))
		groups[i] = object(field("name", structpb.NewStringValue(strconv.Itoa(i+1))), field("clusters", list(cluster)))
	}
	return list(groups...)
}

type structField struct {
	name  string
	value *structpb.Value
}

func field(name string, v *structpb.Value) structField { return structField{name, v} }

func structOf(fields ...structField) *structpb.Struct {
	m := make(map[string]*structpb.Value, len(fields))
	for _, f := range fields {
		m[f.name] = f.value
	}
	return &structpb.Struct{Fields: m}
}

func object(fields ...structField) *structpb.Value {
	return structpb.NewStructValue(structOf(fields...))
}

func list(values ...*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: values})
}

func standardImmediate(i *exchange.Immediate) *extprocv3.ProcessingResponse {
	h := make([]*corev3.HeaderValueOption, 0, len(i.Header))
	for name, values := range i.Header {
		h = append(h, setHeader(strings.ToLower(name), values[0]))
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
		ImmediateResponse: &extprocv3.ImmediateResponse{
			Status:  &typev3.HttpStatus{Code: typev3.StatusCode(i.Status)},
			Headers: &extprocv3.HeaderMutation{SetHeaders: h},
			Body:    i.Body,
			Details: i.Details,
		}}}
}

func standardAttempt(a *routing.Attempt) *extprocv3.ProcessingResponse {
	if a.Body == nil { // what the client sends later would be dropped with a replaced body
		return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
			RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
				HeaderMutation: mutation(a.Header, nil)}}}}
	}
	length := structpb.NewStringValue(strconv.Itoa(len(a.Body)))
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{
			Response: &extprocv3.CommonResponse{
				Status:         extprocv3.CommonResponse_CONTINUE_AND_REPLACE,
				HeaderMutation: mutation(a.Header, nil),
				BodyMutation:   bodyMutation(a.Body),
			}}},
		DynamicMetadata: structOf(field(envoy.Metadata, object(field(envoy.MetadataContentLength, length)))),
	}
}
