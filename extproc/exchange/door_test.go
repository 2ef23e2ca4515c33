package exchange_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/limit"
)

// headersOnly begins an exchange whose body has not come yet, and returns the reply to its headers.
func (m *meter) headersOnly(method, path string) (*exchange.Exchange, exchange.Reply) {
	x := exchange.New(m.env, m.config)
	return x, x.RequestHeaders(m.t.Context(), exchange.Headers{
		{Name: ":method", Value: method}, {Name: ":path", Value: path}, {Name: "authorization", Value: "Bearer " + m.secret},
		{Name: "content-type", Value: "application/json"}, {Name: "x-request-id", Value: "req"},
	}, false)
}

func keyWith(domain string, unit configv1.Unit, n uint64) *configv1.Key {
	return &configv1.Key{Name: "key_1", Limits: []*configv1.Limit{{Domain: domain, Unit: unit, RequestsPerUnit: n}}}
}

const chats = "/v1/chat/completions"

func TestAKeyAtItsLimitIsRefusedBeforeItsBody(t *testing.T) {
	finish := func(m *meter) {
		x, reply := m.chat(ask40)
		require.NotNil(t, reply.Plan)
		answer(x, "200", "application/json")
		x.ResponseBody(context.Background(), []byte(whole), true)
		x.Close()
	}
	for name, c := range map[string]struct {
		key    *configv1.Key
		use    func(m *meter)
		header map[string]string
		open   time.Duration
	}{
		"requests": {keyWith("requests", configv1.Unit_MINUTE, 1), finish,
			map[string]string{"Retry-After": "61", "X-Ratelimit-Limit-Requests": "1", "X-Ratelimit-Remaining-Requests": "0"},
			61 * time.Second},
		"tokens": {keyWith("tokens", configv1.Unit_MINUTE, 9), func(m *meter) {
			x, reply := m.ask("/v1/embeddings", `{"model":"a/m-1","input":"hi"}`)
			require.NotNil(t, reply.Plan)
			answer(x, "200", "application/json")
			x.ResponseBody(context.Background(),
				[]byte(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"m-1","usage":{"prompt_tokens":9,"total_tokens":9}}`), true)
			x.Close()
		}, map[string]string{"X-Ratelimit-Limit-Tokens": "9", "X-Ratelimit-Remaining-Tokens": "0"}, 61 * time.Second},
		"a budget": {&configv1.Key{Name: "key_1", Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.0001"}}},
			func(m *meter) {
				require.NoError(t, m.env.Limits.Raise(t.Context(), "budget/key/key_1/day", limit.CalendarDay, m.now, 1e6))
			}, map[string]string{"X-Should-Retry": "false"}, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t, c.key)
			c.use(m)
			small := `{"model":"a/m-1","input":"x"}`
			_, reply := m.ask("/v1/embeddings", small)
			require.Equal(t, 429, reply.Immediate.Status, "the limits are asked once")
			x, reply := m.headersOnly("POST", chats)
			require.NotNil(t, reply.Immediate, "and then the body does not matter")
			require.Equal(t, 429, reply.Immediate.Status, string(reply.Immediate.Body))
			for name, want := range c.header {
				require.Equal(t, want, reply.Immediate.Header.Get(name), name)
			}
			x.Close()
			m.now = m.now.Add(c.open)
			x, reply = m.ask("/v1/embeddings", small)
			require.NotNil(t, reply.Plan, "who waits is let in")
			x.Close()
		})
	}
}

// TestARefusalIsAskedAgain checks that a limit to which something was given back, or that is another now, lets in
// before its time.
func TestARefusalIsAskedAgain(t *testing.T) {
	m := newMeter(t, keyWith("requests", configv1.Unit_DAY, 1))
	running, _ := m.chat(ask40)
	_, reply := m.chat(ask40)
	require.Equal(t, 429, reply.Immediate.Status)
	m.env.Limits = limit.NewMemory(limit.Options{Clock: func() time.Time { return m.now }}) // all of it is given back
	_, reply = m.headersOnly("POST", chats)
	require.NotNil(t, reply.Immediate)
	m.now = m.now.Add(time.Second)
	first, reply := m.headersOnly("POST", chats)
	require.Nil(t, reply.Immediate, "one asks")
	_, reply = m.headersOnly("POST", chats)
	require.NotNil(t, reply.Immediate, "the others wait for what it hears")
	require.NotNil(t, first.RequestBody(t.Context(), []byte(ask40)).Plan)
	first.Close()
	running.Close()

	m = newMeter(t, keyWith("requests", configv1.Unit_DAY, 1))
	m.chat(ask40)
	m.chat(ask40)
	m.key.Limits[0].RequestsPerUnit = 5
	m.configure()
	_, reply = m.chat(ask40)
	require.NotNil(t, reply.Plan, "another limit was not asked yet")
}

// TestNoMoreBodiesThanTheLimitAdmits checks that requests which come at the same moment are not read where they could
// not all be admitted.
func TestNoMoreBodiesThanTheLimitAdmits(t *testing.T) {
	for _, domain := range []string{"requests", "concurrency"} {
		t.Run(domain, func(t *testing.T) {
			m := newMeter(t, keyWith(domain, configv1.Unit_MINUTE, 2))
			var inside []*exchange.Exchange
			for range 2 {
				x, reply := m.headersOnly("POST", chats)
				require.Nil(t, reply.Immediate)
				inside = append(inside, x)
			}
			_, reply := m.headersOnly("POST", chats)
			require.Equal(t, 429, reply.Immediate.Status)
			require.Equal(t, "1", reply.Immediate.Header.Get("Retry-After"))
			for _, x := range inside {
				x.Close() // the client leaves before its body is there
			}
			for range 10 { // nothing has leaked, and nothing was counted
				x, reply := m.headersOnly("POST", chats)
				require.Nil(t, reply.Immediate)
				x.Close()
			}
			require.Empty(t, m.settled)
		})
	}
}

// TestMistakesCount checks that requests which are refused for what their bodies say use up the limit of requests:
// reading them is work.
func TestMistakesCount(t *testing.T) {
	m := newMeter(t, keyWith("requests", configv1.Unit_MINUTE, 3))
	statuses := ""
	for range 6 {
		x, reply := m.chat(`{"model":"nowhere/x","messages":[{"role":"user","content":"hi"}]}`)
		statuses += reply.Immediate.Header.Get("X-Ratelimit-Remaining-Requests") + ":" +
			strings.ToLower(reply.Immediate.Details) + " "
		x.Close()
	}
	require.Equal(t, "2:mg_no_model 1:mg_no_model 0:mg_no_model 0:mg_no_model 0:mg_limited 0:mg_limited ", statuses)
	require.Len(t, m.settled, 3)

	free := newMeter(t, &configv1.Key{Name: "key_1"})
	for range 6 {
		_, reply := free.chat(`{}`)
		require.Equal(t, 400, reply.Immediate.Status)
	}
	require.Empty(t, free.reserved)
}

func TestWritesToTheJobServiceAreRequests(t *testing.T) {
	key := keyWith("requests", configv1.Unit_MINUTE, 2)
	key.Budgets = []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "1"}}
	for _, path := range []string{"/v1/files", "/v1/uploads", "/v1/batches", "/v1/fine_tuning/jobs",
		"/v1/uploads/upload_1/parts"} {
		m := newMeter(t, key)
		for n := range 2 {
			x, reply := m.headersOnly("POST", path)
			require.Nil(t, reply.Immediate, path)
			reply = answer(x, "200", "application/json")
			require.Contains(t, reply.Set, exchange.Header{Name: "x-ratelimit-remaining-requests",
				Value: []string{"1", "0"}[n]})
			x.Close()
		}
		require.Equal(t, []limit.Amounts{{limit.Requests: 1}, {limit.Requests: 1}}, m.settled)
		_, reply := m.headersOnly("DELETE", path+"/x")
		require.NotNil(t, reply.Immediate, path)
		require.Equal(t, 429, reply.Immediate.Status)
		require.Equal(t, "61", reply.Immediate.Header.Get("Retry-After"))
		_, reply = m.headersOnly("GET", path)
		require.NotNil(t, reply.Plan, "who is at the limit may look what became of it")
		_, reply = m.headersOnly("POST", chats)
		require.Equal(t, 429, reply.Immediate.Status, "they are requests like any other")
	}
}

func TestNothingIsMadeUnderABudgetThatIsSpent(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1", Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.001"}}})
	require.NoError(t, m.env.Limits.Raise(context.Background(), "budget/key/key_1/day", limit.CalendarDay, m.now, 1e6))
	for range 2 {
		_, reply := m.headersOnly("POST", "/v1/batches")
		require.NotNil(t, reply.Immediate)
		require.Contains(t, string(reply.Immediate.Body), `"insufficient_quota"`)
		for _, asked := range [][2]string{{"POST", "/v1/batches/batch_1/cancel"}, {"DELETE", "/v1/files/file-1"},
			{"GET", "/v1/batches"}} {
			_, reply = m.headersOnly(asked[0], asked[1])
			require.NotNil(t, reply.Plan, asked)
		}
	}
}

// exhaust has an organization use up its 1000 tokens a minute in two parts, 20 seconds apart, and one of its keys ask
// for more than half.
func exhaust(t *testing.T) (m *meter, huge func() (*exchange.Exchange, exchange.Reply)) {
	m = newMeter(t, keyWith("tokens", configv1.Unit_MINUTE, 1000))
	for _, used := range []string{"600", "400"} {
		x, reply := m.ask("/v1/embeddings", `{"model":"a/m-1","input":"hi"}`)
		require.NotNil(t, reply.Plan)
		answer(x, "200", "application/json")
		x.ResponseBody(context.Background(),
			[]byte(`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]}],"model":"m-1","usage":{"prompt_tokens":`+used+`,"total_tokens":`+used+`}}`), true)
		x.Close()
		m.now = m.now.Add(20 * time.Second)
	}
	huge = func() (*exchange.Exchange, exchange.Reply) { return m.chat(strings.Replace(ask40, ":40", ":900", 1)) }
	_, reply := huge()
	require.NotNil(t, reply.Immediate)
	_, reply = m.headersOnly("POST", chats)
	require.NotNil(t, reply.Immediate, "nothing is left for anybody")
	m.now = m.now.Add(21 * time.Second) // 600 are left
	return m, huge
}

// TestWhoAsksForMuchKeepsNobodyOutWhoAsksForLittle checks that a limit which one key of many uses to ask for what does
// not fit lets others in.
func TestWhoAsksForMuchKeepsNobodyOutWhoAsksForLittle(t *testing.T) {
	m, huge := exhaust(t)
	for range 5 { // the one who may ask is always the same
		x, reply := huge()
		require.NotNil(t, reply.Immediate)
		x.Close()
		small, reply := m.ask("/v1/embeddings", `{"model":"a/m-1","input":"x"}`)
		require.Nil(t, reply.Immediate, "what is asked for fits")
		small.Close()
		m.now = m.now.Add(time.Second)
	}
}

// TestWhoNeverAsksKeepsNobodyOut is likewise, of one whose bodies never come.
func TestWhoNeverAsksKeepsNobodyOut(t *testing.T) {
	m, _ := exhaust(t)
	m.now = m.now.Add(-21 * time.Second)
	admitted := 0
	for range 30 { // the first second asks, and has nobody ask in its place
		m.now = m.now.Add(time.Second)
		slow, _ := m.headersOnly("POST", chats)
		small, reply := m.ask("/v1/embeddings", `{"model":"a/m-1","input":"x"}`)
		if reply.Immediate == nil {
			admitted++
		}
		small.Close()
		slow.Close()
	}
	require.GreaterOrEqual(t, admitted, 5, "of the seconds in which what is asked for fits")
}

// TestAMistakeOpensNoOtherLimit checks that a spent budget is not forgotten because a bad request was counted as one.
func TestAMistakeOpensNoOtherLimit(t *testing.T) {
	key := keyWith("requests", configv1.Unit_MINUTE, 100)
	key.Budgets = []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "0.001"}}
	m := newMeter(t, key)
	require.NoError(t, m.env.Limits.Raise(t.Context(), "budget/key/key_1/day", limit.CalendarDay, m.now, 1e6))
	_, reply := m.chat(ask40)
	require.Equal(t, 429, reply.Immediate.Status)
	m.now = m.now.Add(time.Second)
	_, reply = m.chat(`{}`)
	require.Equal(t, 400, reply.Immediate.Status, "one asks")
	_, reply = m.headersOnly("POST", chats)
	require.NotNil(t, reply.Immediate, "the budget is as spent as it was")
}
