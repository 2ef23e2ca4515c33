package checks_test

import (
	"strconv"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/call"
	"github.com/modelgate/modelgate/extproc/checks"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/limit"
)

// A bench has checks over a directory with the key "key_1" of the project acme/web, and the key "key_off".
type bench struct {
	*checks.Checks
	key, off string
	config   *call.Config
}

func newBench(t *testing.T) *bench {
	t.Helper()
	d := access.Directory{Hasher: auth.NewHasher([]byte("pepper")),
		Organizations: map[string]*configv1.Organization{"acme": {Name: "acme", Limits: []*configv1.Limit{
			{Domain: "tokens", Unit: configv1.Unit_HOUR, RequestsPerUnit: 1000}}}},
		Projects: map[string]*configv1.Project{"acme/web": {Name: "acme/web"}},
	}
	b := &bench{key: auth.Generate().Reveal(), off: auth.Generate().Reveal()}
	keys := map[string]*configv1.Key{
		"key_1": {Name: "key_1", Organization: "acme", Project: "web", Addresses: []string{"10.0.0.0/8"},
			Limits: []*configv1.Limit{{Domain: "requests", Unit: configv1.Unit_MINUTE, RequestsPerUnit: 3}}},
		"key_off": {Name: "key_off", Disabled: true},
	}
	for name, key := range map[string]string{"key_1": b.key, "key_off": b.off} {
		hash := d.Hasher.Hash(key)
		keys[name].Hash = hash[:]
	}
	d.Keyring = d.Keyring.With(keys)
	ids := 0
	b.config = &call.Config{Directory: d}
	env := &call.Env{Limits: limit.NewMemory(limit.Options{}), Names: access.NewNames(time.Now), Now: time.Now,
		NewID: func() string { ids++; return strconv.Itoa(ids) }}
	b.Checks = checks.New(checks.Options{Env: env, Config: func() *call.Config { return b.config },
		KeyHeaders: []string{"x-api-key"}, Registerer: prometheus.NewRegistry()})
	return b
}

func check(address, path string, headers ...string) *authv3.CheckRequest {
	h := map[string]string{}
	for i := 0; i < len(headers); i += 2 {
		h[headers[i]] = headers[i+1]
	}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{
			SocketAddress: &corev3.SocketAddress{Address: address}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{Path: path, Headers: h}},
	}}
}

func TestAuthorize(t *testing.T) {
	b := newBench(t)
	for name, c := range map[string]struct {
		in     *authv3.CheckRequest
		status int32
	}{
		"a key":                   {check("10.0.0.1", "/mcp?x=1", "authorization", "Bearer "+b.key), 0},
		"a key in its own header": {check("10.0.0.1", "/mcp", "x-api-key", b.key), 0},
		"another address":         {check("192.0.2.1", "/mcp", "authorization", "Bearer "+b.key), 401},
		"no key":                  {check("10.0.0.1", "/mcp"), 401},
		"an unknown key":          {check("10.0.0.1", "/mcp", "authorization", "Bearer "+auth.Generate().Reveal()), 401},
		"a disabled key":          {check("10.0.0.1", "/mcp", "authorization", "Bearer "+b.off), 401},
		"nothing":                 {&authv3.CheckRequest{}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := b.Authorize(t.Context(), c.in)
			require.NoError(t, err)
			if c.status != 0 {
				require.NotZero(t, out.GetStatus().GetCode())
				require.Equal(t, c.status, int32(out.GetDeniedResponse().GetStatus().GetCode()))
				require.JSONEq(t, out.GetDeniedResponse().GetBody(), out.GetDeniedResponse().GetBody())
				return
			}
			require.Zero(t, out.GetStatus().GetCode())
			set := map[string]string{}
			for _, h := range out.GetOkResponse().GetHeaders() {
				set[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
			}
			require.Equal(t, map[string]string{envoy.HeaderKey: "key_1", envoy.HeaderOrganization: "acme",
				envoy.HeaderProject: "web"}, set)
			require.ElementsMatch(t, []string{"authorization", "x-api-key", checks.HeaderUser},
				out.GetOkResponse().GetHeadersToRemove(), "the upstream gets no key, and no name that a client has made up")
			require.Equal(t, "key_1", out.GetDynamicMetadata().GetFields()["key"].GetStringValue())
		})
	}
	b.config = nil
	_, err := b.Authorize(t.Context(), &authv3.CheckRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
}

func descriptor(hits int64, entries ...string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	for i := 0; i < len(entries); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: entries[i], Value: entries[i+1]})
	}
	if hits >= 0 {
		d.HitsAddend = wrapperspb.UInt64(uint64(hits))
	}
	return d
}

func TestADescriptorCountsUnderTheGatewaysLimits(t *testing.T) {
	b := newBench(t)
	ask := func(domain string, hits uint32, all ...*commonv3.RateLimitDescriptor) *rlsv3.RateLimitResponse {
		t.Helper()
		out, err := b.ShouldRateLimit(t.Context(), &rlsv3.RateLimitRequest{Domain: domain, HitsAddend: hits,
			Descriptors: all})
		require.NoError(t, err)
		return out
	}
	const within, over = rlsv3.RateLimitResponse_OK, rlsv3.RateLimitResponse_OVER_LIMIT
	out := ask("requests", 0, descriptor(-1, "key", "key_1"))
	require.Equal(t, within, out.GetOverallCode())
	require.EqualValues(t, 2, out.GetStatuses()[0].GetLimitRemaining())
	require.EqualValues(t, 3, out.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit())
	require.Equal(t, rlsv3.RateLimitResponse_RateLimit_MINUTE, out.GetStatuses()[0].GetCurrentLimit().GetUnit())
	require.Equal(t, "key/key_1 limit requests per minute", out.GetStatuses()[0].GetCurrentLimit().GetName())

	out = ask("requests", 1, descriptor(0, "key", "Bearer "+b.key))
	require.EqualValues(t, 2, out.GetStatuses()[0].GetLimitRemaining(), "0 only asks")
	out = ask("requests", 3, descriptor(-1, "key", b.key))
	require.Equal(t, over, out.GetOverallCode())
	require.Contains(t, string(out.GetRawBody()), "rate_limit_exceeded")
	headers := map[string]string{}
	for _, h := range out.GetResponseHeadersToAdd() {
		headers[h.GetKey()] = h.GetValue()
	}
	require.Equal(t, "3", headers["x-ratelimit-limit-requests"])
	require.NotEmpty(t, headers["retry-after"])
	require.Equal(t, "application/json", headers["content-type"])

	out = ask("requests", 1, descriptor(-1, "key", "key_1"), descriptor(2, "key", "key_1"))
	require.Equal(t, over, out.GetOverallCode(), "the second has no room")
	out = ask("requests", 2, descriptor(-1, "key", "key_1"))
	require.Equal(t, within, out.GetOverallCode(), "so the first has not counted")

	require.Equal(t, within, ask("tokens", 900, descriptor(-1, "key", "key_1", "model", "m")).GetOverallCode())
	require.Equal(t, over, ask("tokens", 200, descriptor(-1, "project", "acme/web")).GetOverallCode(), "one organization")
	require.Equal(t, over, ask("tokens", 200, descriptor(-1, "organization", "acme")).GetOverallCode())
	require.Equal(t, within, ask("tokens", 200, descriptor(-1, "organization", "other")).GetOverallCode())
	require.Equal(t, over, ask("requests", 1, descriptor(-1, "key", auth.Generate().Reveal())).GetOverallCode(),
		"a key that nobody has is not free")
	require.Equal(t, within, ask("requests", 1, descriptor(-1, "model", "m")).GetOverallCode(), "no limit is for it")

	for name, in := range map[string]*rlsv3.RateLimitRequest{
		"a domain of another": {Domain: "mine"}, "concurrency": {Domain: "concurrency"}, "none": {},
		"an entry of another": {Domain: "requests", Descriptors: []*commonv3.RateLimitDescriptor{
			descriptor(-1, "path", "/")}},
		"an entry twice": {Domain: "requests", Descriptors: []*commonv3.RateLimitDescriptor{
			descriptor(-1, "key", "key_1", "key", "key_off")}},
		"too many": {Domain: "requests", Descriptors: make([]*commonv3.RateLimitDescriptor, 17)},
	} {
		_, err := b.ShouldRateLimit(t.Context(), in)
		require.Equal(t, codes.InvalidArgument, status.Code(err), name)
	}
}
