package kubernetes_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// word is how long the provider takes for one.
const word = 100 * time.Millisecond

// A provider is a vendor of models that speaks OpenAI's dialect, slowly: it says as many words as the message asks
// for, one after another. It is a process of the node, so that nothing of the cluster that is killed takes a stream
// down but the gateway.
type provider struct {
	open atomic.Int64 // streams that it is in the middle of
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	l, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("NODE_IP"), "9200"))
	require.NoError(t, err)
	server := &http.Server{Handler: p, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Close(); <-done })
	return p
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/models" {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"slow","object":"model","created":1,"owned_by":"test"}]}`)
		return
	}
	var request struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	var words int
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) != 1 {
		http.Error(w, "one message is wanted", http.StatusBadRequest)
		return
	}
	if _, err := fmt.Sscan(request.Messages[0].Content, &words); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.open.Add(1)
	defer p.open.Add(-1)
	tick := time.NewTicker(word)
	defer tick.Stop()
	if !request.Stream {
		for range words {
			<-tick.C
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w,
			`{"id":"c1","object":"chat.completion","created":1,"model":"slow","choices":[{"index":0,"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta, finish string) {
		fmt.Fprintf(w,
			"data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"slow\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
		w.(http.Flusher).Flush()
	}
	chunk(`{"role":"assistant","content":""}`, "null")
	for i := range words {
		chunk(fmt.Sprintf(`{"content":"%d "}`, i), "null")
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
	chunk("{}", `"stop"`)
	fmt.Fprint(w, "data: [DONE]\n\n")
}
