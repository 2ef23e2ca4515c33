package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the script says.
const (
	spoken       = "from-the-tool"
	promptTokens = 100
	answerTokens = 10
)

// A scripted provider speaks OpenAI's dialect. If tools are offered, it calls the shell, and then repeats the result.
type scripted struct {
	*httptest.Server
	shell, parameter string // the agent's tool, and its parameter for the command

	mu    sync.Mutex
	asked []request
}

type request struct {
	Model    string
	Stream   bool
	Messages []struct {
		Role    string
		Content any
	}
	Tools []struct {
		Function struct{ Name string }
	}
}

// result returns the result of the last call, or "".
func (r request) result() string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "tool" {
			text, _ := m.Content.(string)
			return strings.TrimSpace(text)
		}
	}
	return ""
}

func newScripted(t *testing.T, shell, parameter string) *scripted {
	s := &scripted{shell: shell, parameter: parameter}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// requireResult checks that the result of the tool reached the provider, in its own dialect.
func (s *scripted) requireResult(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.True(t, slices.ContainsFunc(s.asked, func(r request) bool { return strings.Contains(r.result(), spoken) }))
}

// ServeHTTP implements http.Handler.
func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked request
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || !asked.Stream {
		http.Error(w, `{"error":{"message":"the script has only streams"}}`, http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, asked)
	tooMany := len(s.asked) > 10
	s.mu.Unlock()
	if tooMany {
		http.Error(w, `{"error":{"message":"the script has ended"}}`, http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	finish := "stop"
	switch result := asked.result(); {
	case result != "":
		delta(w, `{"role":"assistant","content":""}`, "null")
		delta(w, `{"content":"The tool said: "}`, "null")
		delta(w, fmt.Sprintf(`{"content":%q}`, result), "null")
	case len(asked.Tools) > 0:
		finish = "tool_calls"
		call := fmt.Sprintf(`{"index":0,"id":"call_1","type":"function","function":{"name":%q,"arguments":""}}`, s.shell)
		delta(w, `{"role":"assistant","content":null,"tool_calls":[`+call+`]}`, "null")
		delta(w, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"`+s.parameter+`\": \"echo `+spoken+`\","}}]}`, "null")
		delta(w, `{"tool_calls":[{"index":0,"function":{"arguments":" \"description\": \"Says it\"}"}}]}`, "null")
	default:
		delta(w, `{"role":"assistant","content":"A title"}`, "null")
	}
	delta(w, "{}", `"`+finish+`"`)
	fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt\",\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n",
		promptTokens, answerTokens, promptTokens+answerTokens)
}

func delta(w http.ResponseWriter, of, finish string) {
	fmt.Fprintf(w, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"gpt\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", of, finish)
}
