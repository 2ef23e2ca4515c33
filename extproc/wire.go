package extproc

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/exchange"
)

// phase is which message of Envoy's is answered.
type phase uint8

const (
	phaseUnknown phase = iota
	phaseRequestHeaders
	phaseRequestBody
	phaseResponseHeaders
	phaseResponseBody
)

func decodeHeaders(m *extprocv3.HttpHeaders) exchange.Headers {
	in := m.GetHeaders().GetHeaders()
	out := make(exchange.Headers, len(in))
	for i, h := range in {
		out[i].Name = h.GetKey()
		if raw := h.GetRawValue(); raw != nil {
			out[i].Value = string(raw)
		} else {
			out[i].Value = h.GetValue()
		}
	}
	return out
}

// attributes are what Envoy was told to send under the name of the filter.
func attributes(in *extprocv3.ProcessingRequest) map[string]*structpb.Value {
	return in.GetAttributes()["envoy.filters.http.ext_proc"].GetFields()
}

func decodeFacts(in *extprocv3.ProcessingRequest) exchange.Facts {
	a := attributes(in)
	return exchange.Facts{
		Cluster:     a[envoy.AttributeClusterName].GetStringValue(),
		Attempts:    int(a[envoy.AttributeAttempt].GetNumberValue()),
		CodeDetails: a[envoy.AttributeCodeDetails].GetStringValue(),
	}
}

// decodeAttempt returns the exchange, the cluster and the number of an attempt after the first.
func decodeAttempt(in *extprocv3.ProcessingRequest) (id, cluster string, n int) {
	a := attributes(in)
	id = in.GetMetadataContext().GetFilterMetadata()[envoy.Metadata].GetFields()[envoy.MetadataRequest].GetStringValue()
	return id, a[envoy.AttributeClusterName].GetStringValue(), int(a[envoy.AttributeAttempt].GetNumberValue())
}

func encodeReply(p phase, r *exchange.Reply) *extprocv3.ProcessingResponse {
	if r.Immediate != nil {
		return encodeImmediate(r.Immediate)
	}
	common := &extprocv3.CommonResponse{HeaderMutation: mutation(r.Set, r.Remove)}
	if r.ReplaceBody {
		common.BodyMutation = bodyMutation(r.Body)
	}
	out := &extprocv3.ProcessingResponse{ModeOverride: modes[r.ResponseBody]}
	switch {
	case r.ID != "":
		out.DynamicMetadata = structOf(field(envoy.Metadata, object(field(envoy.MetadataRequest, structpb.NewStringValue(r.ID)))))
	case r.Plan != nil:
		common.ClearRouteCache = true // ignored by Envoy unless there is a header mutation too
		common.HeaderMutation.SetHeaders = append(common.HeaderMutation.SetHeaders, planHeaders(r.Plan)...)
		out.DynamicMetadata = planMetadata(r.Plan)
	}
	switch p {
	case phaseRequestHeaders:
		out.Response = &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{Response: common}}
	case phaseRequestBody:
		out.Response = &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{Response: common}}
	case phaseResponseHeaders:
		out.Response = &extprocv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocv3.HeadersResponse{Response: common}}
	default:
		out.Response = &extprocv3.ProcessingResponse_ResponseBody{ResponseBody: &extprocv3.BodyResponse{Response: common}}
	}
	return out
}

// modes are the overrides that the filter's configuration allows. The trailer modes must be spelled out there, and may be
// omitted here.
var modes = map[exchange.BodyMode]*filterv3.ProcessingMode{
	exchange.None:     override(filterv3.ProcessingMode_NONE),
	exchange.Streamed: override(filterv3.ProcessingMode_STREAMED),
	exchange.Buffered: override(filterv3.ProcessingMode_BUFFERED),
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

// setHeader overwrites a header. Envoy ignores "value" in ext_proc mutations: it must be the raw value.
func setHeader(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, RawValue: []byte(value)}}
}

func bodyMutation(body []byte) *extprocv3.BodyMutation {
	if len(body) == 0 {
		return &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_ClearBody{ClearBody: true}}
	}
	return &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_Body{Body: body}}
}

// planHeaders tell Envoy's router how often and when to try again. The router takes them off.
func planHeaders(p *exchange.Plan) []*corev3.HeaderValueOption {
	return []*corev3.HeaderValueOption{
		setHeader("x-envoy-max-retries", strconv.Itoa(len(p.Targets)-1)),
		setHeader("x-envoy-retry-on", "reset,connect-failure,refused-stream,retriable-status-codes"),
		setHeader("x-envoy-retriable-status-codes", p.Retry),
		setHeader("x-envoy-upstream-rq-per-try-timeout-ms", strconv.FormatInt(p.Timeout.Milliseconds(), 10)),
	}
}

// planMetadata is the plan for Envoy: the group of clusters for each attempt.
func planMetadata(p *exchange.Plan) *structpb.Struct {
	groups := make([]*structpb.Value, len(p.Targets))
	for i, t := range p.Targets {
		cluster := object(field("cluster_name", structpb.NewStringValue(t.Cluster)), field("weight", structpb.NewNumberValue(100)))
		groups[i] = object(field("name", structpb.NewStringValue(strconv.Itoa(i+1))), field("clusters", list(cluster)))
	}
	return structOf(
		field(envoy.Metadata, object(field(envoy.MetadataKind, structpb.NewStringValue(envoy.KindLLM)))),
		field(envoy.MetadataPlan, object(field("priority_groups", list(groups...)))))
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

func encodeImmediate(i *exchange.Immediate) *extprocv3.ProcessingResponse {
	h := make([]*corev3.HeaderValueOption, 0, len(i.Header))
	for name, values := range i.Header {
		h = append(h, setHeader(strings.ToLower(name), values[0]))
	}
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocv3.ImmediateResponse{
		Status:  &typev3.HttpStatus{Code: typev3.StatusCode(i.Status)},
		Headers: &extprocv3.HeaderMutation{SetHeaders: h},
		Body:    i.Body,
		Details: i.Details,
	}}}
}

// encodeAttempt replaces the request of an earlier attempt by a later one's. Envoy drops content-length where it replaces
// a body at the headers; a filter behind this one puts it back from the metadata.
func encodeAttempt(a *exchange.Attempt) *extprocv3.ProcessingResponse {
	length := structpb.NewStringValue(strconv.Itoa(len(a.Body)))
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
			Status:         extprocv3.CommonResponse_CONTINUE_AND_REPLACE,
			HeaderMutation: mutation(a.Header, nil),
			BodyMutation:   bodyMutation(a.Body),
		}}},
		DynamicMetadata: structOf(field(envoy.Metadata, object(field(envoy.MetadataContentLength, length)))),
	}
}
