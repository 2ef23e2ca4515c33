package checks

import (
	"context"
	"net/http"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/internal/request"
)

// HeaderUser says upstream who the user of a request is, as other headers say whose key it has. What a client sends in
// them is removed.
const HeaderUser = "x-modelgate-user"

// Authorize implements ext_authz. It admits a request with a key that may be used for its path and from its address.
// The upstream does not get the key.
func (c *Checks) Authorize(_ context.Context, in *authv3.CheckRequest) (out *authv3.CheckResponse, err error) {
	var refusal *openai.Error
	defer func() { c.counted("authorization", refusal == nil, err) }()
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	r := in.GetAttributes().GetRequest().GetHttp()
	path, _, _ := strings.Cut(r.GetPath(), "?")
	caller := access.Caller{Authorization: c.keyOf(r.GetHeaders()), Path: path,
		Address: in.GetAttributes().GetSource().GetAddress().GetSocketAddress().GetAddress()}
	now := c.options.Env.Now()
	client, refusal := config.Config.Admit(&caller, now)
	if refusal == nil {
		return c.admitted(client.Subject(caller.Address))
	}
	if client == nil && !c.options.Env.Strangers.Allow(caller.Address, now) {
		refusal = access.TooManyRefusals()
	}
	return refused(refusal), nil
}

// keyOf returns the key in the headers of a request as a bearer token.
func (c *Checks) keyOf(h map[string]string) string {
	for _, name := range c.options.KeyHeaders {
		if key := strings.TrimSpace(h[name]); key != "" {
			return "Bearer " + key
		}
	}
	return h["authorization"]
}

func (c *Checks) admitted(s request.Subject) (*authv3.CheckResponse, error) {
	ok := &authv3.OkHttpResponse{HeadersToRemove: append([]string{"authorization"}, c.options.KeyHeaders...)}
	facts := map[string]any{}
	for _, of := range []struct{ header, fact, value string }{
		{envoy.HeaderKey, "key", s.Key}, {envoy.HeaderOrganization, "organization", s.Organization},
		{envoy.HeaderProject, "project", s.Project}, {HeaderUser, "user", s.User},
	} {
		if of.value == "" {
			ok.HeadersToRemove = append(ok.HeadersToRemove, of.header)
			continue
		}
		ok.Headers = append(ok.Headers, header(of.header, of.value))
		facts[of.fact] = of.value
	}
	metadata, err := structpb.NewStruct(facts)
	return &authv3.CheckResponse{Status: &rpcstatus.Status{}, DynamicMetadata: metadata,
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: ok}}, err
}

func header(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD}
}

func refused(e *openai.Error) *authv3.CheckResponse {
	code := codes.PermissionDenied
	if e.Status == http.StatusUnauthorized {
		code = codes.Unauthenticated
	}
	denied := &authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(int32(e.Status))},
		Headers: errorHeaders(e), Body: string(e.AppendJSON(nil))}
	return &authv3.CheckResponse{Status: &rpcstatus.Status{Code: int32(code), Message: e.Message},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: denied}}
}

// errorHeaders returns the headers of the response with an error.
func errorHeaders(e *openai.Error) (all []*corev3.HeaderValueOption) {
	for name, values := range e.Header() {
		for _, v := range values {
			all = append(all, header(strings.ToLower(name), v))
		}
	}
	return all
}
