package sdk

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelgate/modelgate/test/cases"
)

const credential = "credential-of-the-vendor"

// A vendor is the server of a provider that speaks Anthropic's dialect. The model that is asked for decides what it
// answers: what a real one once sent, a report of what it was asked, or a failure. Under /recorded/ it is the server
// of other vendors, too, which give recorded answers.
type vendor struct {
	*httptest.Server
	recordings map[string]string
	breaks     chan struct{} // breaks the connection of a fragile stream

	endless   atomic.Int64  // streams without an end, since the last look
	cancelled chan struct{} // receives once for each of them that was given up
}

func newVendor(t *testing.T) *vendor {
	v := &vendor{recordings: map[string]string{}, breaks: make(chan struct{}), cancelled: make(chan struct{}, 1000)}
	for _, name := range []string{"anthropic-text", "anthropic-parallel-tools"} {
		for _, ending := range []string{".json", ".sse"} {
			v.recordings[name+ending] = string(cases.Recording(t, name+ending))
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", v.serve)
	mux.HandleFunc("/recorded/", recorded(t))
	v.Server = httptest.NewServer(mux)
	t.Cleanup(v.Close)
	return v
}

// document configures the vendor as the provider "claude", and those of recorded answers by their own names.
func (v *vendor) document() string {
	text := provider("claude", "anthropic", v.URL+"/v1") + "models: [claude-haiku-4-5, text, tools]\n"
	for _, name := range slices.Sorted(maps.Keys(dialects)) {
		vendor, _, _ := strings.Cut(name, "-")
		text += "---\n" + provider(name, vendor, v.URL+"/recorded/"+name)
	}
	return text
}

func provider(name, vendor, endpoint string) string {
	return fmt.Sprintf("kind: Provider\nname: %s\nvendor: %s\nendpoint: %s\ncredential:\n  value: %s\n", name, vendor,
		endpoint, credential)
}

// waitUntilCancelled waits until every endless stream since the last look was given up: that the client went away must
// reach the vendor. It returns how many there were.
func (v *vendor) waitUntilCancelled(t *testing.T) int64 {
	t.Helper()
	begun := v.endless.Swap(0)
	for range begun {
		select {
		case <-v.cancelled:
		case <-time.After(10 * time.Second):
			t.Fatal("the provider still answers a client that has gone")
		}
	}
	return begun
}

func (v *vendor) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var m messagesRequest
	if err := json.Unmarshal(body, &m); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	if complaint := m.check(r); complaint != "" {
		refuse(w, http.StatusBadRequest, "invalid_request_error", complaint)
		return
	}
	switch m.Model {
	case "text":
		v.replay(w, "anthropic-text", m.Stream)
	case "tools":
		v.replay(w, "anthropic-parallel-tools", m.Stream)
	case "claude-haiku-4-5":
		m.report(w)
	case "slow":
		select {
		case <-time.After(time.Second):
			v.replay(w, "anthropic-text", m.Stream)
		case <-r.Context().Done():
		}
	case "busy":
		w.Header().Set("Retry-After", "7")
		refuse(w, http.StatusTooManyRequests, "rate_limit_error", "This request would exceed your rate limit.")
	case "failing":
		v.begin(w)
		send(w,
			"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n")
	case "truncated":
		v.begin(w)
	case "fragile":
		v.begin(w)
		select {
		case <-v.breaks:
			panic(http.ErrAbortHandler)
		case <-r.Context().Done():
		}
	case "break": // the other one, once the client has seen its text
		select {
		case v.breaks <- struct{}{}:
			m.report(w)
		case <-r.Context().Done():
		}
	case "endless":
		v.endless.Add(1)
		v.begin(w)
		<-r.Context().Done()
		v.cancelled <- struct{}{}
	default:
		refuse(w, http.StatusNotFound, "not_found_error", "model: "+m.Model)
	}
}

// replay answers with a recording.
func (v *vendor) replay(w http.ResponseWriter, name string, stream bool) {
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, v.recordings[name+".json"])
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for piece := range slices.Chunk([]byte(v.recordings[name+".sse"]), 100) {
		send(w, string(piece))
	}
}

// begin begins a stream and sends its first text.
func (v *vendor) begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	recorded := v.recordings["anthropic-text.sse"]
	send(w, recorded[:strings.Index(recorded, "event: content_block_stop")])
}

func send(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, text) // the client has gone, which is what some cases are about
	_ = http.NewResponseController(w).Flush()
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	answer(w, status, map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// messagesRequest is what the vendor reads of a request.
type messagesRequest struct {
	Model     string
	MaxTokens int `json:"max_tokens"`
	Stream    bool
	System    []block
	Messages  []struct {
		Role    string
		Content []block
	}
	Tools        []struct{ Name string }
	OutputConfig struct {
		Format struct {
			Type   string
			Schema struct {
				AdditionalProperties *bool
			}
		}
	} `json:"output_config"`
}

type block struct {
	Type, Text, ID string
	ToolUseID      string `json:"tool_use_id"`
	Content        json.RawMessage
	Source         struct {
		Type      string
		MediaType string `json:"media_type"`
		Data      []byte // base64, as encoding/json reads bytes
	}
}

// check says what the real vendor would refuse the request for, or nothing.
func (m *messagesRequest) check(r *http.Request) string {
	switch {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/messages":
		return "not found: " + r.Method + " " + r.URL.Path
	case r.Header.Get("X-Api-Key") != credential:
		return "invalid x-api-key"
	case r.Header.Get("Authorization") != "":
		return "the client's key reached the vendor"
	case r.Header.Get("Anthropic-Version") == "":
		return "anthropic-version: header is required"
	case m.MaxTokens < 1:
		return "max_tokens: Field required"
	}
	var open []string // ids of the calls of the assistant's last turn
	for i, turn := range m.Messages {
		if want := []string{"user", "assistant"}[i%2]; turn.Role != want {
			return "messages: roles must alternate"
		}
		for _, b := range turn.Content {
			if b.Type == "tool_result" {
				if !slices.Contains(open, b.ToolUseID) {
					return "messages: tool_result without a tool_use before it: " + b.ToolUseID
				}
				open = slices.DeleteFunc(open, func(id string) bool { return id == b.ToolUseID })
			}
		}
		if len(open) > 0 {
			return "messages: tool_use ids were found without tool_result blocks immediately after"
		}
		for _, b := range turn.Content {
			if b.Type == "tool_use" {
				open = append(open, b.ID)
			}
		}
	}
	return ""
}

// report answers with what was asked, as JSON in the text, or with an object of the schema where there is one.
func (m *messagesRequest) report(w http.ResponseWriter) {
	seen := map[string][]string{"system": {}, "turns": {}, "images": {}, "results": {}, "tools": {}}
	add := func(name, value string) { seen[name] = append(seen[name], value) }
	for _, b := range m.System {
		add("system", b.Text)
	}
	for _, turn := range m.Messages {
		add("turns", turn.Role)
		for _, b := range turn.Content {
			switch {
			case b.Type == "image" && b.Source.Type == "base64" && len(b.Source.Data) > 0:
				add("images", b.Source.MediaType)
			case b.Type == "tool_result":
				add("results", b.result())
			}
		}
	}
	for _, tool := range m.Tools {
		add("tools", tool.Name)
	}
	text, _ := json.Marshal(seen) // maps of strings always can be
	if f := m.OutputConfig.Format; f.Type == "json_schema" && f.Schema.AdditionalProperties != nil {
		text = []byte(`{"city":"Paris","days":3,"stops":["Louvre"]}`)
	}
	answer(w, http.StatusOK, map[string]any{
		"id": "msg_report", "type": "message", "role": "assistant", "model": m.Model, "stop_reason": "end_turn",
		"content": []any{map[string]string{"type": "text", "text": string(text)}},
		"usage":   map[string]int{"input_tokens": 1, "output_tokens": 1},
	})
}

// result returns the text of a tool's result.
func (b block) result() string {
	var text string
	if json.Unmarshal(b.Content, &text) == nil {
		return text
	}
	var parts []block
	_ = json.Unmarshal(b.Content, &parts)
	for _, p := range parts {
		text += p.Text
	}
	return text
}
