// Package extproctest simulates Envoy's side of the ext_proc protocol, so that the service can be tested as a client
// sees it, in one process and without Envoy. Its behaviour was measured on the real Envoy. The end-to-end tests run
// the same cases there.
//
// It is as strict as Envoy. A body that changed its length without a new content-length, a plan without a header
// mutation, a reply to another message than the one sent: each fails the request.
package extproctest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/modelgate/modelgate/envoy"
)

// An Envoy is an HTTP handler that does what Envoy does with each request: it asks the ext_proc service, sends the
// request to the providers of the plan, and returns the answer through the service.
type Envoy struct {
	client    extprocv3.ExternalProcessorClient
	log       accesslogv3.AccessLogServiceClient
	upstreams map[string]*url.URL
	transport http.RoundTripper
	role      string // of the filter, in gRPC metadata
}

// New returns a handler over a connection to the service. The map upstreams has the base URLs of the providers by
// name, and that of the job service under envoy.ClusterJobs.
func New(conn grpc.ClientConnInterface, upstreams map[string]string) *Envoy {
	e := &Envoy{client: extprocv3.NewExternalProcessorClient(conn), log: accesslogv3.NewAccessLogServiceClient(conn),
		upstreams: map[string]*url.URL{}, transport: &http.Transport{DisableCompression: true}, role: envoy.RoleDownstream}
	for name, base := range upstreams {
		u, err := url.Parse(base)
		if err != nil {
			panic(err)
		}
		e.upstreams[name] = u
	}
	return e
}

// Internal returns Envoy's listener for the job service.
func (e *Envoy) Internal() *Envoy {
	internal := *e
	internal.role = envoy.RoleInternal
	return &internal
}

// errGateway is the response code details of Envoy's own answer.
type errGateway string

func (e errGateway) Error() string { return string(e) }

// An exchange is one request in Envoy.
type exchange struct {
	envoy  *Envoy
	ctx    context.Context
	stream extprocv3.ExternalProcessor_ProcessClient
	header map[string]string
	body   []byte
	passes *http.Request // the request whose body passes unchanged, instead of body; or nil
	meta   map[string]*structpb.Struct
	mode   *filterv3.ProcessingMode
	sent   int  // bytes of a body that passes
	begun  bool // the client has the headers of its answer
}

// ServeHTTP handles one request.
func (e *Envoy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	x := &exchange{envoy: e, ctx: ctx, meta: map[string]*structpb.Struct{}}
	err := x.run(w, r)
	defer x.record(err)
	if details := errGateway(""); errors.As(err, &details) && !x.begun {
		w.Header().Set("content-type", "application/json")
		w.Header().Set("x-test-details", string(details))
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, localBody)
		return
	}
	if err != nil && !errors.Is(err, errAnswered) {
		panic(http.ErrAbortHandler) // the answer has begun: Envoy resets the client's stream
	}
}

// localBody is the body of Envoy's own answers.
const localBody = `{"error":{"message":"local reply","type":"server_error","param":null,"code":"local_reply"}}`

// errAnswered means that the client has its answer.
var errAnswered = errors.New("answered")

// errReset means that the service has ended an answer that was partly sent.
var errReset = errors.New("ended by the service")

func (x *exchange) run(w http.ResponseWriter, r *http.Request) error {
	stream, err := x.envoy.client.Process(metadata.AppendToOutgoingContext(x.ctx, envoy.RoleHeader, x.envoy.role))
	if err != nil {
		return errGateway("ext_proc_error")
	}
	x.stream = stream
	defer func() { _ = stream.CloseSend() }()
	x.header = requestHeaders(r)
	if err := x.request(w, r); err != nil {
		return err
	}
	response, n, cluster, err := x.attempts()
	if err != nil && x.ctx.Err() != nil {
		return errClient
	}
	if err != nil {
		return x.localReply(err, n)
	}
	defer func() { _ = response.Body.Close() }()
	return x.respond(w, response, n, cluster)
}

func requestHeaders(r *http.Request) map[string]string {
	h := map[string]string{":method": r.Method, ":path": normalPath(r.URL), ":authority": r.Host, ":scheme": "https",
		"x-request-id": "test-request"}
	for name, values := range r.Header {
		h[strings.ToLower(name)] = values[0]
	}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		h["x-envoy-external-address"] = host // a client cannot set it
	}
	if r.ContentLength > 0 {
		h["content-length"] = strconv.FormatInt(r.ContentLength, 10)
	}
	return h
}

// normalPath returns the path and query of a URL in Envoy's form: dot segments and doubled slashes are resolved, and
// escapes stay.
func normalPath(u *url.URL) string {
	clean := path.Clean(u.EscapedPath())
	if strings.HasSuffix(u.EscapedPath(), "/") && clean != "/" {
		clean += "/"
	}
	if u.RawQuery != "" {
		clean += "?" + u.RawQuery
	}
	return clean
}

// request sends the request's headers and body to the service and applies its replies.
func (x *exchange) request(w http.ResponseWriter, r *http.Request) error {
	reply, err := x.ask(w, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extprocv3.HttpHeaders{Headers: headerMap(x.header), EndOfStream: r.ContentLength == 0}}})
	if err != nil {
		return err
	}
	common := reply.GetRequestHeaders().GetResponse()
	if common == nil {
		return errGateway("ext_proc_error_spurious")
	}
	mutate(x.header, common.GetHeaderMutation())
	if reply.GetModeOverride() != nil {
		x.mode = reply.GetModeOverride()
	}
	if r.ContentLength == 0 || x.mode != nil && x.mode.GetRequestBodyMode() == filterv3.ProcessingMode_NONE {
		x.passes = r
		_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/2 always is
		return x.route(common)
	}
	if x.body, err = io.ReadAll(r.Body); err != nil {
		return errClient
	}
	reply, err = x.ask(w, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
		RequestBody: &extprocv3.HttpBody{Body: x.body, EndOfStream: true}}})
	if err != nil {
		return err
	}
	common = reply.GetRequestBody().GetResponse()
	if common == nil {
		return errGateway("ext_proc_error_spurious")
	}
	mutate(x.header, common.GetHeaderMutation())
	x.body = replaced(x.body, common.GetBodyMutation())
	if x.header["content-length"] != strconv.Itoa(len(x.body)) {
		return errGateway("mismatch_between_content_length_and_the_length_of_the_mutated_body")
	}
	return x.route(common)
}

// route selects the route after the last reply to the request. Without a plan it is the route to no endpoint.
func (x *exchange) route(reply *extprocv3.CommonResponse) error {
	if !reply.GetClearRouteCache() || reply.GetHeaderMutation() == nil {
		return errGateway("no_healthy_upstream")
	}
	switch x.metadata(envoy.MetadataKind) {
	case envoy.KindLLM, envoy.KindPassed:
		return nil
	case envoy.KindJobs:
		if x.envoy.role == envoy.RoleDownstream {
			return nil
		}
	}
	return errGateway("no_healthy_upstream")
}

// metadata returns the metadata that the service has set for the request.
func (x *exchange) metadata(key string) string {
	return x.meta[envoy.Metadata].GetFields()[key].GetStringValue()
}

// ask sends a message and waits for the reply. An immediate response goes to the client.
func (x *exchange) ask(w http.ResponseWriter, in *extprocv3.ProcessingRequest) (*extprocv3.ProcessingResponse, error) {
	_ = x.stream.Send(in) // if it fails, receiving returns the reason
	return x.receive(w)
}

// receive waits for the next reply.
func (x *exchange) receive(w http.ResponseWriter) (*extprocv3.ProcessingResponse, error) {
	reply, err := x.stream.Recv()
	switch {
	case err != nil && x.ctx.Err() != nil:
		return nil, errClient
	case err != nil:
		return nil, errGateway("ext_proc_error")
	case reply.GetOverrideMessageTimeout() != nil: // how long to wait, once for each message
		return x.receive(w)
	}
	for name, s := range reply.GetDynamicMetadata().GetFields() {
		if x.meta[name] == nil {
			x.meta[name] = &structpb.Struct{Fields: map[string]*structpb.Value{}}
		}
		for key, v := range s.GetStructValue().GetFields() {
			x.meta[name].Fields[key] = v
		}
	}
	i := reply.GetImmediateResponse()
	switch {
	case i == nil:
		return reply, nil
	case x.begun:
		return nil, errReset
	}
	for _, h := range i.GetHeaders().GetSetHeaders() {
		w.Header().Set(h.GetHeader().GetKey(), string(h.GetHeader().GetRawValue()))
	}
	w.Header().Set("x-test-details", i.GetDetails())
	w.WriteHeader(int(i.GetStatus().GetCode()))
	_, _ = w.Write(i.GetBody())
	return nil, errAnswered
}

// localReply sends the headers of Envoy's own answer to the service before the client gets them, as Envoy does.
func (x *exchange) localReply(err error, n int) error {
	_ = x.stream.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
			Headers: headerMap(map[string]string{":status": "503"})}},
		Attributes: attributes(map[string]any{envoy.AttributeAttempt: n,
			envoy.AttributeCodeDetails: "upstream_reset_before_response_started"}),
	})
	if x.mode.GetResponseBodyMode() == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		_ = x.stream.Send(responseBody([]byte(localBody), true))
	}
	if reply, err := x.stream.Recv(); err != nil || reply.GetResponseHeaders() == nil {
		return errGateway("ext_proc_error")
	}
	if x.mode.GetResponseBodyMode() == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		reply, err := x.stream.Recv()
		if piece := streamedPiece(reply); err != nil || string(piece.GetBody()) != localBody || !piece.GetEndOfStream() {
			return errGateway("ext_proc_error")
		}
	}
	return errGateway(fmt.Sprintf("upstream_reset_before_response_started: %v", err))
}

func attributes(values map[string]any) map[string]*structpb.Struct {
	s, err := structpb.NewStruct(values)
	if err != nil {
		panic(err)
	}
	return map[string]*structpb.Struct{"envoy.filters.http.ext_proc": s}
}

func headerMap(h map[string]string) *corev3.HeaderMap {
	m := &corev3.HeaderMap{}
	for name, value := range h {
		m.Headers = append(m.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	slices.SortFunc(m.Headers, func(a, b *corev3.HeaderValue) int { return strings.Compare(a.GetKey(), b.GetKey()) })
	return m
}

func mutate(h map[string]string, m *extprocv3.HeaderMutation) {
	for _, name := range m.GetRemoveHeaders() {
		delete(h, name)
	}
	for _, s := range m.GetSetHeaders() {
		h[s.GetHeader().GetKey()] = string(s.GetHeader().GetRawValue())
	}
}

func replaced(body []byte, m *extprocv3.BodyMutation) []byte {
	switch {
	case m == nil:
		return body
	case m.GetClearBody():
		return nil
	}
	return m.GetBody()
}
