package kubernetes_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A load asks the gateway without a pause that matters, as clients of several kinds do, and checks every answer to its
// last byte. None of its clients tries anything twice.
type load struct {
	release *release
	c       *client
	address string // of one data plane, in place of the Service
	key     string
	end     context.CancelFunc
	workers sync.WaitGroup

	mu       sync.Mutex
	unary    int // answers
	streams  int
	failures []failure
}

// A failure is an exchange that did not go as promised.
type failure struct {
	what         string
	err          error
	begun, ended time.Time
}

func (f failure) String() string {
	return fmt.Sprintf("%s %s..%s: %v", f.what, f.begun.Format("05.000"), f.ended.Format("05.000"), f.err)
}

// underLoad starts one of all kinds: on all data planes by the Service, or on one by its address.
func (r *release) underLoad(t *testing.T, address string) *load {
	t.Helper()
	l, ctx := r.newLoad(t, address)
	for i := range 3 {
		l.worker(ctx, fmt.Sprintf("HTTP/1.1 client %d", i), http1, l.chat)
		l.worker(ctx, fmt.Sprintf("HTTP/2 client %d", i), http2, l.chat)
		l.worker(ctx, fmt.Sprintf("client %d without keep-alive", i), oneShot, l.chat)
		l.worker(ctx, fmt.Sprintf("stream %d of 1 s", i), http1, l.streamOf(10))
		l.worker(ctx, fmt.Sprintf("stream %d of 8 s", i), http2, l.streamOf(80))
	}
	return l
}

// newLoad is one without workers, who go by the context.
func (r *release) newLoad(t *testing.T, address string) (*load, context.Context) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	l := &load{release: r, c: r.gateway, address: address, key: r.key, end: end}
	t.Cleanup(func() { end(); l.workers.Wait() })
	return l, ctx
}

// Kinds of clients.
func http1(t *http.Transport) {
	t.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
}
func http2(t *http.Transport)   { t.ForceAttemptHTTP2 = true }
func oneShot(t *http.Transport) { http1(t); t.DisableKeepAlives = true }

// worker asks again and again on a connection of its own, until the load is to end; what it has begun it brings to its
// end.
func (l *load) worker(ctx context.Context, what string, kind func(*http.Transport),
	ask func(*http.Client, int) error) {
	transport := l.c.transport(l.address)
	kind(transport)
	asks := &http.Client{Transport: transport, Timeout: time.Minute}
	l.workers.Go(func() {
		defer transport.CloseIdleConnections()
		pause := time.NewTicker(50 * time.Millisecond)
		defer pause.Stop()
		for i := 0; ; i++ {
			begun := time.Now()
			if err := ask(asks, i); err != nil {
				l.mu.Lock()
				l.failures = append(l.failures, failure{what, err, begun, time.Now()})
				l.mu.Unlock()
			}
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				return
			}
		}
	})
}

// stop waits for what has begun, and returns what failed. A load that asked nothing proves nothing.
func (l *load) stop(t *testing.T) []failure {
	t.Helper()
	l.end()
	l.workers.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d answers and %d streams, %d failures", l.unary, l.streams, len(l.failures))
	require.Greater(t, l.unary, 20)
	require.GreaterOrEqual(t, l.streams, 3)
	return l.failures
}

// unharmed ends the load and wants nothing to have failed.
func (l *load) unharmed(t *testing.T) {
	t.Helper()
	failures := l.stop(t)
	for _, f := range failures[:min(len(failures), 20)] {
		l.release.harm = append(l.release.harm, t.Name()+": "+f.String())
	}
	require.Empty(t, failures[:min(len(failures), 20)], "%d failures", len(failures))
}

// flowing waits until every kind of exchange is under way.
func (l *load) flowing(t *testing.T, r *release) {
	t.Helper()
	eventually(t, 30*time.Second, "requests and streams flow", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.unary < 20 || r.provider.open.Load() < 5 {
			return fmt.Errorf("%d answers, %d streams open, failures %v", l.unary, r.provider.open.Load(), l.failures)
		}
		return nil
	})
}

func (l *load) send(c *http.Client, model, text string, stream bool) (*http.Response, error) {
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, model, stream, text)
	request, err := http.NewRequest(http.MethodPost, l.c.base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+l.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := c.Do(request)
	if err == nil && response.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(response.Body)
		response.Body.Close()
		err = fmt.Errorf("%s: %s", response.Status, answer)
	}
	return response, err
}

// chat asks echo for an answer, which is what was said.
func (l *load) chat(c *http.Client, i int) error {
	text := fmt.Sprintf("message %d", i)
	response, err := l.send(c, "echo/echo", text, false)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var answer struct {
		Choices []struct{ Message struct{ Content string } }
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if len(answer.Choices) != 1 || !strings.Contains(answer.Choices[0].Message.Content, text) {
		return fmt.Errorf("another answer: %v", answer)
	}
	// To its end, so that the connection is used again.
	_, err = io.Copy(io.Discard, response.Body)
	if err == nil {
		l.mu.Lock()
		l.unary++
		l.mu.Unlock()
	}
	return err
}

// streamOf asks for words, and wants all of them in their order, the reason and [DONE].
func (l *load) streamOf(words int) func(*http.Client, int) error {
	return func(c *http.Client, _ int) error {
		response, err := l.send(c, "slow/slow", fmt.Sprint(words), true)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if err := readStream(response.Body, words); err != nil {
			return err
		}
		l.mu.Lock()
		l.streams++
		l.mu.Unlock()
		return nil
	}
}

func readStream(body io.Reader, words int) error {
	var text strings.Builder
	var finish, last string
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		last = data
		var chunk struct {
			Error   any
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
		}
		if data == "[DONE]" {
			continue
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.Error != nil {
			return fmt.Errorf("after %q: %w: %s", text.String(), err, data)
		}
		for _, choice := range chunk.Choices {
			text.WriteString(choice.Delta.Content)
			finish += choice.FinishReason
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("cut after %d bytes: %w", text.Len(), err)
	}
	var want strings.Builder
	for i := range words {
		fmt.Fprintf(&want, "%d ", i)
	}
	if strings.TrimSpace(text.String()) != strings.TrimSpace(want.String()) || finish != "stop" || last != "[DONE]" {
		return fmt.Errorf("ended early: finish %q, last %q, %d of %d bytes", finish, last, text.Len(), want.Len())
	}
	return nil
}
