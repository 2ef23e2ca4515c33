package exchange_test

import (
	"context"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/provider/vendors/anthropic"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
	"github.com/modelgate/modelgate/internal/websocket"
)

// A call is a session of the Realtime API whose provider and clock are the test's.
type call struct {
	*exchange.Exchange
	env    *exchange.Env
	config *exchange.Config // the current one
	limits limit.Limiter
	key    string
	parts  []metering.Record
	ended  []*ledgerv1.Record // in the spool
	begun  []*ledgerv1.Record
	now    time.Time
}

// Begin and End are the spool's.
func (c *call) Begin(r *ledgerv1.Record)                   { c.begun = append(c.begun, r) }
func (c *call) End(r *ledgerv1.Record)                     { c.ended = append(c.ended, r) }
func (c *call) Run(context.Context, ledgerv1.LedgerClient) {}
func (c *call) Close() error                               { return nil }

func newCall(t testing.TB, key *configv1.Key) *call {
	providers := map[string]*routing.Provider{}
	a, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "a", Vendor: "openai"},
		Credential: credential}, openai.Provider())
	require.NoError(t, err)
	b, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "b", Vendor: "anthropic"},
		Credential: credential}, anthropic.Provider())
	require.NoError(t, err)
	providers["a"], providers["b"] = a, b
	c := &call{key: auth.Generate().Reveal(), limits: limit.NewMemory(limit.Options{}), now: time.Now()}
	prices := catalog.New(&configv1.Catalog{Name: "default", Models: []*configv1.ModelFacts{{Vendors: []string{"openai"},
		Models: []string{"talk"}, Price: &configv1.Price{Input: "4", CachedInput: "0.4", Output: "16", InputAudio: "32",
			OutputAudio: "64"}}}})
	c.config = &exchange.Config{Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table: routing.Table{Providers: providers, Catalog: prices}}
	hash := c.config.Hasher.Hash(c.key)
	key.Name, key.Hash = "k", hash[:]
	c.config.Keyring = c.config.Keyring.With(map[string]*configv1.Key{"k": key})
	c.env = &exchange.Env{Now: func() time.Time { return c.now }, NewID: func() string { return "id" }, Limits: c.limits,
		Spool: c, Current: func() *exchange.Config { return c.config },
		Parts: func(r metering.Record) { c.parts = append(c.parts, r) }}
	c.Exchange = exchange.New(c.env, c.config)
	return c
}

func (c *call) handshake(query string, more ...exchange.Header) exchange.Reply {
	return c.RequestHeaders(context.Background(), append(exchange.Headers{
		{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/v1/realtime" + query}, {Name: "x-request-id", Value: "r"},
		{Name: "connection", Value: "Upgrade"}, {Name: "upgrade", Value: "WebSocket"},
		{Name: "origin", Value: "https://a.test"},
		{Name: "sec-websocket-key", Value: "abc"}, {Name: "sec-websocket-extensions", Value: "permessage-deflate"},
	}, more...), false)
}

// open opens the session.
func (c *call) open(t testing.TB) *call {
	reply := c.handshake("?model=a/talk", exchange.Header{Name: "authorization", Value: "Bearer " + c.key})
	require.Nil(t, reply.Immediate, "%+v", reply.Immediate)
	reply = c.upgraded()
	require.Equal(t, time.Second, reply.Patience)
	return c
}

func (c *call) upgraded(more ...exchange.Header) exchange.Reply {
	return c.ResponseHeaders(append(exchange.Headers{
		{Name: ":status", Value: "101"}, {Name: "upgrade", Value: "websocket"},
		{Name: "connection", Value: "Upgrade"}, {Name: "sec-websocket-accept", Value: "xyz"},
		{Name: "set-cookie", Value: "a=b"}, {Name: "openai-organization", Value: "ours"}}, more...),
		exchange.Facts{Cluster: "a/session", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}, false)
}

func (c *call) piece(b []byte) exchange.Reply { return c.ResponseBody(context.Background(), b, false) }

func (c *call) revoke() {
	next := *c.config
	next.Keyring = next.Keyring.With(map[string]*configv1.Key{"k": nil})
	c.config = &next
}

// used returns what the counters of a rule hold.
func (c *call) used(t testing.TB, r limit.Rule) int64 {
	states, err := c.limits.Peek(t.Context(), []limit.Rule{r})
	require.NoError(t, err)
	return r.Limit - states[0].Remaining
}

// event frames an event.
func event(text string) []byte {
	return append(binary.BigEndian.AppendUint16([]byte{0x80 | byte(websocket.Text), 126}, uint16(len(text))), text...)
}

var (
	spoken = event(`{"type":"response.done","response":{"status":"completed","usage":{"total_tokens":275,"input_tokens":127,"output_tokens":148,"input_token_details":{"cached_tokens":64,"audio_tokens":8,"cached_tokens_details":{"audio_tokens":3}},"output_token_details":{"audio_tokens":112}}}}`)
	begins = event(`{"type":"response.created","response":{"id":"r"}}`)
)

func closing(reason string) []byte {
	return websocket.AppendClose(nil, websocket.StatusPolicyViolation, reason)
}

func TestAHandshakeTellsTheProviderNothingOfTheClient(t *testing.T) {
	c := newCall(t, &configv1.Key{})
	reply := c.handshake("?model=a/talk", exchange.Header{Name: "sec-websocket-protocol",
		Value: "realtime, openai-insecure-api-key." + c.key}, exchange.Header{Name: "sec-websocket-protocol",
		Value: "openai-beta.realtime-v1,openai-organization.theirs"}, exchange.Header{Name: "openai-beta", Value: "realtime=v1"})
	require.Nil(t, reply.Immediate)
	require.ElementsMatch(t, []string{"origin", "sec-websocket-extensions"}, reply.Remove)
	require.Equal(t, exchange.Headers{{Name: "sec-websocket-protocol", Value: "realtime, openai-beta.realtime-v1"}},
		reply.Set)
	require.True(t, reply.PassRequest)
	require.Equal(t, exchange.Duplex, reply.ResponseBody)
	require.Equal(t, "a/session", reply.Plan.Targets[0].Cluster)
	a, err := reply.Plan.Encode(1)
	require.NoError(t, err)
	require.Nil(t, a.Body)
	require.Equal(t, "/v1/realtime?model=talk", a.Header.Get(":path"))
	require.Equal(t, "Bearer "+credential, a.Header.Get("authorization"))

	for chosen, want := range map[string]string{"realtime": "realtime", "": "realtime", "another": "realtime",
		"openai-beta.realtime-v1": "openai-beta.realtime-v1"} {
		c := newCall(t, &configv1.Key{})
		c.handshake("?model=a/talk", exchange.Header{Name: "sec-websocket-protocol",
			Value: "realtime, openai-beta.realtime-v1, openai-insecure-api-key." + c.key})
		reply := c.upgraded(exchange.Header{Name: "sec-websocket-protocol", Value: chosen})
		require.Equal(t, want, reply.Set.Get("sec-websocket-protocol"), chosen)
		require.ElementsMatch(t, []string{"set-cookie", "openai-organization"}, reply.Remove)
		require.Equal(t, "r", reply.Set.Get("x-request-id"))
	}
}

func TestHandshakesAreRefusedBeforeAProviderSeesThem(t *testing.T) {
	for name, r := range map[string]struct {
		query  string
		key    *configv1.Key
		status int
		code   string
	}{
		"no model":               {"", &configv1.Key{}, 400, "missing_required_parameter"},
		"a call":                 {"?model=a/talk&call_id=x", &configv1.Key{}, 400, "unsupported_parameter"},
		"a malformed query":      {"?model=%zz", &configv1.Key{}, 400, "unsupported_value"},
		"a vendor that has none": {"?model=b/claude", &configv1.Key{}, 400, "unsupported_endpoint"},
		"a model of others":      {"?model=a/talk", &configv1.Key{Models: []string{"a/else"}}, 404, "model_not_found"},
		"an endpoint that is not the key's": {"?model=a/talk", &configv1.Key{Endpoints: []string{"chat/completions"}}, 403,
			"insufficient_permissions"},
		"a budget of nothing": {"?model=a/talk", &configv1.Key{Budgets: []*configv1.Budget{{Usd: "0",
			Unit: configv1.Unit_DAY}}}, 429, "insufficient_quota"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCall(t, r.key)
			reply := c.handshake(r.query, exchange.Header{Name: "authorization", Value: "Bearer " + c.key})
			require.NotNil(t, reply.Immediate)
			require.Equal(t, r.status, reply.Immediate.Status, "%s", reply.Immediate.Body)
			require.Contains(t, string(reply.Immediate.Body), `"code":"`+r.code+`"`)
			require.NotNil(t, c.Drain(reply.Immediate, exchange.Headers{{Name: "upgrade", Value: "websocket"}}).Immediate,
				"the answer does not wait for a body")
			require.Empty(t, c.begun)
		})
	}
}

func TestEachResponseIsChargedOnceWhileTheSessionGoesOn(t *testing.T) {
	c := newCall(t, &configv1.Key{Limits: []*configv1.Limit{
		{Domain: "tokens", Unit: configv1.Unit_HOUR, RequestsPerUnit: 1e6},
		{Domain: "requests", Unit: configv1.Unit_HOUR, RequestsPerUnit: 100}, {Domain: "concurrency", RequestsPerUnit: 9}},
		Budgets: []*configv1.Budget{{Usd: "1", Unit: configv1.Unit_MONTH}}}).open(t)
	tokens := limit.Rule{Counter: "key/k/tokens/hour", Measure: limit.Tokens, Window: limit.Hour, Limit: 1e6}
	requests := limit.Rule{Counter: "key/k/requests/hour", Measure: limit.Requests, Window: limit.Hour, Limit: 100}
	running := limit.Rule{Counter: "key/k/concurrency/now", Measure: limit.Concurrency, Limit: 9}
	money := limit.Rule{Counter: "budget/key/k/month", Measure: limit.Cost, Window: limit.CalendarMonth, Limit: 1e9}
	const cost = 64*400 + 5*32_000 + 58*4_000 + 36*16_000 + 112*64_000 // nano-dollars
	for n := 1; n <= 3; n++ {
		c.now = c.now.Add(time.Second)
		for _, b := range spoken { // however it is cut
			require.Equal(t, []byte{b}, c.piece([]byte{b}).Body)
		}
		require.Len(t, c.parts, n)
		require.EqualValues(t, cost, c.parts[n-1].Cost)
		require.Equal(t, "id."+strconv.Itoa(n), c.ended[n-1].GetId())
		require.EqualValues(t, cost, c.ended[n-1].GetCostNanoUsd())
		require.InDelta(t, 275*(n+1)+256, c.used(t, tokens), 2, "with the next response")
		require.InDelta(t, cost*n+275*4_000+256*64_000, c.used(t, money), 100_000)
		require.EqualValues(t, 1, c.used(t, requests))
		require.EqualValues(t, 1, c.used(t, running))
	}
	require.Zero(t, c.begun[0].GetCostNanoUsd(), "a process that dies charges nothing twice")
	c.now = c.now.Add(time.Minute)
	require.NotEmpty(t, c.piece(websocket.AppendClose(nil, websocket.StatusNormal, "")).Body)
	record := c.Exchange.Close()
	require.Equal(t, metering.OutcomeFinished, record.Outcome)
	require.Equal(t, http.StatusSwitchingProtocols, record.Status)
	require.Equal(t, time.Minute+3*time.Second, record.End.Sub(record.Start))
	require.Len(t, c.ended, 4)
	require.Zero(t, c.ended[3].GetCostNanoUsd())
	require.EqualValues(t, 3*275, c.used(t, tokens))
	require.EqualValues(t, 3*cost, c.used(t, money))
	require.Zero(t, c.used(t, running))
}

func TestAResponseThatIsCutIsEstimated(t *testing.T) {
	c := newCall(t, &configv1.Key{Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_HOUR,
		RequestsPerUnit: 1e6}}}).open(t)
	c.piece(spoken)
	c.piece(begins)
	c.piece(event(`{"type":"response.output_text.delta","delta":"` + strings.Repeat("word ", 200) + `"}`))
	record := c.Exchange.Close()
	require.Equal(t, metering.OutcomeCut, record.Outcome)
	require.Len(t, c.parts, 1)
	require.True(t, record.AwaitsEnvoy(), "how much the client has sent is known later")
	rest := *record.Rest.Sent(0)
	require.Equal(t, c.begun[1].GetId(), rest.ID)
	require.EqualValues(t, 275*4000, c.begun[1].GetCostNanoUsd(), "a process that dies has charged the prompt")
	require.True(t, rest.Estimated)
	require.EqualValues(t, 275, rest.Usage.PromptTokens)
	require.Greater(t, rest.Usage.CompletionTokens, int64(100))
	require.EqualValues(t, 275+275+rest.Usage.CompletionTokens, c.used(t, limit.Rule{Counter: "key/k/tokens/hour",
		Measure: limit.Tokens, Window: limit.Hour, Limit: 1e6}))
}

func TestASessionIsClosedBetweenTwoFrames(t *testing.T) {
	c := newCall(t, &configv1.Key{}).open(t)
	reply, ended := c.Release()
	require.False(t, ended)
	require.Equal(t, time.Second, reply.Patience, "it looks again")
	c.piece(begins[:10])
	c.revoke()
	reply, ended = c.Release()
	require.False(t, ended, "a close frame within another frame would be no frame")
	require.Equal(t, time.Second, reply.Patience)
	reply = c.piece(append(append([]byte{}, begins[10:]...), spoken[:5]...))
	require.True(t, reply.End)
	require.Equal(t, append(append([]byte{}, begins[10:]...), closing("invalid_api_key")...), reply.Body)
	require.True(t, c.piece(spoken[5:]).Wait, "the client gets nothing more")
	_, ended = c.Release()
	require.False(t, ended, "it ends once")
	record := c.Exchange.Close()
	require.Equal(t, metering.OutcomeRejected, record.Outcome)
	require.Equal(t, "invalid_api_key", string(record.Error.Code))
	require.Equal(t, "key/k", record.RefusedBy)

	silent := newCall(t, &configv1.Key{}).open(t)
	silent.revoke()
	reply, ended = silent.Release()
	require.True(t, ended)
	require.True(t, reply.End)
	require.Equal(t, closing("invalid_api_key"), reply.Body)

	stuck := newCall(t, &configv1.Key{}).open(t)
	stuck.piece(begins[:10])
	stuck.revoke()
	_, ended = stuck.Release()
	require.False(t, ended)
	reply, ended = stuck.Release()
	require.True(t, ended, "a frame that does not end must not outlive the key")
	require.True(t, reply.End)
	require.Empty(t, reply.Body)
}

// The provider says what a client has set: the client's frames are not read.
func TestASessionRefersToNothingThatAProviderKeepsForOthers(t *testing.T) {
	const prompt = `{"type":"session.updated","session":{"model":"talk","prompt":`
	const item = `{"type":"conversation.item.added","item":{"role":"user","content":[{"type":"input_image",`
	for name, tc := range map[string]struct{ event, key, want string }{
		"no prompt":       {prompt + `null}}`, "acme", ""},
		"a stored prompt": {prompt + `{"id":"pmpt_1"}}}`, "acme", "session.prompt"},
		"a long one": {prompt + `{"id":"pmpt_1","variables":{"x":"` + strings.Repeat("x", 5000) + `"}}}}`, "acme",
			"session.prompt"},
		"of no organization":   {prompt + `{"id":"pmpt_1"}}}`, "", ""},
		"content":              {item + `"image_url":"data:image/png;base64,AAAA"}]}}`, "acme", ""},
		"long content":         {item + `"image_url":"data:image/png;base64,` + strings.Repeat("A", 5000) + `"}]}}`, "acme", ""},
		"a file":               {item + `"file_id":"file-1"}]}}`, "acme", "item.file_id"},
		"an address":           {item + `"image_url":"gs:\/\/b/a"}]}}`, "acme", "item.image_url"},
		"what the model wrote": {strings.Replace(item, "user", "assistant", 1) + `"file_id":"file-1"}]}}`, "acme", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCall(t, &configv1.Key{Organization: tc.key}).open(t)
			reply := c.piece(event(tc.event))
			require.Equal(t, tc.want != "", reply.End)
			record := c.Exchange.Close()
			if tc.want == "" {
				require.Nil(t, record.Error)
				return
			}
			require.Equal(t, append(event(tc.event), closing("reference_not_allowed")...), reply.Body)
			require.Equal(t, "reference_not_allowed", string(record.Error.Code))
			require.Equal(t, tc.want, record.Error.Param)
		})
	}
}

func TestASessionEndsWhenItsKeyExpires(t *testing.T) {
	now := time.Now()
	c := newCall(t, &configv1.Key{ExpiresAt: timestamppb.New(now.Add(time.Hour))}).open(t)
	c.now = now.Add(59 * time.Minute)
	_, ended := c.Release()
	require.False(t, ended)
	c.now = now.Add(61 * time.Minute)
	_, ended = c.Release()
	require.True(t, ended)
}

func TestASessionEndsWithALimitThatOthersExceed(t *testing.T) {
	c := newCall(t, &configv1.Key{Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_HOUR,
		RequestsPerUnit: 1000}}}).open(t)
	rule := limit.Rule{Counter: "key/k/tokens/hour", Measure: limit.Tokens, Window: limit.Hour, Limit: 1000}
	d, err := c.limits.Reserve(t.Context(), limit.Demand{ID: "other", Rules: []limit.Rule{rule}})
	require.NoError(t, err)
	d.Reservation.Settle(limit.Amounts{limit.Tokens: 5000})
	rates := event(`{"type":"rate_limits.updated","rate_limits":[]}`)
	reply := c.piece(append(append([]byte{}, spoken...), rates...))
	require.True(t, reply.End)
	require.Equal(t, closing("rate_limit_exceeded"), reply.Body[len(spoken)+len(rates):])
	record := c.Exchange.Close()
	require.EqualValues(t, 275, c.parts[0].Settled[limit.Tokens], "what was used is counted nevertheless")
	require.Contains(t, record.RefusedBy, "limit tokens per hour")
}

func TestBytesThatAreNoFramesEndASession(t *testing.T) {
	c := newCall(t, &configv1.Key{}).open(t)
	reply := c.piece([]byte{0xc1, 1, 'x'})
	require.True(t, reply.End)
	require.Empty(t, reply.Body)
	record := c.Exchange.Close()
	require.Equal(t, metering.OutcomeFailed, record.Outcome)
	require.Equal(t, "upstream_invalid_response", string(record.Error.Code))
}

func TestAProviderSaysWhyItClosesASession(t *testing.T) {
	c := newCall(t, &configv1.Key{}).open(t)
	c.piece(event(`{"type":"error","error":{"type":"invalid_request_error","code":"session_expired","message":"The session of ` +
		credential + ` is over."}}`))
	c.piece(websocket.AppendClose(nil, 4000, ""))
	record := c.Exchange.Close()
	require.Equal(t, metering.OutcomeFailed, record.Outcome)
	require.Equal(t, "session_expired", string(record.Error.Code))
	require.NotContains(t, record.Error.Message, credential)
}

// TestWhatIsUnderWayInASessionCounts: a session holds a usual response, and each one takes more as it grows, or what
// is left of a limit. Others end at their next response.
func TestWhatIsUnderWayInASessionCounts(t *testing.T) {
	rule := limit.Rule{Counter: "key/k/tokens/hour", Measure: limit.Tokens, Window: limit.Hour, Limit: 500}
	long := event(`{"type":"response.output_text.delta","delta":"` + strings.Repeat("word ", 300) + `"}`)
	for name, c := range map[string]struct {
		others int64 // used by others
		ends   bool
		held   int64
	}{"it fits": {0, false, 498}, "some is left": {200, false, 298}, "nothing is left": {500, true, 0}} {
		t.Run(name, func(t *testing.T) {
			s := newCall(t, &configv1.Key{Limits: []*configv1.Limit{{Domain: "tokens", Unit: configv1.Unit_HOUR,
				RequestsPerUnit: 500}}}).open(t)
			require.EqualValues(t, 2+257, s.used(t, rule), "the handshake, and a usual response")
			d, err := s.limits.Reserve(t.Context(), limit.Demand{ID: "other", Rules: []limit.Rule{rule}})
			require.NoError(t, err)
			d.Reservation.Settle(limit.Amounts{limit.Tokens: c.others})
			require.False(t, s.piece(begins).End, "it is reserved")
			reply := s.piece(long)
			require.Equal(t, c.ends, reply.End)
			if c.ends {
				require.Equal(t, closing("rate_limit_exceeded"), reply.Body[len(long):])
				return
			}
			require.Equal(t, c.held, s.used(t, rule)-2-c.others)
			s.piece(spoken)
			record := s.Exchange.Close()
			require.Nil(t, record.Rest)
			require.Equal(t, c.others+275, s.used(t, rule))
		})
	}
}
