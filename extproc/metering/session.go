package metering

import (
	"strings"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/tokens"
	"github.com/modelgate/modelgate/internal/websocket"
)

// A Charge is what a provider bills for a part of a session: a response, or the transcription of what the user said.
type Charge struct {
	Used      openai.Usage
	Estimated bool
	Failed    bool // the response failed
	// Transcription means that another model has transcribed the user's audio, and Model is its name, if it is known.
	Transcription bool
	Model         string
}

// A SessionWatch reads the events of a session of the Realtime API from the frames of its provider
// (https://platform.openai.com/docs/api-reference/realtime-server-events), which arrive in pieces that are cut
// anywhere. It stores only what is recorded: an event may have any size. The zero value is ready for use.
type SessionWatch struct {
	frames websocket.Reader
	scan   scanner
	skips  bool  // the rest of the message is of no interest
	size   int64 // of the message so far, in bytes

	boundary int    // see Boundary
	close    []byte // the payload of the close frame so far
	closed   bool

	model       string // of the session
	transcriber string // the model that transcribes
	failure     string // the last error that the provider reports, as JSON

	open        bool  // a response has begun and not ended
	context     int64 // tokens of the conversation, as the last response reports them
	text, audio int64 // bytes of the open response
}

// What is estimated of a response that has not reported its usage. An event has about 250 bytes besides its delta. A
// token of audio is 50 ms (https://platform.openai.com/docs/guides/realtime-costs), which are 2,400 bytes of PCM with
// 24 kHz and 16 bits, or 3,200 in base64.
const (
	deltaEnvelope = 250
	audioToken    = 3200
)

// Feed reads a piece, and returns what was billed by the events that end in it. The error is websocket.ErrProtocol.
func (w *SessionWatch) Feed(piece []byte) (charges []Charge, err error) {
	rest := piece
	for w.boundary = -1; ; {
		part, after, ok, err := w.frames.Next(rest)
		if !ok || err != nil {
			return charges, err
		}
		rest = after
		if w.frames.AtBoundary() {
			w.boundary = len(piece) - len(rest)
		}
		switch {
		case part.Opcode == websocket.Close:
			w.close, w.closed = append(w.close, part.Payload...), part.Ends
		case !part.Opcode.IsControl():
			if c, billed := w.message(part); billed {
				charges = append(charges, c)
			}
		}
	}
}

// Boundary returns the length of the part of the last piece that ends with a complete frame, or -1 if there is none.
func (w *SessionWatch) Boundary() int { return w.boundary }

// AtBoundary reports whether all frames so far are complete, so that another frame may follow.
func (w *SessionWatch) AtBoundary() bool { return w.frames.AtBoundary() }

// Closed returns the status with which the provider has closed the session, and whether it has.
func (w *SessionWatch) Closed() (status uint16, ok bool) {
	return websocket.CloseStatus(w.close), w.closed
}

// Model returns the provider's name of the session's model, or "" before the session has begun.
func (w *SessionWatch) Model() string { return w.model }

// Failure returns the last error that the provider has reported, as JSON, or "".
func (w *SessionWatch) Failure() string { return w.failure }

// Rest returns an estimate of a response that has begun and not ended.
func (w *SessionWatch) Rest() (c Charge, ok bool) {
	if !w.open {
		return Charge{}, false
	}
	c = Charge{Used: w.estimate(), Estimated: true}
	w.open, w.text, w.audio = false, 0, 0
	return c, true
}

// estimate returns the usage of the open response: the conversation so far, and the length of what has arrived.
func (w *SessionWatch) estimate() openai.Usage {
	audio := w.audio / audioToken
	u := openai.Usage{PromptTokens: w.context, CompletionTokens: tokens.Estimate(int(w.text)) + audio,
		CompletionAudio: audio}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// message reads a part of a message.
func (w *SessionWatch) message(part websocket.Part) (c Charge, billed bool) {
	if part.Begins {
		w.scan = scanner{name: w.scan.name, keep: w.scan.keep[:0]}
		w.skips, w.size = part.Opcode != websocket.Text, 0
	}
	w.size += int64(len(part.Payload))
	if !w.skips {
		w.scan.feed(part.Payload)
		w.skips = !part.Ends && isDelta(w.scan.typ())
	}
	if !part.Ends || part.Opcode != websocket.Text {
		return Charge{}, false
	}
	return w.event(w.scan.typ())
}

// typ returns the value of the member type.
func (s *scanner) typ() string { return strings.Trim(s.found[memberType], `"`) }

// isDelta reports whether events of a type have a part of an answer, and nothing else of interest.
func isDelta(typ string) bool {
	return strings.HasPrefix(typ, "response.") && strings.HasSuffix(typ, ".delta")
}

// event reads a complete event.
func (w *SessionWatch) event(typ string) (c Charge, billed bool) {
	switch typ {
	case "session.created", "session.updated":
		w.model, w.transcriber = w.scan.model(), strings.Trim(w.scan.found[memberTranscriber], `"`)
	case "error":
		w.failure = w.scan.found[memberError]
	case "response.created":
		w.open, w.text, w.audio = true, 0, 0
	case "response.done":
		return w.done(), true
	case "conversation.item.input_audio_transcription.completed":
		return Charge{Used: realtimeUsage(w.scan.found[memberUsage]), Transcription: true, Model: w.transcriber}, true
	default:
		w.delta(typ)
	}
	return Charge{}, false
}

// delta counts the length of a part of an answer.
func (w *SessionWatch) delta(typ string) {
	if !isDelta(typ) {
		return
	}
	if n := max(0, w.size-deltaEnvelope); typ == "response.output_audio.delta" || typ == "response.audio.delta" {
		w.audio += n
	} else {
		w.text += n
	}
}

// done reads the end of a response. If it does not report usage that can be read, the usage is estimated.
func (w *SessionWatch) done() Charge {
	c := Charge{Used: realtimeUsage(w.scan.found[memberResponseUsage]), Failed: w.scan.found[memberStatus] == `"failed"`}
	if c.Used.IsZero() && (w.text > 0 || w.audio > 0) {
		c.Used, c.Estimated = w.estimate(), true
	}
	w.open, w.text, w.audio = false, 0, 0
	if c.Used.TotalTokens > 0 {
		w.context = c.Used.TotalTokens
	}
	return c
}

// realtimeUsage reads the usage of a response. PromptAudio is the audio that was not cached: cached audio has the
// price of cached text, and every token has one price.
func realtimeUsage(text string) openai.Usage {
	if text == "" {
		return openai.Usage{}
	}
	root := gjson.Parse(text)
	count := func(path string) int64 { return openai.Count(root.Get(path).Int()) }
	u := openai.Usage{
		PromptTokens:     count("input_tokens"),
		CompletionTokens: count("output_tokens"),
		TotalTokens:      count("total_tokens"),
		CachedTokens:     count("input_token_details.cached_tokens"),
		CompletionAudio:  count("output_token_details.audio_tokens"),
	}
	u.PromptAudio = max(0, count("input_token_details.audio_tokens")-
		count("input_token_details.cached_tokens_details.audio_tokens"))
	return u
}
