package extproc

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/access"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/extproc/transport"
	"github.com/modelgate/modelgate/extproc/wire"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/provider/vendors/openai"
)

// toEnvoy is a stream that keeps what Envoy is told.
type toEnvoy struct {
	link

	mu  sync.Mutex // guards what follows
	all []*extprocv3.ProcessingResponse
}

func (e *toEnvoy) told() []*extprocv3.ProcessingResponse {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.all)
}

func (e *toEnvoy) Send(m transport.Message) error {
	b, err := wire.New().Marshal(m)
	if err != nil {
		return err
	}
	defer b.Free()
	told := &extprocv3.ProcessingResponse{}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, told)
	return proto.Unmarshal(b.Materialize(), told)
}

func carried(t *testing.T, c *carrier, in *wire.Message) {
	t.Helper()
	require.NoError(t, c.take(in))
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
	config.Keyring = keyring(config, map[string]string{"k": validKey})
	s := &Server{env: exchange.Env{Now: time.Now, NewID: newIDs("p-")},
		journal: newJournal(zap.NewNop(), newMetrics(prometheus.NewRegistry(), nil), newSampler(prometheus.NewRegistry()),
			nil, "p-")}
	e := &toEnvoy{link: &grpcLink{Context: context.Background()}}
	c := &carrier{server: s, link: e, drains: true, exchange: exchange.New(&s.env, config)}
	for _, in := range []wire.Message{
		{Phase: wire.RequestHeaders, Headers: exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/chat/completions"}, {Name: "authorization", Value: "Bearer " + validKey}}},
		{Phase: wire.RequestBody, Body: []byte(`{"model":"a/m","messages":[{"role":"user","content":"hi"}],"stream":true}`),
			End: true},
		{Phase: wire.ResponseHeaders, Headers: exchange.Headers{{Name: ":status", Value: "200"},
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

func piece(text string) *wire.Message {
	return &wire.Message{Phase: wire.ResponseBody, Body: []byte(text)}
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
		require.NotNil(t, e.told()[2].GetResponseHeaders())
		require.Contains(t,
			string(e.told()[3].GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()), `"role"`)
		carried(t, c, piece(textChunk))
		require.Len(t, e.told(), 5)
		c.close()
	})
}

func TestTheFirstTokenGoesWithTheHeadersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := carry(t)
		carried(t, c, piece(roleChunk+textChunk))
		require.Len(t, e.told(), 4)
		require.NotNil(t, e.told()[2].GetResponseHeaders())
		carried(t, c, piece(": a comment"))
		require.Len(t, e.told(), 4, "nothing to say, nothing is said")
		carried(t, c, &wire.Message{Phase: wire.ResponseTrailers, Headers: exchange.Headers{{Name: "x-t", Value: "1"}}})
		require.Len(t, e.told(), 6)
		require.Contains(t,
			string(e.told()[4].GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse().GetBody()),
			"upstream_truncated")
		require.Equal(t, []string{"x-t"}, e.told()[5].GetResponseTrailers().GetHeaderMutation().GetRemoveHeaders())
		time.Sleep(time.Minute)
		require.Len(t, e.told(), 6, "the timer was stopped")
		c.close()
	})
}

func TestNothingIsSentOnceEnvoyHasLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e := carry(t)
		c.close()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, e.told(), 2)
	})
}

// TestAnAnswerWaitsForABodyNoLongerThanItMay plays a stranger who sends a byte a second, and trailers in the place of
// an end.
func TestAnAnswerWaitsForABodyNoLongerThanItMay(t *testing.T) {
	refused := func() *wire.Message {
		return &wire.Message{Phase: wire.RequestHeaders, Headers: exchange.Headers{{Name: ":method", Value: "POST"},
			{Name: ":path", Value: "/v1/chat/completions"}}}
	}
	start := func() (*carrier, *toEnvoy) {
		s := &Server{env: exchange.Env{Now: time.Now, NewID: newIDs("p-")},
			journal: newJournal(zap.NewNop(), newMetrics(prometheus.NewRegistry(), nil), newSampler(prometheus.NewRegistry()),
				nil, "p-")}
		e := &toEnvoy{link: &grpcLink{Context: context.Background()}}
		return &carrier{server: s, link: e, drains: true, exchange: exchange.New(&s.env, &exchange.Config{})}, e
	}
	synctest.Test(t, func(t *testing.T) {
		c, e := start()
		carried(t, c, refused())
		for range 4 {
			time.Sleep(time.Second)
			carried(t, c, &wire.Message{Phase: wire.RequestBody, Body: []byte("x")})
		}
		require.Len(t, e.told(), 5)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Len(t, e.told(), 6)
		require.EqualValues(t, 401, e.told()[5].GetImmediateResponse().GetStatus().GetCode())
		c.close()
	})
	synctest.Test(t, func(t *testing.T) {
		c, e := start()
		carried(t, c, refused())
		carried(t, c, &wire.Message{Phase: wire.RequestBody, Body: []byte("x")})
		carried(t, c, &wire.Message{Phase: wire.RequestTrailers})
		require.EqualValues(t, 401, e.told()[2].GetImmediateResponse().GetStatus().GetCode())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, e.told(), 3, "it went out once")
		c.close()
	})
}
