package exchange_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/inflight"
)

const mib = 1 << 20

// sized begins an exchange whose body is announced.
func (m *meter) sized(secret, length string, more ...exchange.Header) (*exchange.Exchange, exchange.Reply) {
	x := exchange.New(m.env, m.config)
	return x, x.RequestHeaders(m.t.Context(), append(exchange.Headers{
		{Name: ":method", Value: "POST"}, {Name: ":path", Value: chats}, {Name: "authorization", Value: "Bearer " + secret},
		{Name: "content-type", Value: "application/json"}, {Name: "content-length", Value: length},
		{Name: "x-request-id", Value: "req"},
	}, more...), false)
}

// second adds a key and returns its secret.
func (m *meter) second() string {
	secret := auth.Generate().Reveal()
	hash := m.config.Hasher.Hash(secret)
	next := *m.config
	next.Keyring = next.Keyring.With(map[string]*configv1.Key{"key_2": {Name: "key_2", Hash: hash[:]}})
	m.config = &next
	return secret
}

func gzipped(t testing.TB, text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.Bytes()
}

func TestOneKeysBodiesDoNotKeepAnotherOut(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	other := m.second()
	m.env.Bytes = inflight.New(40*mib, 20*mib)
	first, reply := m.sized(m.secret, strconv.Itoa(9*mib))
	require.Nil(t, reply.Immediate)
	_, reply = m.sized(m.secret, strconv.Itoa(9*mib))
	require.Equal(t, 429, reply.Immediate.Status, "before it is sent")
	require.Equal(t, "1", reply.Immediate.Header.Get("Retry-After"))
	require.Contains(t, string(reply.Immediate.Body), "key_1")
	_, reply = m.sized(m.secret, "1000")
	require.Nil(t, reply.Immediate, "what is small is not counted")
	second, reply := m.sized(other, strconv.Itoa(9*mib))
	require.Nil(t, reply.Immediate)
	third, _ := m.sized(other, "")
	reply = third.RequestBody(t.Context(), make([]byte, 9*mib))
	require.Equal(t, 429, reply.Immediate.Status, "also one that was not announced")
	first.Close()
	second.Close()
	third.Close()
	require.Zero(t, m.env.Bytes.Held())

	m.env.Bytes = inflight.New(20*mib, 20*mib)
	first, _ = m.sized(m.secret, strconv.Itoa(9*mib))
	_, reply = m.sized(other, strconv.Itoa(9*mib))
	require.Equal(t, 503, reply.Immediate.Status)
	require.Contains(t, string(reply.Immediate.Body), "server_is_overloaded")
	require.Equal(t, []string{"key_bytes", "key_bytes", "bytes"}, m.refusals)
	first.Close()
}

// TestRoomIsGivenBack checks every way in which an exchange ends.
func TestRoomIsGivenBack(t *testing.T) {
	large := strings.Replace(ask40, `"hi"`, `"`+strings.Repeat("word ", 100_000)+`"`, 1)
	for name, end := range map[string]func(m *meter, x *exchange.Exchange){
		"the client leaves before its body is there": func(*meter, *exchange.Exchange) {},
		"a mistake": func(m *meter, x *exchange.Exchange) {
			require.NotNil(t, x.RequestBody(m.t.Context(), []byte(strings.Repeat("x", 200_000))).Immediate)
		},
		"the client leaves before the answer": func(m *meter, x *exchange.Exchange) {
			require.NotNil(t, x.RequestBody(m.t.Context(), []byte(large)).Plan)
			require.NotZero(t, m.env.Bytes.Held())
		},
		"answered": func(m *meter, x *exchange.Exchange) {
			x.RequestBody(m.t.Context(), []byte(large))
			answer(x, "200", "application/json")
			require.Zero(t, m.env.Bytes.Held(), "the request is let go of when an answer begins")
			body := strings.Replace(whole, "hello", strings.Repeat("hello ", 100_000), 1)
			require.Zero(t, x.Room(1000))
			x.ResponseBody(context.Background(), []byte(body)[:1000], false)
			require.Zero(t, x.Room(len(body)-1000))
			require.NotZero(t, m.env.Bytes.Held())
			x.ResponseBody(context.Background(), []byte(body)[1000:], true)
		},
		"Envoy answers": func(m *meter, x *exchange.Exchange) {
			x.RequestBody(m.t.Context(), []byte(large))
			x.ResponseHeaders(exchange.Headers{{Name: ":status", Value: "503"}},
				exchange.Facts{CodeDetails: "no_healthy_upstream"}, true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMeter(t, &configv1.Key{Name: "key_1"})
			m.env.Bytes = inflight.New(64*mib, 32*mib)
			x, reply := m.sized(m.secret, strconv.Itoa(len(large)))
			require.Nil(t, reply.Immediate)
			require.NotZero(t, m.env.Bytes.Held())
			end(m, x)
			x.Close()
			require.Zero(t, m.env.Bytes.Held())
		})
	}
}

func TestAnAnswerThatCannotBeHeldIsChargedAndSaysSo(t *testing.T) {
	m := newMeter(t, fullKey())
	m.env.Bytes = inflight.New(mib, mib)
	var other inflight.Hold
	require.NoError(t, other.Grow(m.env.Bytes, "key_2", mib))
	x, _ := m.chat(ask40)
	answer(x, "200", "application/json")
	gone, leave := context.WithCancel(t.Context())
	leave()
	wanting := x.Room(300_000)
	require.NotZero(t, wanting)
	x.AwaitRoom(gone, wanting)
	reply := x.ResponseBody(context.Background(),
		[]byte(strings.Replace(whole, "hello", strings.Repeat("hello ", 50_000), 1)), true)
	require.Equal(t, 503, reply.Immediate.Status)
	require.Contains(t, string(reply.Immediate.Body), "server_is_overloaded")
	x.Close()
	require.Len(t, m.settled, 1)
	require.EqualValues(t, mib, m.env.Bytes.Held())
}

// TestBombsAreBounded sends what becomes a thousand times as large, from many at once: none takes more than a hundred
// times what it has sent, and together they take what there is room for.
func TestBombsAreBounded(t *testing.T) {
	bomb := gzipped(t, `{"model":"a/m-1","messages":[{"role":"user","content":"`+strings.Repeat(" ", 72*mib))
	require.Less(t, len(bomb), 80<<10)
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	m.env.Bytes = inflight.New(32*mib, 16*mib)
	var wg sync.WaitGroup
	statuses := make(chan int, 6)
	for range cap(statuses) {
		x, reply := m.sized(m.secret, strconv.Itoa(len(bomb)), exchange.Header{Name: "content-encoding", Value: "gzip"})
		require.Nil(t, reply.Immediate)
		wg.Go(func() {
			statuses <- x.RequestBody(t.Context(), bomb).Immediate.Status
			x.Close()
		})
	}
	wg.Wait()
	close(statuses)
	for status := range statuses {
		require.Contains(t, []int{413, 429}, status)
	}
	require.Zero(t, m.env.Bytes.Held())

	m.env.Bytes = nil
	usual := gzipped(t, strings.Replace(ask40, `"hi"`, `"`+prose()+`"`, 1))
	x, _ := m.sized(m.secret, "", exchange.Header{Name: "content-encoding", Value: "gzip"})
	require.NotNil(t, x.RequestBody(t.Context(), usual).Plan, "text may be sent compressed")
	x, _ = m.sized(m.secret, "", exchange.Header{Name: "content-encoding", Value: "gzip"})
	require.Equal(t, 400, x.RequestBody(t.Context(), usual[:len(usual)/2]).Immediate.Status)
}

// prose is 4 MB of text that has something to say.
func prose() string {
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, "line %d says %d. ", i, i*i)
	}
	return b.String()
}

func TestWithoutMemoryNothingNewIsBegun(t *testing.T) {
	m := newMeter(t, &configv1.Key{Name: "key_1"})
	none := true
	m.env.Shedding = func() bool { return none }
	for _, asked := range [][2]string{{"POST", chats}, {"POST", "/v1/files"}, {"GET", "/v1/models"}, {"POST", "/r/x"}} {
		_, reply := m.headersOnly(asked[0], asked[1])
		require.Equal(t, 503, reply.Immediate.Status)
		require.Equal(t, "1", reply.Immediate.Header.Get("Retry-After"))
		require.Contains(t, string(reply.Immediate.Body), "server_is_overloaded")
	}
	none = false
	_, reply := m.chat(ask40)
	require.NotNil(t, reply.Plan)
}
