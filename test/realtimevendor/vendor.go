// Package realtimevendor plays a vendor of the Realtime API: it replays events of OpenAI's reference. What it does
// besides follows from the model and from what the client sends.
//
// Its WebSocket is another implementation than the gateway's.
package realtimevendor

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// Events. They are the examples of OpenAI's reference of the Realtime API
// (https://platform.openai.com/docs/api-reference/realtime-server-events), without line breaks. The usage of the
// response has other cached tokens, of which the example has more than tokens.
const (
	Created     = `{"type":"session.created","event_id":"event_C9G5RJeJ2gF77mV7f2B1j","session":{"object":"realtime.session","type":"realtime","id":"sess_C9G5QPteg4UIbotdKLoYQ","model":"gpt-realtime-2025-08-28","output_modalities":["audio"],"instructions":"Be nice.","tools":[],"tool_choice":"auto","max_output_tokens":"inf","tracing":null,"prompt":null,"expires_at":1756324625,"audio":{"input":{"format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"gpt-4o-transcribe"},"noise_reduction":null,"turn_detection":{"type":"server_vad"}},"output":{"format":{"type":"audio/pcm","rate":24000},"voice":"marin","speed":1}},"include":null}}`
	Begun       = `{"type":"response.created","event_id":"event_C9G8pqbTEddBSIxbBN6Os","response":{"object":"realtime.response","id":"resp_C9G8p7IH2WxLbkgPNouYL","status":"in_progress","status_details":null,"output":[],"conversation_id":"conv_C9G8mmBkLhQJwCon3hoJN","output_modalities":["audio"],"usage":null,"metadata":null}}`
	Text        = `{"event_id":"event_4142","type":"response.output_text.delta","response_id":"resp_001","item_id":"msg_007","output_index":0,"content_index":0,"delta":"Sure, I can h"}`
	Audio       = `{"event_id":"event_4950","type":"response.output_audio.delta","response_id":"resp_001","item_id":"msg_008","output_index":0,"content_index":0,"delta":"AUDIO"}`
	Done        = `{"event_id":"event_3132","type":"response.done","response":{"id":"resp_001","object":"realtime.response","status":"completed","status_details":null,"output":[{"id":"msg_006","object":"realtime.item","type":"message","status":"completed","role":"assistant","content":[{"type":"text","text":"Sure, how can I assist you today?"}]}],"usage":{"total_tokens":275,"input_tokens":127,"output_tokens":148,"input_token_details":{"cached_tokens":64,"text_tokens":119,"audio_tokens":8,"cached_tokens_details":{"text_tokens":61,"audio_tokens":3}},"output_token_details":{"text_tokens":36,"audio_tokens":112}}}}`
	Transcribed = `{"type":"conversation.item.input_audio_transcription.completed","event_id":"event_CCXGRvtUVrax5SJAnNOWZ","item_id":"item_CCXGQ4e1ht4cOraEYcuR2","content_index":0,"transcript":"Hey, can you hear me?","usage":{"type":"tokens","total_tokens":22,"input_tokens":13,"input_token_details":{"text_tokens":0,"audio_tokens":13},"output_tokens":9}}`
	Error       = `{"event_id":"event_890","type":"error","error":{"type":"invalid_request_error","code":"invalid_event","message":"The 'type' field is missing.","param":null,"event_id":"event_567"}}`
)

// A Vendor serves the Realtime API as OpenAI does: it replays events, by the model and what the client sends.
type Vendor struct {
	*httptest.Server

	// Ended receives how each session ended, as the vendor sees it.
	Ended chan error

	mu    sync.Mutex // guards asked
	asked []*http.Request
}

// New starts a vendor, which the test stops.
func New(t testing.TB) *Vendor {
	v := &Vendor{Ended: make(chan error, 100)}
	v.Server = httptest.NewServer(v)
	t.Cleanup(v.Close)
	return v
}

// Last returns the last handshake.
func (v *Vendor) Last() *http.Request {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[len(v.asked)-1]
}

// ServeHTTP serves a session. Some models are refused.
func (v *Vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	v.asked = append(v.asked, r)
	v.mu.Unlock()
	model := r.URL.Query().Get("model") + r.URL.Query().Get("deployment")
	w.Header().Set("X-Request-Id", "req_vendor")
	switch model {
	case "busy":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"error":{"message":"The server is overloaded.","type":"server_error","code":"overloaded"}}`))
		return
	case "unknown":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":{"message":"The model does not exist.","type":"invalid_request_error","code":"model_not_found"}}`))
		return
	case "plain":
		_, _ = w.Write([]byte("hello"))
		return
	}
	up := websocket.Upgrader{Subprotocols: []string{"realtime"}, EnableCompression: true,
		CheckOrigin: func(*http.Request) bool { return true }}
	c, err := up.Upgrade(w, r, http.Header{"Set-Cookie": {"__cf=1"}, "Openai-Organization": {"ours"}})
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	v.Ended <- v.serve(c, model)
}

// serve answers the client's events.
func (v *Vendor) serve(c *websocket.Conn, model string) error {
	if err := send(c, Created); err != nil {
		return err
	}
	for {
		_, b, err := c.ReadMessage()
		if err != nil {
			return err
		}
		var event struct{ Type string }
		_ = json.Unmarshal(b, &event)
		switch event.Type {
		case "response.create":
			if err := v.respond(c, model); err != nil {
				return err
			}
		case "input_audio_buffer.commit":
			err = send(c, Transcribed)
		case "input_audio_buffer.append": // as in a conversation by voice, there is no answer
		case "quit": // the client's close frame ends the loop
			err = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""),
				time.Now().Add(time.Second))
		case "expire":
			err = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(4000, "session_expired"),
				time.Now().Add(time.Second))
		case "break":
			return c.NetConn().Close()
		default:
			err = send(c, Error)
		}
		if err != nil {
			return err
		}
	}
}

// respond sends a response. That of the model "endless" has no end.
func (v *Vendor) respond(c *websocket.Conn, model string) error {
	events := []string{Begun, Text, strings.Replace(Audio, "AUDIO", strings.Repeat("A", 8000), 1)}
	switch model {
	case "endless":
	case "large":
		events = append(events, strings.Replace(Audio, "AUDIO", strings.Repeat("A", 3<<20), 1),
			strings.Replace(Done, "Sure,", strings.Repeat("Sure, ", 300_000), 1))
	default:
		events = append(events, Done)
	}
	return send(c, events...)
}

func send(c *websocket.Conn, events ...string) error {
	for _, e := range events {
		w, err := c.NextWriter(websocket.TextMessage)
		if err != nil {
			return err
		}
		for len(e) > 0 { // in fragments, where it is longer than the buffer of the connection
			n := min(len(e), 10_000)
			if _, err := w.Write([]byte(e[:n])); err != nil {
				return err
			}
			e = e[n:]
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}
