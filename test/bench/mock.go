package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// A profile is how the mock answers. A stream goes on until the mock is told to end all that there are: only then is
// it certain that all of them were open at once, however slow the machine is.
type profile struct {
	TTFT        time.Duration // from the request to the first chunk, or to the answer that is not streamed
	Interval    time.Duration // between chunks with text
	ChunkBytes  int           // of text in one
	AnswerBytes int           // of text in an answer that is not streamed
}

// Every streamed text begins with chunkMark, so that the load generator can count them whoever rewrote them. The last
// one is lastMark and the number of chunks, itself among them.
const (
	chunkMark = "@"
	lastMark  = "@="
)

// answers are a profile in bytes: the mock computes nothing while it is used.
type answers struct {
	profile
	ended  chan struct{} // closed when the streams are to end
	whole  []byte
	role   []byte // the events of a stream, in order
	chunk  []byte
	last   []byte // with %d for the number
	finish []byte
	usage  []byte
	done   []byte
}

func newAnswers(p profile) (*answers, error) {
	type object = map[string]any
	a := &answers{profile: p, ended: make(chan struct{}), done: []byte("data: [DONE]\n\n")}
	var errs []error
	completion := func(kind string, choices []object, usage any) []byte {
		b, err := json.Marshal(object{
			"id": "chatcmpl-bench", "object": kind, "created": 1_700_000_000, "model": "mock", "choices": choices,
			"usage": usage,
		})
		errs = append(errs, err)
		return b
	}
	event := func(choices []object, usage any) []byte {
		return append(append([]byte("data: "), completion("chat.completion.chunk", choices, usage)...), "\n\n"...)
	}
	delta := func(d object, finish any) []byte {
		return event([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil)
	}
	if p.Interval <= 0 {
		errs = append(errs, errors.New("the interval between chunks must be positive"))
	}
	usage := object{"prompt_tokens": 50, "completion_tokens": 50, "total_tokens": 100}
	message := object{"role": "assistant", "content": strings.Repeat("word ", p.AnswerBytes/5)}
	a.whole = completion("chat.completion", []object{{"index": 0, "message": message, "finish_reason": "stop"}}, usage)
	a.role = delta(object{"role": "assistant", "content": ""}, nil)
	a.chunk = delta(object{"content": chunkMark + strings.Repeat("x", max(0, p.ChunkBytes-len(chunkMark)))}, nil)
	a.last = delta(object{"content": lastMark + "%d"}, nil)
	a.finish = delta(object{}, "stop")
	a.usage = event([]object{}, usage)
	return a, errors.Join(errs...)
}

// serveMock serves OpenAI's chat completions on a free port of loopback, which it prints, until its input ends: with
// the process that started it, however that ends. A PUT to /profile ends the streams that there are, and sets how
// requests that arrive later are answered.
func serveMock(stdin io.Reader, stdout io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if _, err := fmt.Fprintln(stdout, l.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: new(mockServer).handler(), ReadHeaderTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, stdin)
		ended <- err
	}()
	select {
	case err = <-failed:
	case err = <-ended:
	}
	return errors.Join(err, server.Close())
}

// A mockServer is the mock as an HTTP handler.
type mockServer struct {
	current atomic.Pointer[answers]
}

func (m *mockServer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("PUT /profile", m.setProfile)
	mux.HandleFunc("POST /v1/chat/completions", m.chat)
	return mux
}

func (m *mockServer) setProfile(w http.ResponseWriter, r *http.Request) {
	var p profile
	err := json.NewDecoder(r.Body).Decode(&p)
	var a *answers
	if err == nil {
		a, err = newAnswers(p)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if old := m.current.Swap(a); old != nil {
		close(old.ended)
	}
}

func (m *mockServer) chat(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	a := m.current.Load()
	if err != nil || a == nil || !gjson.ValidBytes(body) {
		http.Error(w, "not a request that can be answered", http.StatusBadRequest)
		return
	}
	if !wait(r.Context(), a.TTFT) {
		return
	}
	if !gjson.GetBytes(body, "stream").Bool() {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.whole) // an error says that the client has gone, which is its business
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	a.stream(r.Context(), w, gjson.GetBytes(body, "stream_options.include_usage").Bool())
}

// stream writes one event at a time, each flushed, until it is told to end or until the client has gone.
func (a *answers) stream(ctx context.Context, w http.ResponseWriter, usage bool) {
	control := http.NewResponseController(w)
	send := func(event []byte) bool {
		_, err := w.Write(event)
		return err == nil && control.Flush() == nil
	}
	ticker := time.NewTicker(a.Interval)
	defer ticker.Stop()
	open := send(a.role)
	for count := 1; open; count++ {
		open = send(a.chunk)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		case <-a.ended:
			last := fmt.Appendf(nil, string(a.last), count+1)
			last = append(last, a.finish...)
			if usage {
				last = append(last, a.usage...)
			}
			send(append(last, a.done...))
			return
		}
	}
}

// wait waits for d, or returns false as soon as ctx ends.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
