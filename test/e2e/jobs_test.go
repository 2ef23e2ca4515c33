package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/test/cases"
	"github.com/modelgate/modelgate/test/harness"
)

const chatPath = "/v1/chat/completions"

// TestJobs runs the job service as a process of its own.
func TestJobs(t *testing.T) {
	s := newJobSplit(t, "--batch-concurrency", "8", "--lease", "60s")
	s.start()
	s.startService(0)
	s.awaitJobs(t)
	t.Run("an upload that is cut leaves nothing", s.truncatedUpload)
	t.Run("a large upload takes no memory", s.largeUpload)
	t.Run("headers that only Envoy may set are not believed", s.forgedHeaders)
	t.Run("another organization sees nothing", s.foreignOrganization)
	t.Run("a key is revoked in the middle of a batch", s.keyRevoked)
	t.Run("a job service that is stopped hands over at once", s.handsOver)
	t.Run("live requests while a batch runs", s.liveLatency)
	t.Run("the job service is away", s.serviceAway)
}

// stored returns the names of the files in the blob store.
func (s *jobSplit) stored(t *testing.T) (names []string) {
	t.Helper()
	err := filepath.WalkDir(s.blobs(), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it went while we looked
		}
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	require.NoError(t, err)
	return names
}

func (s *jobSplit) truncatedUpload(t *testing.T) {
	_, key := s.createKey(t, "cut")
	c, before := s.as(key), s.stored(t)
	body, contentType := harness.Form(t, "notes.txt", strings.Repeat("some text ", 100_000), "purpose", "user_data")
	head := "POST /v1/files HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nContent-Type: " + contentType +
		"\r\n"
	s.cut(t, head+fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body))+body[:len(body)/2])
	s.cut(t, head+fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", len(body))+body[:len(body)/2])
	for name, part := range map[string]string{"in the middle": body[:len(body)/2],
		"before the last boundary": body[:len(body)-70], "empty": ""} {
		a := c.Do(t, http.MethodPost, "/v1/files", part, "Content-Type", contentType)
		require.Equal(t, 400, a.Status, "%s: %s", name, a.Body)
		require.NotEmpty(t, a.Failure(t).Message)
	}
	harness.Eventually(t, "nothing is left", func() error {
		if now := s.stored(t); !slices.Equal(now, before) {
			return fmt.Errorf("there is %v", now)
		}
		return nil
	})
	a := c.Do(t, http.MethodGet, "/v1/files", "")
	require.Empty(t, gjson.GetBytes(a.Body, "data").Array())
}

// cut sends bytes and closes the connection.
func (g *gateway) cut(t *testing.T, request string) {
	t.Helper()
	conn := g.dial(t)
	_, err := conn.Write([]byte(request))
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// block is what large files are made of. It cannot be compressed away.
func block() []byte {
	b := make([]byte, 1<<20)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(b)
	return b
}

func (s *jobSplit) largeUpload(t *testing.T) {
	const megabytes = 300
	c := s.as(s.Key)
	small := c.Upload(t, "user_data", "warm") // so that what is allocated once is
	_ = c.Content(t, small)
	parts := map[string]int{"Envoy": s.envoy.PID(), "ext_proc service": s.extproc.PID(),
		"job service": s.services[0].PID()}
	before, peak := map[string]int64{}, map[string]int64{}
	for name, pid := range parts {
		before[name] = memory(t, pid)
	}
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for name, pid := range parts {
				peak[name] = max(peak[name], memory(t, pid))
			}
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	})
	began := time.Now()
	id, sent := uploadMegabytes(t, c, megabytes)
	t.Logf("%d MB up in %v", megabytes, time.Since(began).Round(time.Millisecond))
	began = time.Now()
	require.Equal(t, sent, contentHash(t, c, id))
	t.Logf("%d MB down in %v", megabytes, time.Since(began).Round(time.Millisecond))
	close(done)
	watcher.Wait()
	for name := range parts {
		t.Logf("%s: %d MB before, %d MB at the most", name, before[name]>>20, peak[name]>>20)
		require.Less(t, peak[name]-before[name], int64(64<<20), "%s holds what passes", name)
	}
	require.Equal(t, 200, c.Do(t, http.MethodDelete, "/v1/files/"+id, "").Status)
}

// uploadMegabytes streams a file, and returns its id and hash.
func uploadMegabytes(t testing.TB, c harness.Client, n int) (id, hash string) {
	t.Helper()
	r, w := io.Pipe()
	form, sum := multipart.NewWriter(w), sha256.New()
	go func() {
		err := form.WriteField("purpose", "user_data")
		var file io.Writer
		if err == nil {
			file, err = form.CreateFormFile("file", "large.bin")
		}
		for b := block(); n > 0 && err == nil; n-- {
			b[0] = byte(n)
			_, _ = sum.Write(b)
			_, err = file.Write(b)
		}
		w.CloseWithError(errors.Join(err, form.Close()))
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL+"/v1/files", r)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+c.Key)
	request.Header.Set("Content-Type", form.FormDataContentType())
	response, err := c.Client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, 200, response.StatusCode, "%s", body)
	return gjson.GetBytes(body, "id").Str, hex.EncodeToString(sum.Sum(nil))
}

func contentHash(t testing.TB, c harness.Client, id string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.URL+"/v1/files/"+id+"/content", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+c.Key)
	response, err := c.Client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, 200, response.StatusCode)
	sum := sha256.New()
	_, err = io.Copy(sum, response.Body)
	require.NoError(t, err)
	return hex.EncodeToString(sum.Sum(nil))
}

// forged are the headers in which Envoy and the job service say on whose behalf they ask.
func forged(key, organization string) []string {
	return []string{"x-modelgate-key", key, "x-modelgate-organization", organization, "x-modelgate-project", "one",
		"x-modelgate-to-provider", "echo", "x-modelgate-charge", "batch_x/1"}
}

func (s *jobSplit) forgedHeaders(t *testing.T) {
	victimID, victimKey := s.createKey(t, "victim")
	_, key := s.createKey(t, "thief")
	victim, thief := s.as(victimKey), s.as(key)
	secret := victim.Upload(t, "user_data", "a secret")
	forged := forged(victimID, "victim")
	require.Equal(t, 404, thief.Do(t, http.MethodGet, "/v1/files/"+secret, "", forged...).Status)
	require.Equal(t, 404, thief.Do(t, http.MethodDelete, "/v1/files/"+secret, "", forged...).Status)
	list := thief.Do(t, http.MethodGet, "/v1/files", "", forged...)
	require.Empty(t, gjson.GetBytes(list.Body, "data").Array())

	body, contentType := harness.Form(t, "x.txt", "x", "purpose", "user_data")
	made := thief.Do(t, http.MethodPost, "/v1/files", body, append([]string{"Content-Type", contentType}, forged...)...)
	require.Equal(t, 200, made.Status, "%s", made.Body)
	require.Equal(t, 200, thief.Do(t, http.MethodGet, "/v1/files/"+made.JSON(t)["id"].(string), "").Status,
		"it belongs to who made it")

	// Nor do they open another way: neither without a key of one's own, nor past the translation, nor to the vendor.
	for _, key := range []string{"", "none"} {
		a := thief.Do(t, http.MethodGet, "/v1/files", "", append([]string{"Authorization", key}, forged...)...)
		require.Equal(t, 401, a.Status, "%s", a.Body)
	}
	var seen atomic.Value
	provider := cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Clone())
		answerLine(w, "x", 1, 1)
	})
	s.addProvider(t, "watching", provider.URL+"/v1")
	chat := thief.Do(t, http.MethodPost, chatPath, `{"model":"watching/any","messages":[{"role":"user","content":"hi"}]}`,
		forged...)
	require.Equal(t, 200, chat.Status, "%s", chat.Body)
	for name := range seen.Load().(http.Header) {
		require.False(t, strings.HasPrefix(strings.ToLower(name), "x-modelgate"), name)
	}
	require.NotContains(t, s.extproc.Output(), "batch_x/1", "nor is it charged as they say")
	require.Equal(t, 404, thief.Do(t, http.MethodGet, "/v1/anything", "", forged...).Status)
}

func (s *jobSplit) foreignOrganization(t *testing.T) {
	_, one := s.createKey(t, "one")
	_, two := s.createKey(t, "two")
	owner, stranger := s.as(one), s.as(two)
	id := owner.Begin(t, chatPath, harness.ChatLine("a", "echo/echo", "hi"))
	b := owner.Await(t, id)
	for _, path := range []string{"/v1/batches/" + id, "/v1/files/" + b.InputFileID, "/v1/files/" + *b.OutputFileID +
		"/content"} {
		require.Equal(t, 200, owner.Do(t, http.MethodGet, path, "").Status, path)
		require.Equal(t, 404, stranger.Do(t, http.MethodGet, path, "").Status, path)
	}
	for _, path := range []string{"/v1/batches", "/v1/files"} {
		require.Empty(t, gjson.GetBytes(stranger.Do(t, http.MethodGet, path, "").Body, "data").Array())
	}
}

// answerLine answers as a provider of OpenAI's dialect.
func answerLine(w http.ResponseWriter, text string, prompt, completion int64) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w,
		`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q,"refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		text, prompt, completion, prompt+completion)
}

// A gate is a provider that answers as many lines at once, and the others only when it is opened.
type gate struct {
	*httptest.Server
	passed atomic.Int64
	open   chan struct{}
}

func newGate(t *testing.T, atOnce int64) *gate {
	g := &gate{open: make(chan struct{})}
	g.Server = cases.NewProvider(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if g.passed.Add(1) > atOnce {
			select {
			case <-g.open:
			case <-r.Context().Done():
				return
			}
		}
		answerLine(w, "done", 1, 1)
	})
	return g
}

// lines are of a batch that asks a model.
func lines(model string, n int) (all []string) {
	for i := range n {
		all = append(all, harness.ChatLine(fmt.Sprint("line-", i), model, "hi"))
	}
	return all
}

// awaitDone waits until so many lines of a batch are done.
func awaitDone(t *testing.T, c harness.Client, id string, n int) {
	t.Helper()
	harness.Eventually(t, "lines are done", func() error {
		if b := c.Batch(t, id); b.Counts.Completed < n {
			return fmt.Errorf("%+v", b)
		}
		return nil
	})
}

func (s *jobSplit) keyRevoked(t *testing.T) {
	const total, done = 60, 20
	provider := newGate(t, done)
	s.addProvider(t, "revoked", provider.URL+"/v1")
	keyID, key := s.createKey(t, "revoked")
	_, other := s.createKey(t, "revoked")
	id := s.as(key).Begin(t, chatPath, lines("revoked/any", total)...)
	awaitDone(t, s.as(key), id, done)
	harness.Must(t, "", append([]string{"key", "revoke", keyID}, s.at(0)...)...)
	harness.Eventually(t, "the key is refused", func() error {
		if s.accepts(key) == nil {
			return errStill
		}
		return nil
	})
	close(provider.open)
	c := s.as(other)
	b := c.Await(t, id)
	require.Equal(t, "completed", b.Status)
	out, failed := c.Results(t, b.OutputFileID), c.Results(t, b.ErrorFileID)
	require.Equal(t, total, len(out)+len(failed))
	require.GreaterOrEqual(t, len(out), done, "what was done stays")
	require.LessOrEqual(t, len(out), done+8, "what was under way is finished, and no more")
	for id, r := range failed {
		require.NotContains(t, out, id)
		require.Equal(t, 401, r.Response.StatusCode, "%s", r.Response.Body)
		require.Equal(t, "invalid_api_key", gjson.GetBytes(r.Response.Body, "error.code").Str)
	}
}

// handsOver stops the one job service in the middle of a batch. Its lease would keep the work for a minute.
func (s *jobSplit) handsOver(t *testing.T) {
	const total, done = 60, 20
	provider := newGate(t, done)
	s.addProvider(t, "handed", provider.URL+"/v1")
	c := s.as(s.Key)
	id := c.Begin(t, chatPath, lines("handed/any", total)...)
	awaitDone(t, c, id, done)
	s.startService(1)
	s.services[1].WaitFor(t, "configuration received")
	began := time.Now()
	s.services[0].Stop(t) // while lines are being asked, whose answers it waits for, but not for long
	require.NoError(t, s.services[0].Err)
	stopped := time.Since(began)
	close(provider.open)
	s.startService(0)
	s.awaitJobs(t)
	b := c.Await(t, id)
	t.Logf("stopped in %v, the batch was over %v after the signal", stopped.Round(time.Millisecond),
		time.Since(began).Round(time.Millisecond))
	require.Less(t, time.Since(began), 20*time.Second, "the other did not wait for the lease")
	require.Equal(t, "completed", b.Status)
	out := c.Results(t, b.OutputFileID)
	require.Len(t, out, total)
	s.services[1].Kill()
}

func (s *jobSplit) liveLatency(t *testing.T) {
	c := s.as(s.Key)
	measure := func(while func() bool) []time.Duration {
		var took []time.Duration
		for len(took) < 2000 && while() {
			began := time.Now()
			require.NoError(t, s.chat())
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		return took
	}
	quiet := measure(func() bool { return true })
	id := c.Begin(t, chatPath, lines("echo/echo", 20_000)...)
	harness.Eventually(t, "it runs", func() error {
		if c.Batch(t, id).Status == "in_progress" {
			return nil
		}
		return errStill
	})
	var asked int
	busy := measure(func() bool {
		asked++
		return asked%50 != 0 || !c.Batch(t, id).Over()
	})
	c.Do(t, http.MethodPost, "/v1/batches/"+id+"/cancel", "")
	require.NotEmpty(t, busy)
	t.Logf("a live request took %v (p50), %v (p99) of %d alone, and %v, %v of %d while a batch ran",
		quiet[len(quiet)/2].Round(time.Microsecond),
		quiet[len(quiet)*99/100].Round(time.Microsecond), len(quiet), busy[len(busy)/2].Round(time.Microsecond),
		busy[len(busy)*99/100].Round(time.Microsecond), len(busy))
	c.Await(t, id)
}

func (s *jobSplit) serviceAway(t *testing.T) {
	c := s.as(s.Key)
	file := c.Upload(t, "user_data", "kept")
	s.services[0].Kill()
	for _, path := range []string{"/v1/files", "/v1/batches", "/v1/fine_tuning/jobs", "/v1/files/" + file + "/content"} {
		a := c.Do(t, http.MethodGet, path, "")
		require.Equal(t, 503, a.Status, "%s: %s", path, a.Body)
		require.NotEmpty(t, a.Failure(t).Message)
		require.NotEmpty(t, a.Header.Get("X-Request-Id"))
	}
	body, contentType := harness.Form(t, "x.txt", strings.Repeat("x", 1<<20), "purpose", "user_data")
	require.Equal(t, 503, c.Do(t, http.MethodPost, "/v1/files", body, "Content-Type", contentType).Status)
	require.NoError(t, s.chat(), "chat works")
	require.NoError(t, s.has("echo/echo"), "and the list of models")
	s.startService(0)
	s.awaitJobs(t)
	require.Equal(t, "kept", c.Content(t, file))
}
