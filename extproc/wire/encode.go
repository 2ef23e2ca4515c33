package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/carrier"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
)

// Append writes an envoy.service.ext_proc.v3.ProcessingResponse.
func (r *Response) Append(b []byte) []byte {
	switch {
	case r.Patience > 0:
		b, timeout := begin(b, 10) // override_message_timeout
		return end(appendVarint(b, 1, uint64(r.Patience.Seconds())), timeout)
	case r.Attempt != nil:
		return appendAttempt(b, r.Attempt)
	case r.Reply.Immediate != nil:
		return appendImmediate(b, r.Reply.Immediate)
	case r.Phase == carrier.ResponseTrailers:
		return appendTrailers(b, r.Reply.Remove)
	case r.Reply.Piece:
		return appendPiece(b, r.Reply)
	}
	b, answer := begin(b, answerField[r.Phase]) // HeadersResponse or BodyResponse
	b, common := begin(b, 1)                    // CommonResponse
	// header_mutation; a plan has no effect without one, so it is always there
	b, mutation := begin(b, 2)
	b = appendSet(b, r.Reply.Set)
	if r.Reply.Plan != nil {
		b = appendPlanHeaders(b, r.Reply.Plan)
	}
	for _, name := range r.Reply.Remove {
		b = appendString(b, 2, name)
	}
	b = end(b, mutation)
	if r.Reply.ReplaceBody {
		b = appendBody(b, r.Reply.Body)
	}
	if r.Reply.Plan != nil {
		b = appendBool(b, 5) // clear_route_cache
	}
	b = end(end(b, common), answer)
	if r.Reply.Drain {
		b = appendDrain(b)
	}
	b = appendMode(b, r.Reply.ResponseBody, r.Reply.PassRequest)
	return appendFacts(b, r.Reply, r.Typed)
}

// answerField is the field of the answer to the message of each phase.
var answerField = [...]protowire.Number{carrier.RequestHeaders: 1, carrier.ResponseHeaders: 2, carrier.RequestBody: 3,
	carrier.ResponseBody: 4}

// appendAttempt replaces the request of an earlier attempt by that of a later one. Envoy drops content-length if a
// body is replaced at the headers. A later filter restores it from the metadata. For a session nothing may be replaced
// but headers: Envoy would drop what the client sends on the upgraded connection.
func appendAttempt(b []byte, a *routing.Attempt) []byte {
	b, answer := begin(b, 1) // request_headers
	b, common := begin(b, 1)
	if a.Body != nil {
		b = appendVarint(b, 1, 1) // status: CONTINUE_AND_REPLACE
	}
	b, mutation := begin(b, 2)
	b = appendSet(b, a.Header)
	for _, name := range a.Remove {
		b = appendString(b, 2, name)
	}
	b = end(b, mutation)
	if a.Body == nil {
		return end(end(b, common), answer)
	}
	b = appendBody(b, a.Body)
	b = end(end(b, common), answer)
	return appendMetadata(b, envoy.MetadataContentLength, strconv.Itoa(len(a.Body)))
}

func appendImmediate(b []byte, i *exchange.Immediate) []byte {
	b, answer := begin(b, 7)
	b, status := begin(b, 1)
	b = end(appendVarint(b, 1, uint64(i.Status)), status)
	b, mutation := begin(b, 2)
	b = end(appendHTTP(b, i.Header), mutation)
	b = protowire.AppendTag(b, 3, protowire.BytesType)
	b = protowire.AppendBytes(b, i.Body)
	return end(appendString(b, 5, i.Details), answer)
}

func appendHTTP(b []byte, h http.Header) []byte {
	for name, values := range h {
		b = appendHeader(b, strings.ToLower(name), values[0])
	}
	return b
}

func appendSet(b []byte, h exchange.Headers) []byte {
	for i := range h {
		b = appendHeader(b, h[i].Name, h[i].Value)
	}
	return b
}

// appendHeader writes a header that replaces an existing one. Envoy ignores "value" in ext_proc mutations: it must be
// the raw value.
func appendHeader(b []byte, name, value string) []byte {
	b, option := begin(b, 1) // HeaderMutation.set_headers
	b, header := begin(b, 1) // HeaderValueOption.header
	b = appendString(b, 1, name)
	b = appendString(b, 3, value)
	return end(end(b, header), option)
}

// appendPlanHeaders adds the headers that tell Envoy's router how often and when to retry. The router removes them.
// Only a plan with several attempts says when: each header takes the router time.
func appendPlanHeaders(b []byte, p *routing.Plan) []byte {
	if p.Retries() { // the other routes have no retry policy
		b = appendHeader(b, "x-envoy-max-retries", strconv.Itoa(len(p.Targets)-1))
	}
	if p.Retries() && len(p.Targets) > 1 {
		b = appendHeader(b, "x-envoy-retry-on", "reset,connect-failure,refused-stream,retriable-status-codes")
		b = appendHeader(b, "x-envoy-retriable-status-codes", p.Retry)
	}
	if p.Timeout > 0 && !p.HasUsualTimeout() {
		b = appendHeader(b, "x-envoy-upstream-rq-per-try-timeout-ms", strconv.FormatInt(p.Timeout.Milliseconds(), 10))
	}
	return b
}

// appendBody writes a body_mutation of a CommonResponse.
func appendBody(b, body []byte) []byte {
	b, mutation := begin(b, 3)
	if len(body) == 0 {
		b = appendBool(b, 2) // clear_body
	} else {
		b = protowire.AppendTag(b, 1, protowire.BytesType)
		b = protowire.AppendBytes(b, body)
	}
	return end(b, mutation)
}

// appendTrailers writes a TrailersResponse.
func appendTrailers(b []byte, remove []string) []byte {
	b, answer := begin(b, 6)
	b, mutation := begin(b, 1)
	for _, name := range remove {
		b = appendString(b, 2, name)
	}
	return end(end(b, mutation), answer)
}

// appendPiece writes a StreamedBodyResponse, which is part of a Duplex body and not the answer to one message.
func appendPiece(b []byte, r *exchange.Reply) []byte {
	b, answer := begin(b, answerField[carrier.ResponseBody])
	b, common := begin(b, 1)
	b, mutation := begin(b, 3)
	b, piece := begin(b, 3)
	b = protowire.AppendTag(b, 1, protowire.BytesType)
	b = protowire.AppendBytes(b, r.Body)
	if r.End {
		b = appendBool(b, 2)
	}
	return end(end(end(end(b, piece), mutation), common), answer)
}

// Values of envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.
const (
	modeSend     = 1
	modeSkip     = 2
	modeNone     = 0
	modeStreamed = 1
	modeBuffered = 2
	modeDuplex   = 4
)

// appendMode writes the mode_override for the bodies. Every member must equal that of a mode that the filter's
// configuration allows.
func appendMode(b []byte, body exchange.BodyMode, passRequest bool) []byte {
	if body == exchange.Keep {
		return b
	}
	b, mode := begin(b, 9)
	b = appendVarint(b, 2, modeSend) // response_header_mode
	if passRequest {
		b = appendVarint(b, 3, modeNone) // request_body_mode
	} else {
		b = appendVarint(b, 3, modeBuffered)
	}
	switch body {
	case exchange.Streamed:
		b = appendVarint(b, 4, modeStreamed) // response_body_mode
	case exchange.Buffered:
		b = appendVarint(b, 4, modeBuffered)
	case exchange.Duplex:
		b = appendVarint(b, 4, modeDuplex)
	default:
		b = appendVarint(b, 4, modeNone)
	}
	b = appendVarint(b, 5, modeSkip) // request_trailer_mode
	if body == exchange.Duplex {
		b = appendVarint(b, 6, modeSend) // response_trailer_mode: Envoy requires it, because trailers end a body too
	} else {
		b = appendVarint(b, 6, modeSkip)
	}
	return end(b, mode)
}

// appendDrain writes the mode_override for a request whose body is discarded. Trailers end the body too.
func appendDrain(b []byte) []byte {
	b, mode := begin(b, 9)
	b = appendVarint(b, 2, modeSkip)     // response_header_mode
	b = appendVarint(b, 3, modeStreamed) // request_body_mode
	b = appendVarint(b, 4, modeNone)     // response_body_mode
	b = appendVarint(b, 5, modeSend)     // request_trailer_mode
	b = appendVarint(b, 6, modeSkip)     // response_trailer_mode
	return end(b, mode)
}

// appendMetadata writes dynamic metadata with one string in the gateway's namespace.
func appendMetadata(b []byte, key, value string) []byte {
	b, metadata := begin(b, 8)
	b, namespace, fields := beginObject(b, envoy.Metadata)
	b = appendStringField(b, key, value)
	return end(endObject(b, namespace, fields), metadata)
}

// appendFacts writes dynamic metadata: the id of the exchange and what errors of Envoy need, the value that the route
// matches, whether the record is needed, and for a plan the priority group of each attempt.
func appendFacts(b []byte, r *exchange.Reply, typed bool) []byte {
	if r.Plan == nil && r.Names == nil && !r.Log {
		return b
	}
	b, metadata := begin(b, 8)
	b, namespace, fields := beginObject(b, envoy.Metadata)
	if n := r.Names; n != nil {
		b = appendNames(b, n)
	}
	if r.Log {
		b = appendStringField(b, envoy.MetadataLog, "all")
	}
	if r.Plan != nil {
		b = appendStringField(b, envoy.MetadataKind, r.Plan.Kind)
	}
	b = endObject(b, namespace, fields)
	planned := r.Plan != nil && len(r.Plan.Targets) > 0
	if planned && !typed {
		b = appendPlan(b, r.Plan)
	}
	b = end(b, metadata)
	if planned && typed {
		b = appendTypedPlan(b, r.Plan)
	}
	return b
}

// planType is the type of a typed plan.
const planType = "type.googleapis.com/" +
	"envoy.extensions.router.cluster_specifiers.priority_group.v3.PriorityGroupsOverride"

// appendTypedPlan writes a plan as typed_dynamic_metadata. Of the Struct of appendPlan, Envoy would make and copy
// many small messages.
func appendTypedPlan(b []byte, p *routing.Plan) []byte {
	b, entry := begin(b, 13)
	b = appendString(b, 1, envoy.MetadataPlan)
	b, packed := begin(b, 2) // Any
	b = appendString(b, 1, planType)
	b, override := begin(b, 2)
	for i := range p.Targets {
		var group, cluster, weight open
		b, group = begin(b, 1) // PriorityGroup
		b = appendString(b, 1, strconv.Itoa(i+1))
		b, cluster = begin(b, 2) // ClusterWeight
		b = appendString(b, 1, p.Targets[i].Cluster)
		b, weight = begin(b, 2) // UInt32Value
		b = end(end(end(appendVarint(b, 1, 100), weight), cluster), group)
	}
	return end(end(end(b, override), packed), entry)
}

// appendPlan writes the namespace of a plan.
func appendPlan(b []byte, p *routing.Plan) []byte {
	b, namespace, fields := beginObject(b, envoy.MetadataPlan)
	b, groups, list := beginList(b, "priority_groups")
	for i := range p.Targets {
		b = appendGroup(b, strconv.Itoa(i+1), p.Targets[i].Cluster)
	}
	b = endObject(b, groups, list)
	return endObject(b, namespace, fields)
}

// appendGroup writes an element of a list: a priority group of one cluster.
func appendGroup(b []byte, name, cluster string) []byte {
	b, element := begin(b, 1) // ListValue.values
	b, group := begin(b, 5)   // Value.struct_value
	b = appendStringField(b, "name", name)
	b, clusters, list := beginList(b, "clusters")
	b, only := begin(b, 1)
	b, fields := begin(b, 5)
	b = appendStringField(b, "cluster_name", cluster)
	b = appendNumberField(b, "weight", 100)
	b = end(end(b, fields), only)
	b = endObject(b, clusters, list)
	return end(end(b, group), element)
}

// A Struct is a map of Values by name. The functions below write entries of it.

func appendStringField(b []byte, key, value string) []byte {
	b, entry := begin(b, 1)
	b = appendString(b, 1, key)
	b, v := begin(b, 2)
	return end(end(appendString(b, 3, value), v), entry)
}

func appendNumberField(b []byte, key string, value float64) []byte {
	b, entry := begin(b, 1)
	b = appendString(b, 1, key)
	b, v := begin(b, 2)
	b = protowire.AppendTag(b, 2, protowire.Fixed64Type)
	b = protowire.AppendFixed64(b, math.Float64bits(value))
	return end(end(b, v), entry)
}

// An open message gets its length when it is complete. The value is its position.
type open int

// beginObject begins an entry whose value is a Struct, and beginList one whose value is a list.
func beginObject(b []byte, key string) ([]byte, entryAt, open) { return beginValue(b, key, 5) }
func beginList(b []byte, key string) ([]byte, entryAt, open)   { return beginValue(b, key, 6) }

// entryAt has the positions of an entry and of its Value.
type entryAt [2]open

func beginValue(b []byte, key string, kind protowire.Number) ([]byte, entryAt, open) {
	var at entryAt
	var inner open
	b, at[0] = begin(b, 1)
	b = appendString(b, 1, key)
	b, at[1] = begin(b, 2)
	b, inner = begin(b, kind)
	return b, at, inner
}

func endObject(b []byte, at entryAt, inner open) []byte {
	return end(end(end(b, inner), at[1]), at[0])
}

// lengthBytes is the room for the length of a message of up to 2^28-1 bytes. Protobuf accepts a length with more bytes
// than needed.
const lengthBytes = 4

// begin begins a message that is field n. Bytes appended before end belong to it.
func begin(b []byte, n protowire.Number) ([]byte, open) {
	b = protowire.AppendTag(b, n, protowire.BytesType)
	b = append(b, 0, 0, 0, 0)
	return b, open(len(b))
}

func end(b []byte, at open) []byte {
	length := len(b) - int(at)
	for i := range lengthBytes {
		digit := byte(length>>(7*i)) & 0x7f
		if i < lengthBytes-1 {
			digit |= 0x80
		}
		b[int(at)-lengthBytes+i] = digit
	}
	return b
}

func appendString(b []byte, n protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), s)
}

func appendVarint(b []byte, n protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), v)
}

func appendBool(b []byte, n protowire.Number) []byte { return appendVarint(b, n, 1) }

func appendNames(b []byte, n *exchange.Names) []byte {
	b = appendStringField(b, envoy.MetadataRequest, n.ID)
	if n.Dialect != "" {
		b = appendStringField(b, envoy.MetadataDialect, n.Dialect)
	}
	if n.RequestID != "" {
		b = appendStringField(b, envoy.MetadataRequestID, n.RequestID)
	}
	return b
}
