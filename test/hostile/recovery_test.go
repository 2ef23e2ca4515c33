package hostile

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// errStill has harness.Eventually wait on.
var errStill = errors.New("still")

// askEvery is how often a client of a watch asks.
const askEvery = 10 * time.Millisecond

// A watch is clients that ask all the time, each over one connection for as long as the gateway keeps it: half of them
// HTTP/1.1, half HTTP/2.
type watch struct {
	a       *apart
	stop    chan struct{}
	clients sync.WaitGroup

	mu      sync.Mutex // guards what follows
	answers []answer
}

type answer struct {
	client     int
	began, at  time.Time
	status     int
	connection string    // by the client's port
	opened     time.Time // when the connection was first used
}

func (a *apart) watch(n int) *watch {
	w := &watch{a: a, stop: make(chan struct{})}
	for i := range n {
		w.clients.Go(func() { w.run(i) })
	}
	return w
}

func (w *watch) run(i int) {
	transport := &http.Transport{TLSClientConfig: w.a.Client.Transport.(*http.Transport).TLSClientConfig.Clone(),
		ForceAttemptHTTP2: i%2 == 0}
	if i%2 != 0 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 20 * time.Second}
	opened := map[string]time.Time{}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-tick.C:
		}
		one := answer{client: i, began: time.Now()}
		if !w.a.ask(client, &one) {
			continue // a broken connection
		}
		if opened[one.connection].IsZero() {
			opened[one.connection] = one.began
		}
		one.opened = opened[one.connection]
		w.mu.Lock()
		w.answers = append(w.answers, one)
		w.mu.Unlock()
	}
}

// ask asks for a chat completion, and reports whether there was an answer.
func (a *apart) ask(client *http.Client, one *answer) bool {
	r, err := http.NewRequest(http.MethodPost, a.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"echo/echo","messages":[{"role":"user","content":"hi"}]}`))
	if err != nil {
		return false
	}
	r.Header.Set("Authorization", "Bearer "+a.Key)
	r.Header.Set("Content-Type", "application/json")
	r = r.WithContext(httptrace.WithClientTrace(r.Context(),
		&httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			_, one.connection, _ = net.SplitHostPort(c.Conn.LocalAddr().String())
		}}))
	response, err := client.Do(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, response.Body)
	one.status, one.at = response.StatusCode, time.Now()
	return response.Body.Close() == nil && err == nil
}

// served waits until every client has been served by a request that began after a time, and returns all answers since.
func (w *watch) served(t *testing.T, since time.Time, clients int) (answers []answer) {
	t.Helper()
	harness.Eventually(t, "every client is served", func() error {
		answers = w.since(since)
		good := map[int]bool{}
		for _, one := range answers {
			if one.began.After(since) {
				good[one.client] = one.status == http.StatusOK
			}
		}
		for i := range clients {
			if !good[i] {
				return fmt.Errorf("client %d is not", i)
			}
		}
		return nil
	})
	return answers
}

func (w *watch) since(t time.Time) []answer {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.answers), func(one answer) bool { return one.at.Before(t) })
}

// refused returns how long after a time the last answer was given that was not a success, of all and on connections
// that were there before.
func refused(answers []answer, since time.Time) (all, kept time.Duration) {
	for _, one := range answers {
		if one.status == http.StatusOK {
			continue
		}
		all = max(all, one.at.Sub(since))
		if one.opened.Before(since) {
			kept = max(kept, one.at.Sub(since))
		}
	}
	return all, kept
}

// While the ext_proc service is away its Envoy can only refuse. It ends the connections that it has with the first
// such answer, so that clients may find another Envoy, and not when the service is back; and that takes no longer than
// the process needs to start.
func TestPoint8NoConnectionIsKeptOnWhichThereIsNoService(t *testing.T) {
	t.Parallel()
	const clients, kills, away = 8, 5, 3 * time.Second
	a := startApart(t)
	w := a.watch(clients)
	defer func() { close(w.stop); w.clients.Wait() }()
	w.served(t, time.Now(), clients)

	killed := time.Now()
	a.extproc.Kill()
	harness.Eventually(t, "the service stays away for a while", func() error {
		if time.Since(killed) < away {
			return errStill
		}
		return nil
	})
	a.startExtProc()
	w.served(t, time.Now(), clients)
	_, kept := refused(w.since(killed), killed)
	require.Less(t, kept, away, "connections are kept on which every answer is a 503")
	figure(t, "last 503 on a kept connection, service away for "+away.String(), "%v", kept.Round(time.Millisecond))

	var took []time.Duration
	for range kills {
		killed := time.Now()
		a.extproc.Kill()
		a.startExtProc()
		all, _ := refused(w.served(t, killed, clients), killed)
		took = append(took, all.Round(time.Millisecond))
	}
	slices.Sort(took)
	figure(t, fmt.Sprint("last 503 after SIGKILL and a start at once, ", kills, " times"), "median %v, all %v",
		took[kills/2], took)
}
