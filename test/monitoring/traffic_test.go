package monitoring_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/harness"
)

// chat asks a model, and returns an error where the status is not as it should be.
func (s *system) chat(model, key string, want int) error {
	return s.ask(context.Background(), key, `{"model":"`+model+
		`","messages":[{"role":"user","content":"one two three"}]}`, want)
}

func (s *system) stream(model string) error {
	return s.ask(context.Background(), s.Key, `{"model":"`+model+
		`","stream":true,"messages":[{"role":"user","content":"one two three"}]}`, http.StatusOK)
}

func (s *system) ask(ctx context.Context, key, body string, want int) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	response, err := s.Client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("status %d, not %d: %s", response.StatusCode, want, answer)
	}
	return err
}

// begin makes traffic of every kind until the test ends or stop is called: the rate of something that happened once is
// no rate.
func (s *system) begin(t *testing.T) (stop func()) {
	t.Helper()
	require.NoError(t, s.chat("echo/echo", s.limited, http.StatusOK))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, ask := range []func() error{
		func() error { return s.chat("echo/echo", s.Key, http.StatusOK) },
		func() error { return s.stream("echo/echo") },
		func() error { return s.chat("good/m", s.Key, http.StatusOK) },
		func() error { return s.chat("both", s.Key, http.StatusOK) },
		func() error { return s.chat("broken/m", s.Key, http.StatusInternalServerError) },
		func() error { return s.chat("gone/m", s.Key, http.StatusServiceUnavailable) },
		func() error { return s.chat("narrow/m", s.Key, http.StatusOK) },
		func() error { return s.chat("narrow/m", s.Key, http.StatusOK) },
		func() error { return s.chat("echo/echo", s.limited, http.StatusTooManyRequests) },
		func() error { // ten a second, which is what an address without a key may ask
			defer pause(ctx, 100*time.Millisecond)
			return s.chat("echo/echo", "sk-mg-none", http.StatusUnauthorized)
		},
		func() error {
			defer pause(ctx, time.Second) // a key may write to the job service five times a second
			return s.batch(t)
		},
	} {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := ask(); err != nil && ctx.Err() == nil {
					t.Errorf("traffic: %v", err)
					return
				}
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// beginCareless asks until stop is called, whatever comes of it.
func (s *system) beginCareless(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, model := range []string{"echo/echo", "broken/m"} {
		for _, key := range []string{s.Key, s.limited} {
			running.Go(func() {
				for ctx.Err() == nil {
					_ = s.ask(ctx, key, `{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`, http.StatusOK)
				}
			})
		}
	}
	return func() { cancel(); running.Wait() }
}

// pause ends after a time, or with ctx.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// batch runs a batch of a good and a bad line to its end.
func (s *system) batch(t *testing.T) error {
	client := s.As(s.Key)
	id := client.Begin(t, "/v1/chat/completions", harness.ChatLine("a", "echo/echo", "hi"),
		harness.Line("b", "/v1/chat/completions", `{"model":"echo/echo","messages":[]}`))
	if b := client.Await(t, id); b.Status != "completed" {
		return fmt.Errorf("batch %s: %+v", b.Status, b)
	}
	return nil
}
