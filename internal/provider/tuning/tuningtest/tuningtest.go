// Package tuningtest has the tests that every vendor's fine-tuning must pass, and helpers for the tests of one vendor,
// such as a client of a provider whose API is a handler.
//
// A fake is written from the vendor's documentation, not from the code that it tests. It refuses everything that is
// not in the documentation.
package tuningtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/tuning"
)

// Client returns a client of a provider, and h gets the whole paths of its API.
func Client(t *testing.T, p provider.Provider, config *configv1.Provider, h http.Handler) *provider.Client {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	require.NoError(t, err)
	endpoint, err := p.Endpoint(config)
	require.NoError(t, err)
	return &provider.Client{Config: config, DecodeError: p.DecodeError, Send: func(r *http.Request) (*http.Response,
		error) {
		at, err := url.Parse(endpoint.Join(r.URL.String()))
		if err != nil {
			return nil, err
		}
		r.URL = base.ResolveReference(at)
		return server.Client().Do(r)
	}}
}

// File returns a training file of a text.
func File(name, text string) provider.TrainingFile {
	return provider.TrainingFile{Name: name, Size: int64(len(text)), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader([]byte(text))), nil
	}}
}

// JSON answers with a text, which is JSON.
func JSON(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

// Body returns the JSON object that a request holds, for comparison.
func Body(t *testing.T, r *http.Request) map[string]any {
	t.Helper()
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	var object map[string]any
	require.NoError(t, json.NewDecoder(r.Body).Decode(&object))
	return object
}

// Form returns the members of a form and the name and text of its file.
func Form(t *testing.T, r *http.Request) (fields map[string]string, name, text string) {
	t.Helper()
	require.Positive(t, r.ContentLength, "the length is announced")
	require.NoError(t, r.ParseMultipartForm(1<<20))
	fields = map[string]string{}
	for field, values := range r.MultipartForm.Value {
		fields[field] = values[0]
	}
	require.Len(t, r.MultipartForm.File, 1)
	file, header, err := r.FormFile("file")
	require.NoError(t, err)
	content, err := io.ReadAll(file)
	require.NoError(t, err)
	return fields, header.Filename, string(content)
}

// operations are all that a trainer does, each by its name.
func operations(trainer provider.FineTuner, j provider.TuningJob, id string) map[string]func(context.Context,
	*provider.Client) error {
	again := j
	again.Again = true
	all := map[string]func(context.Context, *provider.Client) error{
		"upload": func(ctx context.Context, c *provider.Client) error {
			_, err := trainer.Upload(ctx, c, File("f.jsonl", "{}\n"))
			return err
		},
		"create": func(ctx context.Context, c *provider.Client) error {
			_, err := trainer.Create(ctx, c, j)
			return err
		},
		"create again": func(ctx context.Context, c *provider.Client) error {
			_, err := trainer.Create(ctx, c, again)
			return err
		},
		"poll": func(ctx context.Context, c *provider.Client) error {
			_, err := trainer.Poll(ctx, c, id)
			return err
		},
		"cancel": func(ctx context.Context, c *provider.Client) error { return trainer.Cancel(ctx, c, id) },
	}
	if p, ok := trainer.(provider.Pauser); ok {
		all["pause"] = func(ctx context.Context, c *provider.Client) error { return p.Pause(ctx, c, id) }
		all["resume"] = func(ctx context.Context, c *provider.Client) error { return p.Resume(ctx, c, id) }
	}
	return all
}

// Failures plays a vendor that fails: what may pass is never the last word, and what the vendor says of a request is.
// The job must be one that the vendor has; id is the gateway's of it.
func Failures(t *testing.T, p provider.Provider, config *configv1.Provider, j provider.TuningJob, id string) {
	body := `{"error":{"message":"said the vendor","type":"x","code":"y"}}`
	for name, do := range operations(p.FineTuning, j, id) {
		for _, status := range []int{401, 408, 425, 429, 500, 502, 503, 529} {
			c := Client(t, p, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			}))
			err := do(t.Context(), c)
			require.Error(t, err, "%s: %d", name, status)
			require.False(t, tuning.Final(err), "%s: %d is no last word: %v", name, status, err)
			if status == http.StatusTooManyRequests {
				var e *openai.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, 7*time.Second, e.RetryAfter, name)
			}
		}
		for what, h := range map[string]http.HandlerFunc{
			"a broken connection": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			"an answer cut short": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				JSON(w, `{"id":`)
			},
			"an answer that is none":  func(w http.ResponseWriter, _ *http.Request) { JSON(w, `<html>`) },
			"an answer without an id": func(w http.ResponseWriter, _ *http.Request) { JSON(w, `{}`) },
		} {
			if what == "an answer without an id" && name != "create" {
				continue
			}
			err := do(t.Context(), Client(t, p, config, h))
			if err == nil && (what == "an answer that is none" || name == "upload") { // nothing is read of some
				continue
			}
			require.Error(t, err, "%s: %s", name, what)
			require.False(t, tuning.Final(err), "%s: %s is no last word: %v", name, what, err)
		}
		for _, status := range []int{400, 403, 404, 413, 422} {
			c := Client(t, p, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			}))
			err := do(t.Context(), c)
			require.True(t, tuning.Final(err), "%s: %d is the last word: %v", name, status, err)
			if status == http.StatusNotFound && (name == "poll" || name == "cancel") {
				var e *openai.Error
				require.ErrorAs(t, err, &e)
				require.EqualValues(t, "fine_tune_not_found", e.Code, name)
			}
		}
	}
}

// Streams uploads a large file and requires that it is not held in memory. Answer gets the request once its body was
// read.
func Streams(t *testing.T, p provider.Provider, config *configv1.Provider, answer http.HandlerFunc) {
	const size, bound = 30 << 20, 8 << 20
	got := make(chan int64, 1)
	c := Client(t, p, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err == nil && n > 1<<20 {
			got <- n - (r.ContentLength - n) // what was announced came
		}
		answer(w, r)
	}))
	closed := false
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	id, err := p.FineTuning.Upload(t.Context(), c, provider.TrainingFile{Name: "large", Size: size,
		Open: func(context.Context) (io.ReadCloser, error) {
			return &generated{left: size, closed: &closed}, nil
		}})
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.NotEmpty(t, id)
	require.GreaterOrEqual(t, <-got, int64(size))
	require.True(t, closed, "the file is closed")
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(bound), "the file is held in memory")

	_, err = p.FineTuning.Upload(t.Context(), c, provider.TrainingFile{Name: "cut", Size: size,
		Open: func(context.Context) (io.ReadCloser, error) {
			return &generated{left: 1 << 10, closed: &closed}, nil
		}})
	require.Error(t, err, "a file that ends before its time")
	require.False(t, tuning.Final(err), "%v", err)
}

// generated is a file of noise.
type generated struct {
	left   int
	closed *bool
}

func (g *generated) Read(p []byte) (int, error) {
	if g.left == 0 {
		return 0, io.EOF
	}
	n, err := rand.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

func (g *generated) Close() error {
	*g.closed = true
	return nil
}
