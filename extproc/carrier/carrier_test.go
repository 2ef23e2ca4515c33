package carrier

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
)

// toEnvoy is a link that keeps what Envoy is told.
type toEnvoy struct {
	context.Context

	mu  sync.Mutex // guards what follows
	all []Response
}

func (e *toEnvoy) told() []Response {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

func (e *toEnvoy) Send(r *Response) error {
	told := *r
	if r.Reply != nil {
		reply := *r.Reply
		told.Reply = &reply
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, told)
	return nil
}

func (e *toEnvoy) Go(f func() error) error { return f() }

func (e *toEnvoy) Silent() (context.Context, context.CancelFunc) {
	return context.WithCancel(e.Context)
}

// validKey has the form of a key and its checksum.
var validKey = auth.Generate().Reveal()

func carriers() *Carriers {
	return &Carriers{Env: &exchange.Env{Now: time.Now, NewID: func() string { return "p-1" }},
		Closed: func(metering.Record) {}}
}

func carried(t *testing.T, c *carrier, in *Message) {
	t.Helper()
	require.NoError(t, c.Take(in))
}

// carry returns a carrier of a request for a stream that was sent to a provider.
func carry(t *testing.T) (*carrier, *toEnvoy) {
	p, err := routing.NewProvider(&configv1.ResolvedProvider{Provider: &configv1.Provider{Name: "a", Vendor: "openai"},
		Credential: "sk"}, openai.Provider())
	require.NoError(t, err)
	config := &exchange.Config{
		Directory: access.Directory{Hasher: auth.NewHasher([]byte("pepper"))},
		Table:     routing.Table{Providers: map[string]*routing.Provider{"a": p}},
	}
	hash := config.Hasher.Hash(validKey)
	config.Keyring = config.Keyring.With(map[string]*configv1.Key{"k": {Name: "k", Hash: hash[:]}})
	s := carriers()
	e := &toEnvoy{Context: context.Background()}
	c := &carrier{carriers: s, link: e, drains: true, exchange: exchange.New(s.Env, config)}
	for _, in := range []Message{
		{Phase: RequestHeaders, Headers: exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/chat/completions"}, {Name: "authorization", Value: "Bearer " + validKey}}},
		{Phase: RequestBody, Body: []byte(`{"model":"a/m","messages":[{"role":"user","content":"hi"}],"stream":true}`),
			End: true},
		{Phase: ResponseHeaders, Headers: exchange.Headers{{Name: ":status", Value: "200"},
			{Name: "content-type", Value: "text/event-stream"}},
			Facts: exchange.Facts{Cluster: "a/first", Attempts: 1, CodeDetails: envoy.CodeDetailsUpstream}},
	} {
		carried(t, c, &in)
	}
	require.Len(t, e.told(), 2, "the headers wait")
	return c, e
}

const (
	roleChunk = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	textChunk = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}` + "\n\n"
)

func piece(text string) *Message {
	return &Message{Phase: ResponseBody, Body: []byte(text)}
}

// TestAnIdleStreamKeepsNoPiece: a stream whose client reads slowly had each piece of up to 1 MB in memory three times,
// and 376 such streams took 1.2 GB.
func TestAnIdleStreamKeepsNoPiece(t *testing.T) {
	c, e := carry(t)
	in := piece(roleChunk + textChunk)
	carried(t, c, in)
	require.Len(t, e.told(), 4)
	require.Nil(t, in.Body, "the transport has the message until the next one")
	require.Nil(t, c.out.Reply)
}

func TestHeadersWaitNoLongerThanTheyMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := carry(t)
		carried(t, c, piece(roleChunk))
		time.Sleep(14 * time.Second)
		synctest.Wait()
		require.Len(t, e.told(), 2)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, e.told(), 4)
		require.Equal(t, ResponseHeaders, e.told()[2].Phase)
		require.Contains(t,
			string(e.told()[3].Reply.Body), `"role"`)
		carried(t, c, piece(textChunk))
		require.Len(t, e.told(), 5)
		require.NoError(t, c.Close())
	})
}

func TestTheFirstTokenGoesWithTheHeadersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := carry(t)
		carried(t, c, piece(roleChunk+textChunk))
		require.Len(t, e.told(), 4)
		require.Equal(t, ResponseHeaders, e.told()[2].Phase)
		carried(t, c, piece(": a comment"))
		require.Len(t, e.told(), 4, "nothing to say, nothing is said")
		carried(t, c, &Message{Phase: ResponseTrailers, Headers: exchange.Headers{{Name: "x-t", Value: "1"}}})
		require.Len(t, e.told(), 6)
		require.Contains(t,
			string(e.told()[4].Reply.Body),
			"upstream_truncated")
		require.Equal(t, []string{"x-t"}, e.told()[5].Reply.Remove)
		time.Sleep(time.Minute)
		require.Len(t, e.told(), 6, "the timer was stopped")
		require.NoError(t, c.Close())
	})
}

func TestNothingIsSentOnceEnvoyHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := carry(t)
		require.NoError(t, c.Close())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, e.told(), 2)
	})
}

// TestAnAnswerWaitsForABodyNoLongerThanItMay plays a stranger who sends a byte a second, and trailers in the place of
// an end.
func TestAnAnswerWaitsForABodyNoLongerThanItMay(t *testing.T) {
	refused := func() *Message {
		return &Message{Phase: RequestHeaders, Headers: exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/chat/completions"}}}
	}
	start := func() (*carrier, *toEnvoy) {
		s := carriers()
		e := &toEnvoy{Context: context.Background()}
		return &carrier{carriers: s, link: e, drains: true, exchange: exchange.New(s.Env, &exchange.Config{})}, e
	}
	synctest.Test(t, func(t *testing.T) {
		c, e := start()
		carried(t, c, refused())
		for range 4 {
			time.Sleep(time.Second)
			carried(t, c, &Message{Phase: RequestBody, Body: []byte("x")})
		}
		require.Len(t, e.told(), 5)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, e.told(), 6)
		require.Equal(t, 401, e.told()[5].Reply.Immediate.Status)
		require.NoError(t, c.Close())
	})
	synctest.Test(t, func(t *testing.T) {
		c, e := start()
		carried(t, c, refused())
		carried(t, c, &Message{Phase: RequestBody, Body: []byte("x")})
		carried(t, c, &Message{Phase: RequestTrailers})
		require.Equal(t, 401, e.told()[2].Reply.Immediate.Status)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, e.told(), 3, "it went out once")
		require.NoError(t, c.Close())
	})
}

// TestAPanicEndsOnlyItsAnswer has a timer of a waiting answer panic, which no transport sees.
func TestAPanicEndsOnlyItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := carry(t)
		var seen any
		c.carriers.Panicked = func(reason any, _ []byte) { seen = reason }
		carried(t, c, piece(roleChunk))
		c.mu.Lock()
		whole := c.exchange
		c.exchange = nil
		c.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.NotNil(t, seen)
		require.Equal(t, 500, e.told()[len(e.told())-1].Reply.Immediate.Status)
		c.mu.Lock()
		c.exchange = whole
		c.mu.Unlock()
		require.NoError(t, c.Close())
	})
}
