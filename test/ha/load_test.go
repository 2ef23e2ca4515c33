package ha

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

const (
	unaryClients  = 6
	streamClients = 6
	unaryEvery    = 40 * time.Millisecond // of one client, at the most
	batchLines    = 80
	patience      = time.Minute
)

// A load asks without end. None of its clients asks anything twice; what fails is noted.
type load struct {
	mayCut  int // tries of lines that a killed job service had under way, at most; each is charged
	c       *cluster
	key, id string          // of its own
	ctx     context.Context // of the load
	stop    context.CancelFunc
	workers sync.WaitGroup

	mu       sync.Mutex       // guards what follows
	answered map[string]int64 // tokens, by the request's id
	streams  int
	batches  map[string]bool // that are over, with every line in the output
	failed   []string
	rounds   []int // how often each worker has begun something
}

// startLoad has all clients begin. They end with the test, or with halt.
func startLoad(c *cluster) *load { return startLoadOf(c, c.t, true) }

// startLoadOf is startLoad with or without batches.
func startLoadOf(c *cluster, t testing.TB, batches bool) *load {
	l := prepareLoad(c, t)
	l.start(t, batches)
	return l
}

// prepareLoad returns one that does not ask yet, with a key that works.
func prepareLoad(c *cluster, t testing.TB) *load {
	l := &load{c: c, answered: map[string]int64{}, batches: map[string]bool{}}
	l.id, l.key = c.createKey(t, 0, "load")
	c.accepts(t, l.key, http.StatusOK)
	return l
}

// start has all clients begin.
func (l *load) start(t testing.TB, batches bool) {
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.rounds = make([]int, unaryClients+streamClients, unaryClients+streamClients+1)
	if batches {
		l.rounds = append(l.rounds, 0)
		l.each(unaryClients+streamClients, 0, true, l.batch)
	}
	for n := range unaryClients {
		l.each(n, unaryEvery, n%2 == 0, l.ask)
	}
	for n := range streamClients {
		l.each(unaryClients+n, 0, n%2 == 0, l.stream)
	}
	t.Cleanup(l.halt)
}

// halt ends the load when everything under way has its answer.
func (l *load) halt() {
	l.stop()
	l.workers.Wait()
}

// each has one worker, with a connection of its own, do something again and again.
func (l *load) each(n int, every time.Duration, http2 bool, do func(*http.Client) error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: l.c.authorities}, ForceAttemptHTTP2: http2,
		DisableCompression: true}
	if !http2 {
		transport.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
	}
	client := &http.Client{Transport: transport, Timeout: patience}
	l.workers.Go(func() {
		defer transport.CloseIdleConnections()
		for l.ctx.Err() == nil {
			l.mu.Lock()
			l.rounds[n]++
			l.mu.Unlock()
			timer := time.NewTimer(every)
			if err := do(client); err != nil {
				l.fail(err)
			}
			select {
			case <-timer.C:
			case <-l.ctx.Done():
			}
		}
	})
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, fmt.Sprintf("%s %v", time.Now().Format("15:04:05.000"), err))
}

// post asks and returns the whole answer, which must be a success.
func (l *load) post(client *http.Client, body string) (id, answer string, err error) {
	r, err := http.NewRequest(http.MethodPost, l.c.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return "", "", err
	}
	r.GetBody = nil // no transport can send it a second time
	r.Header.Set("Authorization", "Bearer "+l.key)
	r.Header.Set("Content-Type", "application/json")
	response, err := client.Do(r)
	if err != nil {
		return "", "", err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return "", "", fmt.Errorf("after %d bytes of an answer %d: %w", len(text), response.StatusCode, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return response.Header.Get("x-request-id"), string(text), nil
}

func (l *load) ask(client *http.Client) error {
	id, text, err := l.post(client, `{"model":"vendor/unary","messages":[{"role":"user","content":"is it there?"}]}`)
	if err != nil {
		return fmt.Errorf("unary: %w", err)
	}
	if !strings.Contains(text, "yes, indeed") {
		return fmt.Errorf("unary: another answer: %s", text)
	}
	l.note(id, promptTokens+answerTokens, 0)
	return nil
}

func (l *load) stream(client *http.Client) error {
	id, text, err := l.post(client,
		`{"model":"vendor/stream","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"is it there?"}]}`)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	if n := strings.Count(text, `"more "`); n != pieces || !strings.HasSuffix(text, "data: [DONE]\n\n") {
		return fmt.Errorf("stream: it has %d of %d pieces and ends in %q", n, pieces, text[max(0, len(text)-200):])
	}
	l.note(id, promptTokens+pieces, 1)
	return nil
}

func (l *load) note(id string, tokens int64, streams int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answered[id] = tokens
	l.streams += streams
}

// batch runs a batch to its end, and asks for it again and again while it runs.
func (l *load) batch(client *http.Client) error {
	g := harness.Client{Gateway: &cases.Gateway{URL: l.c.URL, Key: l.key, Client: client}}
	id, err := begin(g)
	if err != nil {
		return err
	}
	// The load ends when the batch has: none is lost.
	limit := time.NewTimer(2 * patience)
	defer limit.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var b harness.Batch
	for !b.Over() {
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("batch %s: it does not end: %s, %+v", id, b.Status, b.Counts)
		}
		if err := g.Try(http.MethodGet, "/v1/batches/"+id, &b); err != nil {
			l.fail(fmt.Errorf("batch %s: %w", id, err)) // the request has; the batch goes on
		}
	}
	if b.Status != "completed" || b.Counts.Completed != batchLines || b.OutputFileID == nil {
		return fmt.Errorf("batch %s: %s, %+v, %+v", id, b.Status, b.Counts, b.Errors)
	}
	l.mu.Lock()
	l.batches[id] = true
	l.mu.Unlock()
	err = checkOutput(g, *b.OutputFileID)
	if errors.Is(err, errNoOutput) { // the request has failed; the output is there
		l.fail(fmt.Errorf("batch %s: %w", id, err))
		err = checkOutput(g, *b.OutputFileID)
	}
	if err != nil {
		return fmt.Errorf("batch %s: %w", id, err)
	}
	return nil
}

// errNoOutput is that of a request for an output that was answered by something else.
var errNoOutput = errors.New("its output")

// during is a step under the load, in which nothing fails.
func (l *load) during(t *testing.T, name string, step func(t *testing.T)) {
	t.Run(name, func(t *testing.T) {
		m := l.mark()
		step(t)
		l.since(t, m)
	})
}

// since is pass, and requires that meanwhile, and since a mark was set,
// nothing has failed.
func (l *load) since(t *testing.T, m mark) {
	t.Helper()
	require.Empty(t, l.failures(t, m))
}

// failures is pass, and returns what has failed meanwhile and since a mark was set.
func (l *load) failures(t *testing.T, m mark) []string {
	t.Helper()
	l.pass(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d requests, of them %d streams, and %d batches of %d lines in %v; %d failed", len(l.answered)-m.answered,
		l.streams-m.streams,
		len(l.batches)-m.batches, batchLines, time.Since(m.at).Round(100*time.Millisecond), len(l.failed)-m.failed)
	return slices.Clone(l.failed[m.failed:])
}

// pass waits until every worker has begun something after the call and has ended it, or, of batches, the one that was
// under way.
func (l *load) pass(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	before := slices.Clone(l.rounds)
	l.mu.Unlock()
	harness.Eventually(t, "every client has got an answer to a new request", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for n := range before {
			begun := 2
			if n == unaryClients+streamClients { // of a batch it is enough that the next is begun: much of it is after the call
				begun = 1
			}
			if l.rounds[n] < before[n]+begun {
				return fmt.Errorf("client %d, %d failures: %v", n, len(l.failed), l.failed[max(0, len(l.failed)-3):])
			}
		}
		return nil
	})
}

// A mark is a moment of a load.
type mark struct {
	at                                 time.Time
	answered, streams, batches, failed int
}

func (l *load) mark() mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return mark{time.Now(), len(l.answered), l.streams, len(l.batches), len(l.failed)}
}

// begin uploads a file and creates a batch of it.
func begin(g harness.Client) (string, error) {
	var lines strings.Builder
	for n := range batchLines {
		lines.WriteString(harness.ChatLine(fmt.Sprint("line-", n), "vendor/line", "is it there?") + "\n")
	}
	var file, made struct {
		ID string `json:"id"`
	}
	body, contentType := form(lines.String())
	if err := send(g, "/v1/files", body, contentType, &file); err != nil {
		return "", fmt.Errorf("uploading a batch: %w", err)
	}
	err := send(g, "/v1/batches",
		fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, file.ID),
		"application/json", &made)
	if err != nil {
		return "", fmt.Errorf("creating a batch: %w", err)
	}
	return made.ID, nil
}

func send(g harness.Client, path, body, contentType string, into any) error {
	r, err := http.NewRequest(http.MethodPost, g.URL+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.GetBody = nil
	r.Header.Set("Authorization", "Bearer "+g.Key)
	r.Header.Set("Content-Type", contentType)
	response, err := g.Client.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	return json.Unmarshal(text, into)
}

// form is the body of an upload.
func form(content string) (body, contentType string) {
	const boundary = "a-boundary-of-the-test"
	return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n--" + boundary +
		"\r\nContent-Disposition: form-data; name=\"file\"; filename=\"lines.jsonl\"\r\n\r\n" + content + "\r\n--" +
		boundary + "--\r\n", "multipart/form-data; boundary=" + boundary
}

// checkOutput requires that every line is in an output, once and answered.
func checkOutput(g harness.Client, file string) error {
	r, err := http.NewRequest(http.MethodGet, g.URL+"/v1/files/"+file+"/content", http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+g.Key)
	response, err := g.Client.Do(r)
	if err != nil {
		return fmt.Errorf("its output: %w", err)
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("its output: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: status %d: %s", errNoOutput, response.StatusCode, text)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		var result harness.Result
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			return fmt.Errorf("its output: %w", err)
		}
		if seen[result.CustomID] || result.Response == nil || !strings.Contains(string(result.Response.Body),
			"yes, indeed") {
			return fmt.Errorf("its output has %s", line)
		}
		seen[result.CustomID] = true
	}
	if len(seen) != batchLines {
		return fmt.Errorf("its output has %d lines", len(seen))
	}
	return nil
}
