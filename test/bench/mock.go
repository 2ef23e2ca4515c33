package main

import (
	"bytes"
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

// Every streamed text begins with chunkMark and, in sentDigits digits, the microseconds since 1970 at which it was
// sent, so that the load generator can count and time the chunks whoever rewrote them. The last one is lastMark and
// the number of chunks, itself among them.
const (
	chunkMark  = "@"
	sentDigits = 16
	lastMark   = "@="
)

// answers are a profile in bytes: the mock computes nothing while it is used but when a chunk is sent.
type answers struct {
	profile
	ended    chan struct{} // closed when the streams are to end
	openai   answer
	messages answer
}

// An answer is what the mock says in one dialect.
type answer struct {
	whole  []byte
	begin  []byte // the events of a stream, in order
	chunk  []byte
	sentAt int    // where the digits stand in chunk
	last   []byte // with %d for the number
	finish []byte
	usage  []byte // where it was asked for
	done   []byte
}

type object = map[string]any

func newAnswers(p profile) (*answers, error) {
	if p.Interval <= 0 {
		return nil, errors.New("the interval between chunks must be positive")
	}
	text := strings.Repeat("word ", p.AnswerBytes/5)
	zeros := chunkMark + strings.Repeat("0", sentDigits)
	chunk := zeros + strings.Repeat("x", max(0, p.ChunkBytes-len(zeros)))
	a := &answers{profile: p, ended: make(chan struct{}), openai: openaiAnswer(text, chunk),
		messages: messagesAnswer(text, chunk)}
	for _, d := range []*answer{&a.openai, &a.messages} {
		d.sentAt = bytes.Index(d.chunk, []byte(zeros)) + len(chunkMark)
	}
	return a, nil
}

// openaiAnswer is in the form of OpenAI's chat completions.
func openaiAnswer(text, chunk string) answer {
	completion := func(kind string, choices []object, usage any) []byte {
		return encode(object{"id": "chatcmpl-bench", "object": kind, "created": 1_700_000_000, "model": "mock",
			"choices": choices, "usage": usage})
	}
	event := func(choices []object, usage any) []byte {
		return fmt.Appendf(nil, "data: %s\n\n", completion("chat.completion.chunk", choices, usage))
	}
	delta := func(d object, finish any) []byte {
		return event([]object{{"index": 0, "delta": d, "finish_reason": finish}}, nil)
	}
	usage := object{"prompt_tokens": 50, "completion_tokens": 50, "total_tokens": 100}
	message := object{"role": "assistant", "content": text}
	return answer{
		whole: completion("chat.completion",
			[]object{{"index": 0, "message": message, "finish_reason": "stop"}}, usage),
		begin:  delta(object{"role": "assistant", "content": ""}, nil),
		chunk:  delta(object{"content": chunk}, nil),
		last:   delta(object{"content": lastMark + "%d"}, nil),
		finish: delta(object{}, "stop"),
		usage:  event([]object{}, usage),
		done:   []byte("data: [DONE]\n\n"),
	}
}

// messagesAnswer is in the form of Anthropic's Messages.
func messagesAnswer(text, chunk string) answer {
	event := func(kind string, members object) []byte {
		members["type"] = kind
		return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", kind, encode(members))
	}
	delta := func(text string) []byte {
		return event("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": text}})
	}
	message := func(content []object, stop any) object {
		return object{"id": "msg_bench", "type": "message", "role": "assistant", "model": "mock", "content": content,
			"stop_reason": stop, "usage": object{"input_tokens": 50, "output_tokens": 50}}
	}
	begin := event("message_start", object{"message": message([]object{}, nil)})
	finish := event("content_block_stop", object{"index": 0})
	finish = append(finish, event("message_delta",
		object{"delta": object{"stop_reason": "end_turn"}, "usage": object{"output_tokens": 50}})...)
	return answer{
		whole: encode(message([]object{{"type": "text", "text": text}}, "end_turn")),
		begin: append(begin, event("content_block_start",
			object{"index": 0, "content_block": object{"type": "text", "text": ""}})...),
		chunk:  delta(chunk),
		last:   delta(lastMark + "%d"),
		finish: append(finish, event("message_stop", object{})...),
	}
}

func encode(v object) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // it holds nothing that cannot be encoded
	}
	return b
}

// serveMock serves OpenAI's chat completions and Anthropic's Messages on a free port of loopback, which it prints,
// until its input ends: with the process that started it, however that ends. A PUT to /profile ends the streams that
// are open, and sets how requests that arrive later are answered.
func serveMock(stdin io.Reader, stdout io.Writer) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	if _, err := fmt.Fprintln(stdout, l.Addr()); err != nil {
		return err
	}
	server := &http.Server{Handler: new(mockServer).handler(), ReadHeaderTimeout: time.Minute}
	return serveUntil(stdin, server, func() error { return server.Serve(l) })
}

// serveUntil serves until the input ends, and then closes the server with its connections.
func serveUntil(stdin io.Reader, server *http.Server, serve func() error) (err error) {
	failed := make(chan error, 1)
	go func() { failed <- serve() }()
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
	mux.HandleFunc("POST /v1/chat/completions", m.answer(func(a *answers) *answer { return &a.openai }))
	messages := m.answer(func(a *answers) *answer { return &a.messages })
	mux.HandleFunc("POST /v1/messages", messages)
	mux.HandleFunc("POST /v1/projects/", messages) // Google's Vertex AI: a publisher's models speak as they do at home
	mux.HandleFunc("POST /token", token)
	return mux
}

// token answers as Google does where an account asks for a token, which Vertex AI wants.
func token(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(encode(object{"access_token": "bench", "token_type": "Bearer", "expires_in": 86_400})) // as below
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

// answer returns the handler of one dialect.
func (m *mockServer) answer(in func(*answers) *answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
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
			_, _ = w.Write(in(a).whole) // an error says that the client has gone, which is its business
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		a.stream(r.Context(), w, in(a), gjson.GetBytes(body, "stream_options.include_usage").Bool())
	}
}

// stream writes one event at a time, each flushed, until it is told to end or until the client has gone.
func (a *answers) stream(ctx context.Context, w http.ResponseWriter, in *answer, usage bool) {
	control := http.NewResponseController(w)
	send := func(event []byte) bool {
		_, err := w.Write(event)
		return err == nil && control.Flush() == nil
	}
	ticker := time.NewTicker(a.Interval)
	defer ticker.Stop()
	chunk := bytes.Clone(in.chunk)
	open := send(in.begin)
	for count := 1; open; count++ {
		copy(chunk[in.sentAt:], fmt.Sprintf("%0*d", sentDigits, time.Now().UnixMicro()))
		open = send(chunk)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		case <-a.ended:
			last := fmt.Appendf(nil, string(in.last), count+1)
			last = append(last, in.finish...)
			if usage {
				last = append(last, in.usage...)
			}
			send(append(last, in.done...))
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
