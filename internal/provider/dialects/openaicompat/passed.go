package openaicompat

import (
	"bytes"
	"fmt"

	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/sse"
)

// passed keeps the bytes of a stream that passes as it came, until it is known what they are: an event may have to
// lose what only the gateway asked for, or to name the model as the client does. Nothing passes before the first chunk
// does, for what comes in its place may be an error, which then can be the answer's.
type passed struct {
	raw   []byte // raw[from:] is kept
	from  int
	next  int // in raw, behind the event at hand
	apart int // in raw, up to where no blank line was found
	begun bool
	patch patch
	model string            // JSON: the client's name of the model
	lists map[int]heldLists // by choice, until it ends
	ended uint64            // a bit for each choice that has, of the first 64
}

// maxKept bounds what a stream that is silent holds on to.
const maxKept = 16 << 10

func (p *passed) feed(piece []byte) {
	if p.from > 0 {
		p.apart = max(0, p.apart-p.from)
		p.raw, p.from = append(p.raw[:0], p.raw[p.from:]...), 0
	}
	p.raw = append(p.raw, piece...)
}

// take returns the event that has just been read. Comments that stand alone before it are passed on. If nothing has
// passed yet, they are a part of it. It is valid until the next feed. Pending is the number of bytes after it.
func (p *passed) take(pending int, out chat.Sink) []byte {
	if len(p.raw) == 0 { // the stream does not pass as it came
		return nil
	}
	p.next = len(p.raw) - pending
	raw := p.raw[p.from:p.next]
	if p.begun {
		n := apart(bytes.TrimRight(raw, "\r\n"), 0)
		p.comment(out, raw[:n])
		raw = raw[n:]
	}
	return raw
}

// comment passes on what says nothing.
func (p *passed) comment(out chat.Sink, raw []byte) {
	if len(raw) > 0 {
		out.Put(chat.Event{Kind: chat.KindComment, JSON: raw})
	}
}

// taken notes that the event at hand has been passed on.
func (p *passed) taken() { p.begun, p.from = true, p.next }

// idle passes comments on that stand alone, which keep connections alive, once there is no event to read.
func (p *passed) idle(out chat.Sink) error {
	if p.begun {
		p.next = p.from + apart(p.raw[p.from:], p.apart-p.from)
		p.comment(out, p.raw[p.from:p.next])
		p.taken()
		p.apart = len(p.raw)
	}
	switch {
	case len(p.raw)-p.from > sse.DefaultLimit:
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, sse.ErrTooLarge)
	case p.from == len(p.raw) && cap(p.raw) > maxKept:
		p.raw, p.from, p.apart = nil, 0, 0
	}
	return nil
}

// apart returns the length of the text up to and with the last blank line. The text begins with an event or a
// comment. Before bytes were searched already.
func apart(text []byte, before int) (end int) {
	before = max(0, before-2)                   // a part of one may
	if bytes.HasPrefix(text, []byte("data:")) { // a blank line would have ended the event
		return 0
	}
	for _, blank := range [...]string{"\n\n", "\n\r\n", "\r\r"} {
		if i := bytes.LastIndex(text[before:], []byte(blank)); i >= 0 {
			end = max(end, before+i+len(blank))
		}
	}
	for end < len(text) && (text[end] == '\n' || text[end] == '\r') {
		end++
	}
	return end
}

// pass gives the event at hand, and what stands before it, to the client as it came, without the usage that only the
// gateway asked for, and with the client's name of the model if it is another than the provider's.
func (s *stream) pass(raw []byte, out chat.Sink) {
	r, p := &s.read, &s.passed
	s.states.follow(r.choices, s.dialect)
	if s.forced && len(r.choices) == 0 && kindOf(r.usage.value(r.data)) == '{' {
		p.from = p.next
		return
	}
	if !p.begun && !r.members.choices.found() {
		return // a sign of life
	}
	p.patch.reset(r.data)
	if s.mended {
		s.mendChunk()
		s.holdLists(out)
	}
	if s.renamed && r.model.found() {
		if p.model == "" {
			p.model = quote(s.asked.Model)
		}
		p.patch.set(r.model, 0, "", p.model)
	}
	if s.forced && r.usage.found() {
		p.patch.remove(r.usage)
	}
	s.tellReceived(out)
	if len(p.patch.edits) > 0 {
		raw = s.patched(raw)
	}
	out.Put(chat.Event{Kind: chat.KindRawEvent, JSON: raw})
	p.taken()
}

// patched returns the event at hand with its chunk patched.
func (s *stream) patched(raw []byte) []byte {
	r, p := &s.read, &s.passed
	at := len(bytes.TrimRight(raw, " \t\r\n")) - len(r.data)
	// another line comes after it, or its JSON came in several
	if at < 0 || !bytes.Equal(raw[at:at+len(r.data)], r.data) {
		at = bytes.LastIndex(raw, r.data)
	}
	begin, rest := raw[:max(at, 0)], []byte("\n\n")
	if at >= 0 {
		rest = raw[at+len(r.data):]
	} else {
		begin = append(bytes.Clone(raw[:apart(bytes.TrimRight(raw, "\r\n"), 0)]), "data: "...)
	}
	s.scratch = append(p.patch.appendTo(append(s.scratch[:0], begin...)), rest...)
	return s.scratch
}
