package seen

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// spoken is what a stream says that does not end well, a word at a time.
const spoken = " international infrastructure accounts reconcile exactly"

// Vendors are all providers but the one that nobody listens for, each below a path of its name. What they report is
// what the prompt tells them to.
type vendors struct {
	// tired is whether that provider refuses.
	tired atomic.Bool

	mu    sync.Mutex // guards asked and first
	asked map[string]int64
	first map[string]time.Time // when each was asked first
	heard sync.Map             // channels by prompt: closed when the client has read all that was said
}

// An order is what a prompt tells a vendor to report.
type order struct {
	Number int   `json:"n"` // so that no two are the same
	Input  int64 `json:"in"`
	Cached int64 `json:"cached"`
	Output int64 `json:"out"`
}

func (v *vendors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	provider, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	var asked struct {
		Model    string
		Stream   bool
		Messages []struct{ Content string }
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	v.mu.Lock()
	if v.asked[provider]++; v.asked[provider] == 1 {
		v.first[provider] = time.Now()
	}
	v.mu.Unlock()
	var o order
	if json.Unmarshal(body, &asked) != nil || len(asked.Messages) != 1 ||
		json.Unmarshal([]byte(asked.Messages[0].Content), &o) != nil {
		http.Error(w, "no order", http.StatusTeapot) // which no case expects
		return
	}
	switch {
	case provider == "broken":
		w.WriteHeader(http.StatusInternalServerError)
	case provider == "tired" && v.tired.Load():
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusTooManyRequests)
	case asked.Model == "reject":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"No.","type":"invalid_request_error","code":"impossible"}}`)
	case provider == "faulty":
		v.fail(w, r, asked.Model, asked.Messages[0].Content)
	case asked.Stream:
		stream(w, o)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":%s}`, asked.Model, o.usage())
	}
}

func (o order) usage() string {
	return fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
		`"prompt_tokens_details":{"cached_tokens":%d}}`, o.Input, o.Output, o.Input+o.Output, o.Cached)
}

func chunk(w http.ResponseWriter, delta, finish string) {
	_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",`+
		`"choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
	_ = http.NewResponseController(w).Flush()
}

func stream(w http.ResponseWriter, o order) {
	w.Header().Set("Content-Type", "text/event-stream")
	chunk(w, `{"role":"assistant","content":"yes"}`, "null")
	chunk(w, `{}`, `"stop"`)
	_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",`+
		`"choices":[],"usage":%s}`+"\n\ndata: [DONE]\n\n", o.usage())
}

// fail answers with a stream that does not end well, once the client has read what was said.
func (v *vendors) fail(w http.ResponseWriter, r *http.Request, model, prompt string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, word := range strings.Fields(spoken) {
		chunk(w, fmt.Sprintf(`{"content":%q}`, " "+word), "null")
	}
	heard, ok := v.heard.Load(prompt)
	if !ok {
		return
	}
	select {
	case <-heard.(chan struct{}):
	case <-r.Context().Done():
		return
	}
	switch model {
	case "cut":
		panic(http.ErrAbortHandler)
	case "left":
		<-r.Context().Done()
	default:
		_, _ = io.WriteString(w, `data: {"error":{"message":"Too many.","type":"server_error","code":"overloaded"}}`+"\n\n")
	}
}

func (v *vendors) count(provider string) int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[provider]
}
