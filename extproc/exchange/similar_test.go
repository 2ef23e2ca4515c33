package exchange_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/internal/guard"
)

// comparing returns a gateway whose cache compares requests. To the simulated model texts that begin with the same
// word are close. Asked counts the vectors.
func comparing(t *testing.T, change ...func(*configv1.ResponseCache)) (m *meter, asked *atomic.Int64) {
	t.Helper()
	asked = &atomic.Int64{}
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		var is struct{ Input string }
		_ = json.NewDecoder(r.Body).Decode(&is)
		words := strings.Fields(is.Input)
		v := make([]int, 1000)
		v[crc32.ChecksumIEEE([]byte(words[0]))%999], v[999] = 10, len(words)
		_, _ = fmt.Fprintf(w, `{"data":[{"embedding":%s}]}`, strings.ReplaceAll(fmt.Sprint(v), " ", ","))
	}))
	t.Cleanup(service.Close)
	config := everyones()
	config.Similar = &configv1.SimilarAnswers{Url: service.URL, Model: "small"}
	for _, f := range change {
		f(config)
	}
	return caching(t, config), asked
}

// sent sends a chat request, and returns the answer that was kept; nil: a provider is asked.
func (m *meter) sent(body string, more ...exchange.Header) (*exchange.Exchange, *exchange.Immediate) {
	x, reply := m.ask(chats, body, more...)
	reply = turned(m.t.Context(), x, reply)
	return x, reply.Immediate
}

func asking(text string) string { return strings.Replace(ask40, `"hi"`, `"`+text+`"`, 1) }

func TestASimilarRequestGetsTheKeptAnswer(t *testing.T) {
	stream := chunkOf("hello") + ended + usage11 + over
	for name, c := range map[string]struct{ ask, media, answer string }{
		"complete": {ask40, "application/json", whole}, "streamed": {stream40, "text/event-stream", stream},
	} {
		t.Run(name, func(t *testing.T) {
			m, asked := comparing(t)
			say := func(text string) string { return strings.Replace(c.ask, `"hi"`, `"`+text+`"`, 1) }
			x, none := m.sent(say("password forgotten, what now?"))
			require.Nil(t, none)
			first, r := m.complete(x, c.media, c.answer)
			require.Equal(t, &metering.Cache{Name: "all", Result: "miss", Compared: "done"}, r.Cache)
			cost := r.Cost

			m.now = m.now.Add(90 * time.Second)
			x, got := m.sent(say("password lost, please help me"))
			require.NotNil(t, got)
			require.Equal(t, first, string(got.Body))
			require.Equal(t, "similar 90 a", fmt.Sprint(got.Header.Get("x-modelgate-cache"), " ", got.Header.Get("Age"), " ",
				got.Header.Get("x-modelgate-provider")))
			require.Regexp(t, `^0\.99\d$`, got.Header.Get("x-modelgate-cache-similarity"))
			r = x.Close()
			require.Equal(t, metering.CacheSimilar, r.Cache.Result)
			require.Equal(t, cost, r.Cache.Saved)
			require.Zero(t, r.Cost)
			require.Zero(t, r.Usage)
			require.Contains(t, m.ended[1].GetDetails().GetCache(), "similar all (90 s old, ")
			require.Contains(t, m.ended[1].GetDetails().GetCache(), "similarity 0.9")
			require.EqualValues(t, 2, asked.Load())

			_, got = m.sent(say("password forgotten, what now?"))
			require.Equal(t, "hit", got.Header.Get("x-modelgate-cache"))
			require.Empty(t, got.Header.Get("x-modelgate-cache-similarity"))
			require.EqualValues(t, 2, asked.Load(), "an equal one is not compared")

			_, got = m.sent(say("opening hours of the office?"))
			require.Nil(t, got)
			_, got = m.sent(say("password of 2 people forgotten"))
			require.Nil(t, got, "another number")
			m.key = &configv1.Key{Name: "key_1", Organization: "evil"}
			m.configure()
			_, got = m.sent(say("password lost, please help me"))
			require.Nil(t, got, "another organization")
		})
	}
}

func TestWhatClientsWantOfSimilarAnswers(t *testing.T) {
	m, asked := comparing(t)
	x, _ := m.sent(asking("password forgotten, what now?"))
	m.complete(x, "application/json", whole)
	m.now = m.now.Add(time.Minute)
	near := asking("password lost, please help me")
	for want, found := range map[string]bool{"max-age=60": true, "max-age=59": false, "only-if-cached": true,
		"max-age=10, only-if-cached": false} {
		x, got := m.sent(near, control(want))
		require.Equal(t, found, got != nil && got.Status == http.StatusOK, want)
		x.Close()
	}
	before := asked.Load()
	for _, want := range []string{"no-store", "no-cache"} {
		x, got := m.sent(near, control(want))
		require.Nil(t, got, want)
		x.Close()
	}
	require.Equal(t, before, asked.Load())
	x, got := m.sent(asking("hours of the office, please?"), control("only-if-cached"))
	require.Equal(t, http.StatusGatewayTimeout, got.Status)
	x.Close()
}

// While the service is away, requests are sent, and equal ones find answers.
func TestWithoutVectorsOnlyEqualRequestsFindAnswers(t *testing.T) {
	m, _ := comparing(t, func(c *configv1.ResponseCache) { c.Similar.Url = "http://127.0.0.1:1/" })
	x, got := m.sent(asking("password forgotten, what now?"))
	require.Nil(t, got)
	_, r := m.complete(x, "application/json", whole)
	require.Equal(t, "miss all (comparison failed)", r.Cache.Text())
	x, got = m.sent(asking("password lost, please help me"))
	require.Nil(t, got)
	x.Close()
	_, got = m.sent(asking("password forgotten, what now?"))
	require.Equal(t, "hit", got.Header.Get("x-modelgate-cache"))
}

// What a guardrail has masked in a request is restored in its answer: that is for its own client.
func TestAnAnswerToAMaskedRequestIsForNoOther(t *testing.T) {
	m, asked := comparing(t)
	rails, err := guard.Compile([]*configv1.Guardrail{{Name: "g", Rules: []*configv1.GuardRule{
		emails(configv1.GuardMode_MASK)}}})
	require.NoError(t, err)
	m.config.Rails = rails
	ann := asking("password of ann@x.example lost")
	x, _ := m.sent(ann)
	first, _ := m.complete(x, "application/json", strings.Replace(whole, "hello", "Dear [EMAIL_1]", 1))
	require.Contains(t, first, "ann@x.example")
	for _, text := range []string{"password of bob@x.example lost", "password lost, please help me"} {
		x, got := m.sent(asking(text))
		require.Nil(t, got, text)
		x.Close()
	}
	require.EqualValues(t, 1, asked.Load(), "no text with something masked is compared")
	_, got := m.sent(ann)
	require.Equal(t, first, string(got.Body), "equal ones are as before")

	x, _ = m.sent(asking("password forgotten, what now?"))
	m.complete(x, "application/json", whole)
	x, got = m.sent(asking("password of bob@x.example lost"))
	require.Nil(t, got)
	x.Close()
}

// Requests that are equal to one that is being compared wait for its answer, and get it as what it is.
func TestASimilarAnswerIsSharedWithEqualRequests(t *testing.T) {
	arrived, release := make(chan struct{}, 9), make(chan struct{})
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		_, _ = io.WriteString(w, `{"data":[{"embedding":[1,2]}]}`)
	}))
	t.Cleanup(service.Close)
	m, _ := comparing(t, func(c *configv1.ResponseCache) { c.Similar.Url = service.URL + "/v1/embeddings" })
	go func() { <-arrived; release <- struct{}{} }()
	x, _ := m.sent(asking("password forgotten, what now?"))
	m.complete(x, "application/json", whole)
	m.now = m.now.Add(time.Minute)

	near := asking("password lost, please help me")
	leader, led := m.ask(chats, near)
	require.True(t, led.Queue)
	var followers []*exchange.Exchange
	for _, want := range []string{"", "max-age=10"} {
		x, reply := m.ask(chats, near, control(want))
		require.True(t, reply.Queue)
		followers = append(followers, x)
	}
	replies := make(chan exchange.Reply)
	for _, x := range append(followers, leader) {
		go func() { replies <- turned(context.Background(), x, exchange.Reply{Queue: true}) }()
	}
	<-arrived
	close(release)
	results := map[string]int{}
	for range 3 {
		if i := (<-replies).Immediate; i != nil {
			results[i.Header.Get("x-modelgate-cache")]++
		} else {
			results["sent"]++
		}
	}
	require.Equal(t, map[string]int{"similar": 2, "sent": 1}, results, "who wants a younger one asks")
	require.Empty(t, arrived, "nobody else is compared")
}

// A client that leaves while it waits ends the wait, and the next of the equal requests goes on.
func TestAClientLeavesWhileItIsCompared(t *testing.T) {
	arrived := make(chan struct{}, 9)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		arrived <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(service.Close)
	m, _ := comparing(t, func(c *configv1.ResponseCache) { c.Similar.Url = service.URL })
	ctx, leave := context.WithCancel(t.Context())
	x, reply := m.ask(chats, asking("password forgotten, what now?"))
	require.True(t, reply.Queue)
	go func() { <-arrived; leave() }()
	reply = turned(ctx, x, reply)
	require.True(t, reply.Wait)
	require.Nil(t, reply.Plan)
	r := x.Close()
	require.Empty(t, r.Cache.Compared)
	require.Empty(t, m.begun)
	_, reply = m.ask(chats, asking("password forgotten, what now?"))
	require.True(t, reply.Queue, "nobody leads")
}

// Only text is compared.
func TestOtherOperationsAreNotCompared(t *testing.T) {
	m, asked := comparing(t)
	x, reply := m.ask("/v1/embeddings", `{"model":"a/m-1","input":"password forgotten, what now?"}`)
	require.False(t, reply.Queue)
	x.Close()
	require.Zero(t, asked.Load())
}
