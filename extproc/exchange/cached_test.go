package exchange_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/respcache"
)

// caching returns a gateway with response caches.
func caching(t *testing.T, caches ...*configv1.ResponseCache) *meter {
	t.Helper()
	m := newMeter(t, &configv1.Key{Name: "key_1", Organization: "acme"})
	m.cache(caches...)
	return m
}

func (m *meter) cache(caches ...*configv1.ResponseCache) { m.cacheIn(nil, caches...) }

func (m *meter) cacheIn(remote *respcache.Redis, caches ...*configv1.ResponseCache) {
	m.t.Helper()
	all, err := respcache.Compile(caches, []byte("pepper"), nil, remote, m.config.Caches, zap.NewNop())
	require.NoError(m.t, err)
	next := *m.config
	next.Caches = all
	m.config = &next
}

// tooLong is an answer that is not kept.
var tooLong = strings.Replace(whole, "hello", strings.Repeat("x", respcache.MaxAnswer), 1)

func everyones() *configv1.ResponseCache {
	return &configv1.ResponseCache{Name: "all", MaxTemperature: 1}
}

// complete has the provider answer, and returns what the client got.
func (m *meter) complete(x *exchange.Exchange, media, body string) (string, metering.Record) {
	answer(x, "200", media)
	out := x.ResponseBody(m.t.Context(), []byte(body), true)
	if out.Piece || out.ReplaceBody {
		body = string(out.Body)
	}
	return body, x.Close()
}

// kept asks, and returns the answer that was kept; nil: the provider is asked.
func (m *meter) kept(path, body string, more ...exchange.Header) (*exchange.Immediate, metering.Record) {
	x, reply := m.ask(path, body, more...)
	return reply.Immediate, x.Close()
}

func control(value string) exchange.Header {
	return exchange.Header{Name: "cache-control", Value: value}
}

func TestAnEqualRequestGetsTheKeptAnswer(t *testing.T) {
	stream := chunkOf("hello") + ended + usage11 + over
	for name, c := range map[string]struct{ path, ask, media, answer, contentType string }{
		"complete": {"/v1/chat/completions", ask40, "application/json", whole, "application/json"},
		"streamed": {"/v1/chat/completions", stream40, "text/event-stream", stream, "text/event-stream; charset=utf-8"},
		"Claude's": {"/v1/messages", `{"model":"a/m-1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
			"application/json", whole, "application/json"},
		"Claude's, streamed": {"/v1/messages",
			`{"model":"a/m-1","stream":true,"max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
			"text/event-stream", stream, "text/event-stream; charset=utf-8"},
		"passed": {"/v1/embeddings", `{"model":"a/m-1","input":"hi"}`, "application/json",
			`{"object":"list","model":"m-1","data":[{"object":"embedding","index":0,"embedding":[0.5]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`, "application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			m := caching(t, everyones())
			x, reply := m.ask(c.path, c.ask)
			require.Nil(t, reply.Immediate)
			first, r := m.complete(x, c.media, c.answer)
			require.Equal(t, &metering.Cache{Name: "all", Result: "miss"}, r.Cache)
			cost := r.Cost

			m.now = m.now.Add(90 * time.Second)
			got, r := m.kept(c.path, c.ask)
			require.NotNil(t, got)
			require.Equal(t, first, string(got.Body))
			require.Equal(t, 200, got.Status)
			require.Equal(t, c.contentType, got.Header.Get("Content-Type"))
			require.Equal(t, "hit 90 a req", fmt.Sprint(got.Header.Get("x-modelgate-cache"), " ", got.Header.Get("Age"), " ",
				got.Header.Get("x-modelgate-provider"), " ", got.Header.Get("X-Request-Id")))
			require.Equal(t, metering.OutcomeFinished, r.Outcome)
			require.Equal(t, &metering.Cache{Name: "all", Result: "hit", Age: 90 * time.Second, Saved: cost}, r.Cache)
			require.Zero(t, r.Cost)
			require.Zero(t, r.Usage)
			require.Len(t, m.ended, 2, "it is in the ledger")
			require.Len(t, m.begun, 1)
			require.EqualValues(t, 0, m.ended[1].GetCostNanoUsd())
			require.Contains(t, m.ended[1].GetDetails().GetCache(), "hit all (90 s old, ")

			m.now = m.now.Add(time.Hour)
			got, _ = m.kept(c.path, c.ask)
			require.Nil(t, got, "it has expired")
		})
	}
}

func TestRequestsThatShareNoAnswer(t *testing.T) {
	m := caching(t, everyones())
	x, _ := m.chat(ask40)
	m.complete(x, "application/json", whole)
	for name, c := range map[string]struct{ path, body string }{
		"another text":         {chats, strings.Replace(ask40, "hi", "ho", 1)},
		"another bound":        {chats, strings.Replace(ask40, "40", "41", 1)},
		"a stream":             {chats, stream40},
		"another user":         {chats, strings.Replace(ask40, "{", `{"user":"bob",`, 1)},
		"another model":        {chats, strings.Replace(ask40, "a/m-1", "b/m-1", 1)},
		"another operation":    {"/v1/completions", ask40},
		"white space in texts": {chats, strings.Replace(ask40, "hi", "hi ", 1)},
		"members inside in another order": {chats,
			strings.Replace(ask40, `{"role":"user","content":"hi"}`, `{"content":"hi","role":"user"}`, 1)},
		"tools":             {chats, strings.Replace(ask40, "{", `{"tools":[{"type":"function","function":{"name":"f"}}],`, 1)},
		"a higher sampling": {chats, strings.Replace(ask40, "{", `{"temperature":1.5,`, 1)},
		"what is stored":    {chats, strings.Replace(ask40, "{", `{"store":true,`, 1)},
	} {
		got, _ := m.kept(c.path, c.body)
		require.True(t, got == nil || got.Status != 200, name)
	}
	for name, body := range map[string]string{
		"white space between":      " { " + strings.ReplaceAll(ask40[1:], `,"m`, " ,\n\"m"),
		"members in another order": `{"max_tokens":40,"model":"a/m-1","messages":[{"role":"user","content":"hi"}]}`,
	} {
		got, _ := m.kept(chats, body)
		require.NotNil(t, got, name)
	}
	m.key = &configv1.Key{Name: "key_1", Organization: "evil"}
	m.configure()
	got, _ := m.kept(chats, ask40)
	require.Nil(t, got, "another organization")
	m.key = &configv1.Key{Name: "key_2"}
	m.configure()
	got, _ = m.kept(chats, ask40)
	require.Nil(t, got, "a key without one")
}

func TestWhatIsNotKept(t *testing.T) {
	tools := `{"tools":[{"type":"function","function":{"name":"f"}}],`
	for name, c := range map[string]struct {
		cache       *configv1.ResponseCache
		ask, answer string
		media       string
		status      string
		reason      string
		result      metering.CacheResult
		cut         bool
		more        []exchange.Header
	}{
		"a temperature above the bound": {cache: &configv1.ResponseCache{Name: "all", MaxTemperature: 0.5},
			reason: "temperature"},
		"tools":            {ask: strings.Replace(ask40, "{", tools, 1), reason: "tools"},
		"an error":         {status: "500", answer: `{"error":{"message":"no"}}`, result: "miss"},
		"a client's error": {status: "400", answer: `{"error":{"message":"no"}}`, result: "miss"},
		"an error in a stream": {ask: stream40, media: "text/event-stream",
			answer: chunkOf("hel") + `data: {"error":{"message":"no"}}` + "\n\n", result: "miss"},
		"a stream that is cut": {ask: stream40, media: "text/event-stream", answer: chunkOf("hel"), result: "miss",
			cut: true},
		"what is no answer":       {answer: `{}`, result: "miss"},
		"what the client forbids": {more: []exchange.Header{control("no-store")}},
		"what is too large":       {answer: tooLong, result: "miss"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.cache == nil {
				c.cache = everyones()
			}
			if c.ask == "" {
				c.ask = ask40
			}
			if c.answer == "" {
				c.answer = whole
			}
			if c.result == "" {
				c.result = "bypass"
			}
			m := caching(t, c.cache)
			x, reply := m.ask(chats, c.ask, c.more...)
			require.Nil(t, reply.Immediate)
			head := answer(x, orElse(c.status, "200"), orElse(c.media, "application/json"))
			if head.ResponseBody != exchange.None {
				x.ResponseBody(t.Context(), []byte(c.answer), !c.cut)
			}
			r := x.Close()
			require.Equal(t, &metering.Cache{Name: "all", Result: c.result, Reason: c.reason}, r.Cache)
			got, _ := m.kept(chats, c.ask)
			require.Nil(t, got)
			require.Zero(t, m.config.Caches[0].Bytes())
		})
	}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func TestWhatTheClientWantsOfTheCache(t *testing.T) {
	m := caching(t, everyones())
	got, _ := m.kept(chats, ask40, control("only-if-cached"))
	require.Equal(t, 504, got.Status)
	require.Equal(t, "not_cached", gjson.GetBytes(got.Body, "error.code").Str)
	x, _ := m.chat(ask40)
	m.complete(x, "application/json", whole)
	m.now = m.now.Add(time.Minute)
	for want, hit := range map[string]bool{
		"only-if-cached": true, "max-age=60": true, "max-age=59": false, "no-cache": false, "No-Store": false,
		"max-age=x": true, "": true,
	} {
		got, _ := m.kept(chats, ask40, control(want))
		require.Equal(t, hit, got != nil, want)
	}
	x, _ = m.ask(chats, ask40, control("no-cache"))
	m.complete(x, "application/json", strings.Replace(whole, "hello", "fresh", 1))
	got, _ = m.kept(chats, ask40)
	require.Contains(t, string(got.Body), "fresh", "no-cache replaces what was kept")
}

func TestAHitCountsAsARequestOnly(t *testing.T) {
	m := caching(t)
	m.key = fullKey()
	m.key.Budgets[0].Usd = "0.0001"
	m.configure()
	m.cache(everyones())
	x, reply := m.chat(ask40)
	require.Nil(t, reply.Immediate)
	m.complete(x, "application/json", strings.Replace(whole, `"completion_tokens":2`, `"completion_tokens":40`, 1))
	x, reply = m.chat(strings.Replace(ask40, "hi", "ho", 1))
	require.Equal(t, 429, reply.Immediate.Status, "the budget is spent")
	x.Close()
	for range 9 {
		got, r := m.kept(chats, ask40, exchange.Header{Name: "x-modelgate-include-cost", Value: "true"})
		require.Equal(t, 200, got.Status, string(got.Body))
		require.Equal(t, "0", got.Header.Get("x-modelgate-cost-usd"))
		require.Equal(t, []string{"key/key_1 limit requests per minute"}, r.Rules)
	}
	got, r := m.kept(chats, ask40)
	require.Equal(t, 429, got.Status, "requests are limited")
	require.Equal(t, "key/key_1 limit requests per minute", r.RefusedBy)
}

func TestTheMostSpecificCacheDecides(t *testing.T) {
	m := caching(t, everyones(), &configv1.ResponseCache{Name: "acme", Organization: "acme", Models: []string{"a/*"}},
		&configv1.ResponseCache{Name: "key", Key: "key_1", Models: []string{"c/*"}},
		&configv1.ResponseCache{Name: "other", Organization: "other", Project: "p"})
	_, r := m.kept(chats, ask40)
	require.Equal(t, &metering.Cache{Name: "acme", Result: "bypass", Reason: "temperature"}, r.Cache)
	_, r = m.kept(chats, strings.Replace(ask40, "a/m-1", "b/m-1", 1))
	require.Equal(t, &metering.Cache{Name: "all", Result: "miss"}, r.Cache)
}

func TestAChangeOfTheConfigurationEmptiesACache(t *testing.T) {
	m := caching(t, everyones())
	x, _ := m.chat(ask40)
	m.complete(x, "application/json", whole)
	m.cache(everyones())
	got, _ := m.kept(chats, ask40)
	require.NotNil(t, got, "nothing has changed")
	changed := everyones()
	changed.Version = "2"
	m.cache(changed)
	got, _ = m.kept(chats, ask40)
	require.Nil(t, got)

	x, _ = m.chat(ask40)
	m.complete(x, "application/json", whole)
	m.config.Providers["a"].Config.ApiVersion = "2"
	m.configure()
	got, _ = m.kept(chats, ask40)
	require.Nil(t, got, "the provider is asked in another way")
}

// A stampede is equal requests at once.
func TestEqualRequestsAtOnceAskOnce(t *testing.T) {
	for name, c := range map[string]struct {
		answer, status string
		cut            bool
		asked          int // how many go out, of 10
	}{
		"the answer is for all":             {whole, "200", false, 1},
		"the first client leaves":           {"", "", true, 2},
		"the first gets an error":           {`{"error":{"message":"no"}}`, "500", false, 2},
		"the first's answer is not for all": {tooLong, "200", false, 10},
	} {
		t.Run(name, func(t *testing.T) {
			m := caching(t, everyones())
			first, _ := m.chat(ask40)
			var following sync.WaitGroup
			asked := make(chan *exchange.Exchange, 10)
			shared := make(chan metering.Record, 10)
			for range 9 {
				x, reply := m.chat(ask40)
				require.True(t, reply.Queue)
				following.Go(func() {
					reply := x.Turn(t.Context())
					if reply.Plan != nil {
						asked <- x
						return
					}
					shared <- x.Close()
				})
			}
			if !c.cut {
				answer(first, c.status, "application/json")
				first.ResponseBody(t.Context(), []byte(c.answer), true)
			}
			first.Close()
			if c.asked == 2 {
				m.complete(<-asked, "application/json", whole)
			}
			following.Wait()
			require.Equal(t, 10, c.asked+len(shared))
			if c.asked == 10 {
				require.Len(t, asked, 9)
			}
			for range len(shared) {
				require.Equal(t, metering.CacheShared, (<-shared).Cache.Result)
			}
		})
	}
}

func TestAFollowerThatLeaves(t *testing.T) {
	m := caching(t, everyones())
	first, _ := m.chat(ask40)
	x, reply := m.chat(ask40)
	require.True(t, reply.Queue)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, exchange.Reply{Wait: true}, x.Turn(ctx))
	require.Equal(t, metering.OutcomeCut, x.Close().Outcome)
	m.complete(first, "application/json", whole)
	got, _ := m.kept(chats, ask40)
	require.NotNil(t, got)
}
