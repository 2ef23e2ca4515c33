package main

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// startTLSMock serves the mock over TLS, as a target would show it, and returns it with a client's endpoint.
func startTLSMock(t *testing.T, p profile) (*httptest.Server, *endpoint) {
	t.Helper()
	m := new(mockServer)
	a, err := newAnswers(p)
	require.NoError(t, err)
	m.current.Store(a)
	s := httptest.NewTLSServer(m.handler())
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.crt")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	require.NoError(t, os.WriteFile(ca, block, 0o600))
	at, err := newEndpoint(&job{URL: s.URL, CA: ca, Key: "key"})
	require.NoError(t, err)
	return s, at
}

func TestRequestBodyHasTheSizeThatWasAskedFor(t *testing.T) {
	for _, size := range []int{200, 20_000} {
		for _, stream := range []bool{false, true} {
			body, err := requestBody("bench/mock", size, stream)
			require.NoError(t, err)
			require.Len(t, body, size)
		}
	}
	body, err := requestBody("bench/mock", 0, false)
	require.NoError(t, err)
	require.JSONEq(t, `{"model":"bench/mock","messages":[{"role":"user","content":""}]}`, string(body))
}

func TestAClientKeepsItsConnection(t *testing.T) {
	_, at := startTLSMock(t, profile{Interval: time.Second, AnswerBytes: 200})
	c := &client{at: at}
	defer c.close()
	body, err := requestBody("mock", 200, false)
	require.NoError(t, err)
	require.NoError(t, c.ask(body, time.Minute, discard))
	first := c.conn
	require.NotNil(t, first)
	require.NoError(t, c.ask(body, time.Minute, discard))
	require.Same(t, first, c.conn)
}

func TestAnAnswerOtherThan200IsAFailureAndClosesTheConnection(t *testing.T) {
	_, at := startTLSMock(t, profile{Interval: time.Second})
	c := &client{at: at}
	err := c.ask([]byte("not JSON"), time.Minute, discard)
	require.ErrorContains(t, err, "status 400")
	require.Nil(t, c.conn)
}

func TestOpenLoopSendsAllThatIsDue(t *testing.T) {
	_, at := startTLSMock(t, profile{Interval: time.Second})
	clients := []asker{&client{at: at}, &client{at: at}}
	for _, c := range clients {
		defer c.close()
	}
	body, err := requestBody("mock", 200, false)
	require.NoError(t, err)
	sum := openLoopAt(t.Context(), clients, body, 1000, 50*time.Millisecond)
	require.Empty(t, sum.failures)
	require.Len(t, sum.latencies, 50)
}

// Askers that share connections are as many as were asked for, on as few connections as that takes.
func TestAskersShareConnections(t *testing.T) {
	at := &endpoint{tls: new(tls.Config)}
	connections := map[*http.Client]int{}
	for _, c := range (&load{at: at, job: job{Connections: 10, Together: 4}}).askers() {
		connections[c.(*multiplexed).client]++
	}
	require.ElementsMatch(t, []int{4, 4, 2}, slices.Collect(maps.Values(connections)))
	require.Len(t, (&load{at: at, job: job{Connections: 3}}).askers(), 3)
}

// TestStreamsEndWhenTheMockIsTold plays a whole stream: it must not end by itself, and every chunk counts.
func TestStreamsEndWhenTheMockIsTold(t *testing.T) {
	s, at := startTLSMock(t, profile{Interval: time.Millisecond, ChunkBytes: 24})
	seen := make(chan time.Time, 1000)
	ended := make(chan error, 1)
	body, err := requestBody("mock", 200, true)
	require.NoError(t, err)
	began := time.Now()
	go func() {
		c := &client{at: at}
		defer c.close()
		ended <- c.ask(body, time.Minute, func(r io.Reader) error {
			return readStream(r, func(sent time.Time) { seen <- sent })
		})
	}()
	for range 5 {
		select {
		case sent := <-seen:
			require.WithinRange(t, sent, began.Truncate(time.Microsecond), time.Now())
		case err := <-ended:
			t.Fatal("the stream ended by itself: ", err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/profile",
		strings.NewReader(`{"Interval":1000000}`))
	require.NoError(t, err)
	response, err := s.Client().Do(r)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.NoError(t, <-ended)
}

func TestReadStream(t *testing.T) {
	const chunk, last, done = `data: {"delta":{"content":"@xx"}}` + "\n\n", `data: {"delta":{"content":"@=3"}}` +
		"\n\n", "data: [DONE]\n\n"
	for name, c := range map[string]struct {
		text string
		want string // error; empty: none
	}{
		"whole":              {chunk + chunk + last + done, ""},
		"a chunk is missing": {chunk + last + done, "2 chunks received, 3 sent, [DONE]: true"},
		"a chunk too many":   {chunk + chunk + chunk + last + done, "4 chunks received, 3 sent, [DONE]: true"},
		"no last chunk":      {chunk + done, "1 chunks received, 0 sent, [DONE]: true"},
		"no end mark":        {chunk + chunk + last, "3 chunks received, 3 sent, [DONE]: false"},
		"an error in the stream": {chunk + `data: {"error":{"message":"no"}}` + "\n\n",
			"1 chunks received, 0 sent, [DONE]: false"},
		"nothing at all":          {"", "0 chunks received, 0 sent, [DONE]: false"},
		"an end mark and no more": {done, "0 chunks received, 0 sent, [DONE]: true"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
				err := readStream(r, func(time.Time) {})
				if c.want == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, c.want)
				}
			}
		})
	}
	require.ErrorIs(t, readStream(iotest.ErrReader(io.ErrUnexpectedEOF), func(time.Time) {}), io.ErrUnexpectedEOF)
}

func TestAwaitAllWaitsForEveryStreamAndNoLonger(t *testing.T) {
	// waited returns how long awaitAll waits for two streams, of which one starts at once and one after a time.
	waited := func(ctx context.Context, last time.Duration) time.Duration {
		var s stage
		s.starting.Add(2)
		s.starting.Done()
		began := time.Now()
		slow := time.AfterFunc(last, s.starting.Done)
		s.awaitAll(ctx)
		took := time.Since(began)
		if slow.Stop() {
			s.starting.Done()
		}
		return took
	}
	synctest.Test(t, func(t *testing.T) {
		require.Equal(t, time.Second, waited(t.Context(), time.Second), "until the last has started")
		require.Equal(t, startTimeout, waited(t.Context(), time.Hour), "not for ever")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Zero(t, waited(ctx, time.Hour), "not if the load is ended")
	})
}

func TestAStreamWhoseTurnDoesNotComeIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stage // nobody takes its starters
		s.starting.Add(1)
		starting, giveUp := context.WithCancel(t.Context())
		giveUp()
		require.ErrorIs(t, new(load).stream(starting, nil, nil, &s), errNotStarted)
		began := time.Now()
		s.awaitAll(t.Context())
		require.Zero(t, time.Since(began), "it is not awaited any more")
	})
}
