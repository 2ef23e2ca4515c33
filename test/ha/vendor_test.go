package ha

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/modelgate/modelgate/test/cases"
)

// What the vendor's answers use, and how long they take.
const (
	promptTokens = 7
	answerTokens = 2
	pieces       = 30 // of a stream, each a token
	pieceEvery   = 50 * time.Millisecond
	answerAfter  = 10 * time.Millisecond
	lineAfter    = 60 * time.Millisecond // of the model "line"
)

// newVendor is a provider that never fails. It answers slowly enough for something to happen in the meantime.
func newVendor(t testing.TB) string {
	return cases.NewProvider(t, serveVendor).URL + "/v1"
}

func serveVendor(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	body, err := io.ReadAll(r.Body)
	if err != nil || json.Unmarshal(body, &asked) != nil {
		http.Error(w, "what is this?", http.StatusBadRequest)
		return
	}
	pause := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-r.Context().Done():
			return false
		}
	}
	if !asked.Stream {
		after := answerAfter
		if asked.Model == "line" {
			after = lineAfter
		}
		if pause(after) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w,
				`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":%q,"choices":[{"index":0,"message":{"role":"assistant","content":"yes, indeed"},"finish_reason":"stop"}],`+
					`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`, asked.Model, promptTokens, answerTokens,
				promptTokens+answerTokens)
		}
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(rest string) {
		_, _ = fmt.Fprintf(w, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":%q,%s}`+"\n\n",
			asked.Model, rest)
		_ = http.NewResponseController(w).Flush()
	}
	for range pieces {
		if !pause(pieceEvery) {
			return
		}
		chunk(`"choices":[{"index":0,"delta":{"content":"more "},"finish_reason":null}]`)
	}
	chunk(`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]`)
	chunk(fmt.Sprintf(`"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}`, promptTokens,
		pieces, promptTokens+pieces))
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
