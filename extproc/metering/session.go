package metering

import (
	"cmp"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/limit"
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
	// Sent is how many bytes that the client has sent are a token of the prompt, for the rest of a session, and Known how
	// many of these tokens are charged already.
	Sent, Known int64
}

// A Rest is the record of the last response of a session, which has not reported its usage. Its prompt is known when
// Envoy tells how much the client has sent.
type Rest struct {
	Record
	Charge Charge
	Price  Price
	Held   Hold // for the response
}

// Sent completes the record, for a client that has sent a number of bytes.
func (r *Rest) Sent(bytes int64) *Record {
	u := r.Charge.Used
	if most := bytes/max(r.Charge.Sent, 1) - r.Charge.Known; most > u.PromptTokens {
		if r.Charge.Sent > audioToken {
			u.PromptAudio = most - u.PromptTokens
		}
		u.PromptTokens = most
	}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	r.Usage = u
	r.SetCost(r.Price, nil, "", &Tally{})
	r.Settled = r.Uses()
	r.Held.Settle(r.Settled)
	return &r.Record
}

// Uses returns what the record of a part of a session counts under limits.
func (r *Record) Uses() limit.Amounts {
	u := &r.Usage
	return limit.Amounts{limit.InputTokens: u.PromptTokens, limit.OutputTokens: u.CompletionTokens,
		limit.Tokens: max(u.TotalTokens, u.PromptTokens+u.CompletionTokens), limit.Cost: int64(r.Cost)}
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
	kept        string // the first member that refers to what the provider keeps

	open        int64 // responses that have begun and not ended
	context     int64 // tokens of the conversation, as the last response reports them
	setup       int64 // tokens of the session's instructions and tools, at most
	added       int64 // tokens of the items that were added since the last response, at most
	deltas      int64 // of text of the open responses
	text, audio int64 // bytes of the open responses

	told    bool // the provider reports the items that it gets
	heard   bool // it gets sound
	unknown bool // a response has ended whose prompt nobody has reported
}

// What is estimated of a response that has not reported its usage. An event has about 250 bytes besides its delta or
// item, and a session 600 besides its instructions. A token of the answer's audio is 50 ms
// (https://platform.openai.com/docs/guides/realtime-costs), which are 2,400 bytes of PCM with 24 kHz and 16 bits, or
// 3,200 in base64. A token of the user's audio is twice as long.
const (
	deltaEnvelope   = 250
	sessionEnvelope = 600
	audioToken      = 3200
	perItem         = 4 // tokens that frame an item
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

// Kept returns the first member of the session or of an item of the client that refers to what the provider keeps, or
// "".
func (w *SessionWatch) Kept() string { return w.kept }

// Open reports whether a response has begun and not ended, and returns what is charged for its prompt at least.
func (w *SessionWatch) Open() (prompt int64, ok bool) { return w.prompt(), w.open > 0 }

// Expects returns the usage for which room is needed: of the responses under way, and a little more than they have
// said, or of the next one. What is not said yet may be sound.
func (w *SessionWatch) Expects() openai.Usage {
	open := max(w.open, 1)
	u := w.estimate(open)
	silent := max(open*DefaultOutput, (u.CompletionTokens/DefaultOutput+1)*DefaultOutput) - u.CompletionTokens
	u.CompletionTokens, u.CompletionAudio = u.CompletionTokens+silent, u.CompletionAudio+silent
	return u
}

// prompt returns the tokens of the conversation as far as they are known.
func (w *SessionWatch) prompt() int64 { return max(w.context, w.setup) + w.added }

// Rest returns an estimate of the responses that have begun and not ended, or of one whose prompt is not known.
func (w *SessionWatch) Rest() (c Charge, ok bool) {
	switch {
	case w.open > 0:
		c = Charge{Used: w.estimate(w.open), Estimated: true}
	case w.unknown:
		c = Charge{Estimated: true, Known: w.context}
	default:
		return Charge{}, false
	}
	if c.Sent = 4; w.heard || w.told {
		c.Sent = 2 * audioToken
	}
	w.open, w.unknown = 0, false
	return c, true
}

// estimate returns the usage of open responses: the conversation so far for each, and what has arrived.
func (w *SessionWatch) estimate(open int64) openai.Usage {
	audio := w.audio / audioToken
	said := max(tokens.Estimate(int(w.text)), w.deltas)
	u := openai.Usage{PromptTokens: open * w.prompt(), CompletionTokens: said + audio, CompletionAudio: audio}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

// message reads a part of a message.
func (w *SessionWatch) message(part websocket.Part) (c Charge, billed bool) {
	if part.Begins {
		w.scan = scanner{name: w.scan.name, keep: w.scan.keep[:0], delta: -1}
		w.skips, w.size = part.Opcode != websocket.Text, 0
	}
	w.size += int64(len(part.Payload))
	if !w.skips {
		w.scan.feed(part.Payload)
		w.skips = !part.Ends && isSound(w.scan.typ())
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

func isSound(typ string) bool {
	return typ == "response.output_audio.delta" || typ == "response.audio.delta"
}

// event reads a complete event.
func (w *SessionWatch) event(typ string) (c Charge, billed bool) {
	switch typ {
	case "session.created", "session.updated":
		w.model, w.transcriber = w.scan.model(), strings.Trim(w.scan.found[memberTranscriber], `"`)
		w.kept = cmp.Or(w.kept, w.scan.kept)
		w.setup = tokens.Estimate(int(max(0, w.size-sessionEnvelope)))
	case "error":
		w.failure = w.scan.found[memberError]
	case "response.created":
		if w.open++; w.open == 1 {
			w.deltas, w.text, w.audio = 0, 0, 0
		}
	case "conversation.item.created", "conversation.item.added":
		w.told = true
		if w.scan.found[memberRole] != `"assistant"` {
			w.kept = cmp.Or(w.kept, w.scan.kept)
			w.added += perItem + tokens.Estimate(int(max(0, w.size-deltaEnvelope)))
		}
	case "input_audio_buffer.committed", "input_audio_buffer.speech_started":
		w.heard = true
	case "response.done":
		return w.done(), true
	case "conversation.item.input_audio_transcription.completed":
		return Charge{Used: w.scan.reported(), Transcription: true, Model: w.transcriber}, true
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
	n := w.scan.delta
	if n < 0 { // not all of it was read
		n = max(0, w.size-deltaEnvelope)
	}
	if isSound(typ) {
		w.audio += n
		return
	}
	w.deltas++
	w.text += n
}

// done reads the end of a response. If it does not report usage that can be read, the usage is estimated. A response
// that has failed before any output costs nothing.
func (w *SessionWatch) done() Charge {
	c := Charge{Used: w.scan.reported(), Failed: w.scan.found[memberStatus] == `"failed"`}
	if c.Used.IsZero() && (w.text > 0 || w.audio > 0 || w.open > 0 && !c.Failed) {
		c.Used, c.Estimated = w.estimate(1), true
		w.unknown = w.unknown || !w.told
	}
	said := c.Used.CompletionTokens // the rest is of other responses that are open
	w.open, w.deltas, w.text = max(0, w.open-1), max(0, w.deltas-said), max(0, w.text-4*said)
	if w.audio = max(0, w.audio-said*audioToken); w.open == 0 {
		w.deltas, w.text, w.audio = 0, 0, 0
	}
	if c.Used.TotalTokens > 0 {
		w.context, w.added = c.Used.TotalTokens, 0
	}
	return c
}
