package extproctest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/structpb"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/modelgate/modelgate/envoy"
)

// attempts makes the attempts of the plan until an answer needs no retry. It returns that answer, the number of
// attempts, and the cluster of the last.
func (x *exchange) attempts() (*http.Response, int, string, error) {
	if x.metadata(envoy.MetadataKind) == envoy.KindJobs {
		response, err := x.send(envoy.ClusterJobs)
		return response, 1, envoy.ClusterJobs, err
	}
	groups := x.meta[envoy.MetadataPlan].GetFields()["priority_groups"].GetListValue().GetValues()
	if len(groups) == 0 {
		return nil, 0, envoy.ClusterDeadEnd, errors.New("no plan")
	}
	retries, _ := strconv.Atoi(x.header["x-envoy-max-retries"])
	codes := strings.Split(x.header["x-envoy-retriable-status-codes"], ",")
	if x.metadata(envoy.MetadataKind) == envoy.KindPassed {
		retries, codes = 0, nil // that route has no policy
	}
	for n := 1; ; n++ {
		group := groups[min(n, len(groups))-1].GetStructValue().GetFields()
		clusters := group["clusters"].GetListValue().GetValues()
		cluster := clusters[0].GetStructValue().GetFields()["cluster_name"].GetStringValue()
		if n > 1 {
			if err := x.prepare(n, cluster); err != nil {
				return nil, n, cluster, err
			}
		}
		response, err := x.send(cluster)
		retriable := err != nil
		if err == nil {
			retriable = contains(codes, strconv.Itoa(response.StatusCode))
		}
		if !retriable || n > retries {
			return response, n, cluster, err
		}
		if response != nil {
			_ = response.Body.Close()
		}
	}
}

func contains(list []string, s string) bool {
	for _, e := range list {
		if e == s {
			return true
		}
	}
	return false
}

// prepare is the upstream filter of a retry cluster.
func (x *exchange) prepare(n int, cluster string) error {
	for _, name := range []string{"authorization", "x-api-key", "anthropic-version", "anthropic-beta"} {
		delete(x.header, name)
	}
	stream, err := x.envoy.client.Process(metadata.AppendToOutgoingContext(x.ctx, envoy.RoleHeader, envoy.RoleUpstream))
	if err != nil {
		return err
	}
	err = stream.Send(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{
			Headers: headerMap(map[string]string{"content-type": x.header["content-type"]})}},
		Attributes: attributes(map[string]any{envoy.AttributeClusterName: cluster, envoy.AttributeAttempt: n}),
		MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
			envoy.Metadata: x.meta[envoy.Metadata]}},
	})
	if err != nil {
		return err
	}
	reply, err := stream.Recv()
	if err != nil {
		return err
	}
	common := reply.GetRequestHeaders().GetResponse()
	if common.GetStatus() != extprocv3.CommonResponse_CONTINUE_AND_REPLACE {
		return errors.New("the upstream filter let the request of another provider pass")
	}
	mutate(x.header, common.GetHeaderMutation())
	x.body = replaced(x.body, common.GetBodyMutation())
	told := reply.GetDynamicMetadata().GetFields()[envoy.Metadata].GetStructValue().GetFields()
	length := told[envoy.MetadataContentLength].GetStringValue()
	if length != strconv.Itoa(len(x.body)) {
		return errors.New("content length in the metadata is not the body's")
	}
	return stream.CloseSend()
}

// send makes one attempt. Headers for Envoy's router and Envoy's own headers are not sent.
func (x *exchange) send(cluster string) (*http.Response, error) {
	base := x.envoy.upstreams[envoy.ProviderOf(cluster)]
	if cluster == envoy.ClusterJobs {
		base = x.envoy.upstreams[cluster]
	}
	if base == nil {
		return nil, errors.New("no such cluster")
	}
	r, err := http.NewRequestWithContext(x.ctx, x.header[":method"], base.Scheme+"://"+base.Host+x.header[":path"],
		bytes.NewReader(x.body))
	if err != nil {
		return nil, err
	}
	if x.passes != nil {
		r.Body, r.ContentLength, r.GetBody = x.passes.Body, x.passes.ContentLength, nil
	}
	for name, value := range x.header {
		ours := strings.HasPrefix(name, "x-envoy-") || name == "content-length" || name == "x-request-id" &&
			cluster != envoy.ClusterJobs
		if name[0] != ':' && !ours {
			r.Header.Set(name, value)
		}
	}
	return x.envoy.transport.RoundTrip(r)
}

// respond returns an answer through the service.
func (x *exchange) respond(w http.ResponseWriter, response *http.Response, n int, cluster string) error {
	h := map[string]string{":status": strconv.Itoa(response.StatusCode)}
	for name, values := range response.Header {
		h[strings.ToLower(name)] = values[0]
	}
	first := answerHeaders(h, response.ContentLength == 0, n)
	if x.mode.GetResponseBodyMode() == filterv3.ProcessingMode_FULL_DUPLEX_STREAMED {
		return x.respondDuplex(w, h, first, response)
	}
	reply, err := x.ask(w, first)
	if err != nil {
		return err
	}
	mutate(h, reply.GetResponseHeaders().GetResponse().GetHeaderMutation())
	if m := reply.GetModeOverride(); m != nil {
		x.mode = m
	}
	switch x.mode.GetResponseBodyMode() {
	case filterv3.ProcessingMode_BUFFERED:
		return x.respondWhole(w, h, response.Body)
	case filterv3.ProcessingMode_STREAMED:
		return x.respondStreamed(w, h, response.Body)
	}
	writeHead(w, h)
	return x.pass(w, response.Body)
}

// answerHeaders returns the message with the headers of an answer.
func answerHeaders(h map[string]string, end bool, n int) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{
			Headers: headerMap(h), EndOfStream: end}},
		Attributes: attributes(map[string]any{envoy.AttributeAttempt: n,
			envoy.AttributeCodeDetails: envoy.CodeDetailsUpstream}),
	}
}

// pass sends a body to the client without showing it to the service.
func (x *exchange) pass(w http.ResponseWriter, body io.Reader) error {
	piece := make([]byte, 16<<10)
	for {
		n, err := body.Read(piece)
		if _, gone := w.Write(piece[:n]); gone != nil {
			return errClient
		}
		flush(w)
		x.sent += n
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return x.broken()
		}
	}
}

// broken returns the reason why the body of an answer cannot be read: the client has left, or the provider's
// connection broke.
func (x *exchange) broken() error {
	if x.ctx.Err() != nil {
		return errClient
	}
	return errProvider
}

func (x *exchange) respondWhole(w http.ResponseWriter, h map[string]string, body io.Reader) error {
	b, err := io.ReadAll(body)
	if err != nil && x.ctx.Err() != nil {
		return errClient
	}
	if err != nil {
		return errGateway("upstream_reset_after_response_started")
	}
	reply, err := x.ask(w, responseBody(b, true))
	if err != nil {
		return err
	}
	common := reply.GetResponseBody().GetResponse()
	mutate(h, common.GetHeaderMutation())
	b = replaced(b, common.GetBodyMutation())
	if length, ok := h["content-length"]; ok && length != strconv.Itoa(len(b)) {
		return errGateway("mismatch_between_content_length_and_the_length_of_the_mutated_body")
	}
	writeHead(w, h)
	_, err = w.Write(b)
	return err
}

func (x *exchange) respondStreamed(w http.ResponseWriter, h map[string]string, body io.Reader) error {
	delete(h, "content-length")
	writeHead(w, h)
	piece := make([]byte, 16<<10)
	for {
		n, err := body.Read(piece)
		if err != nil && !errors.Is(err, io.EOF) {
			return x.broken() // Envoy resets the client's stream and closes the service's
		}
		end := errors.Is(err, io.EOF)
		reply, err := x.ask(w, responseBody(piece[:n], end))
		if err != nil {
			return err
		}
		if _, err := w.Write(replaced(piece[:n], reply.GetResponseBody().GetResponse().GetBodyMutation())); err != nil {
			return errClient
		}
		flush(w)
		if end {
			return nil
		}
	}
}

func responseBody(b []byte, end bool) *extprocv3.ProcessingRequest {
	return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_ResponseBody{
		ResponseBody: &extprocv3.HttpBody{Body: b, EndOfStream: end}}}
}

func writeHead(w http.ResponseWriter, h map[string]string) {
	for name, value := range h {
		if name[0] != ':' && name != "transfer-encoding" {
			w.Header().Set(name, value)
		}
	}
	status, _ := strconv.Atoi(h[":status"])
	w.WriteHeader(status)
}
