package guard

import (
	"context"
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

const (
	// maxWhole bounds arguments that are held back until they are complete, in bytes.
	maxWhole = 1 << 20
	// maxItems bounds the parts of a choice that wait for one.
	maxItems = 64
	// minWindow is how many bytes of others a part waits for if no rule has a window.
	minWindow = 128
	// maxTurn is how many bytes of others a part waits for that may go on in the middle of something.
	maxTurn = 4 << 10
)

// A lane has the parts of a choice that are not sent yet, in order. A part that is held back waits for its next piece
// while pieces of others come, so that parts that take turns are judged as a whole.
type lane struct {
	items    []*item
	sent     map[place]text // those that nothing is held back of, for the pieces that may follow
	thoughts []chat.Event   // blocks of thinking, which are judged together
}

// An item is a text, or an event that waits behind one.
type item struct {
	at     place
	text   text
	since  int         // bytes of others since the last piece
	fresh  bool        // there is a new piece
	shared bool        // it went on after others had begun: they do not wait for it
	event  *chat.Event // nil: a text
}

// A text is the held part of a text, after the part that was sent last.
type text struct {
	sent, held string
	whole      []byte // held back until it is complete, in place of held
	end        jsonEnd
	beginning  string // up to where it says whether the text is JSON
	begun      bool   // it has said so
	isJSON     bool
	arguments  bool // of a call
	quotes     quotes
}

func (a *Answer) lane(choice int) *lane {
	l := a.lanes[choice]
	if l == nil {
		l = &lane{sent: map[place]text{}}
		a.lanes[choice] = l
	}
	return l
}

// add adds a piece of a text.
func (l *lane) add(at place, piece string) {
	if piece == "" {
		return
	}
	var of *item
	for i, it := range l.items {
		if it.event == nil && it.at == at {
			of, it.since, it.fresh, it.shared = it, 0, true, it.shared || i < len(l.items)-1
			continue
		}
		it.since += len(piece)
	}
	if of == nil {
		of = &item{at: at, fresh: true, text: l.sent[at]}
		of.text.arguments = at.kind == chat.KindArguments
		of.text.end.of = of.text.arguments && of.text.sent == ""
		l.items = append(l.items, of)
	}
	of.text.put(piece)
}

func (t *text) put(piece string) {
	if !t.begun {
		t.begin(piece)
	}
	if !t.end.of {
		t.held += piece
		return
	}
	t.whole = append(t.whole, piece...)
	if t.end.read(piece); !t.end.of || len(t.whole) > maxWhole {
		t.isText()
	}
}

// begin reads on in the beginning of a text, until it says whether the text is JSON. A list begins as a placeholder
// does, whose label is in capitals.
func (t *text) begin(piece string) {
	const space = " \n\r\t"
	t.beginning = strings.TrimLeft(t.beginning+piece[:min(len(piece), 64)], space)
	inner := strings.TrimLeft(strings.TrimPrefix(t.beginning, "["), space)
	switch {
	case t.beginning == "":
	case t.beginning[0] == '{':
		t.begun, t.isJSON = true, true
	case t.beginning[0] != '[':
		t.begun = true
	case inner != "":
		// of the other texts than arguments, some begin with a note in brackets
		t.begun, t.isJSON = true, strings.IndexByte(`{["`, inner[0]) >= 0 || t.arguments && !isCapital(inner[0])
	}
}

// isText has what is held back judged as a text: it is no JSON document, or none that becomes complete.
func (t *text) isText() {
	t.end.of, t.held, t.whole = false, t.held+string(t.whole), nil
}

// drain sends what can be sent, in order: everything, if the choice is complete.
func (a *Answer) drain(ctx context.Context, l *lane, complete bool, next chat.Sink) {
	for i := 0; i < len(l.items); {
		it := l.items[i]
		if it.event != nil {
			next.Put(*it.event)
			l.items = slices.Delete(l.items, i, i+1)
			continue
		}
		over := complete || len(l.items) > maxItems || !it.shared && it.since > a.patience(&it.text)
		if it.fresh || over {
			it.fresh = false
			a.part(ctx, it, over, next)
		}
		switch {
		case a.blocked[it.at.choice]:
			return
		case over || it.text.held == "" && !it.text.end.of && len(l.items) > i+1:
			l.sent[it.at] = text{sent: it.text.sent, beginning: it.text.beginning, begun: it.text.begun,
				isJSON: it.text.isJSON, quotes: it.text.quotes}
			l.items = slices.Delete(l.items, i, i+1)
		case it.shared:
			i++
		default:
			return
		}
	}
}

// patience is how many bytes of others a text waits for. One that may go on in the middle of something waits longer.
func (a *Answer) patience(t *text) int {
	switch {
	case t.end.of:
		return maxWhole
	case a.set != nil && isOpen(t.held):
		return max(maxTurn, a.set.window)
	case a.set == nil || a.set.window == 0:
		return minWindow
	}
	return a.set.window
}

// isOpen reports whether a text may end within a word, a number or an address.
func isOpen(text string) bool {
	tail := text[max(0, len(text)-32):]
	last, _ := utf8.DecodeLastRuneInString(tail)
	ends := unicode.IsSpace(last) || strings.ContainsRune(".!?:;,)]}\"'*`。！？", last)
	return !ends || strings.ContainsAny(tail, "0123456789@")
}

// part sends what can be sent of a text.
func (a *Answer) part(ctx context.Context, it *item, over bool, next chat.Sink) {
	t := &it.text
	if t.end.of && t.end.complete && a.set != nil {
		a.whole(ctx, it, next)
		if a.blocked[it.at.choice] {
			return
		}
	}
	if t.end.of && (over || a.set == nil) {
		t.isText()
	}
	if !t.end.of {
		a.send(ctx, it.at, t, over, next)
	}
}

// whole judges a JSON document, and sends it. What is none is left for a judgement as a text.
func (a *Answer) whole(ctx context.Context, it *item, next chat.Sink) {
	t := &it.text
	if !jsonwalk.Valid(t.whole) {
		t.isText()
		return
	}
	w := a.walk(&Masks{})
	out, err := w.document(ctx, t.whole, spot{free: true, depth: 1})
	if err != nil {
		a.block(it.at.choice, w.blocked, next)
		return
	}
	a.judgeLater(it.at, string(out))
	if !a.masks.IsEmpty() {
		own := walk{work: a.Work, side: configv1.GuardSide_ANSWERS, masks: a.masks, findings: Findings{}}
		if out, err = own.document(ctx, out, spot{free: true, depth: 1}); err != nil {
			return
		}
	}
	t.sent, t.whole, t.end.of = string(t.whole[max(0, len(t.whole)-contextBytes):]), nil, false
	a.put(it.at, string(out), next)
}

func (a *Answer) walk(masks *Masks) *walk {
	return &walk{set: a.set, work: a.Work, side: configv1.GuardSide_ANSWERS, masks: masks, findings: a.Findings}
}

// finish sends all that waits of a choice: no more is to come of it.
func (a *Answer) finish(ctx context.Context, l *lane, next chat.Sink) {
	a.drain(ctx, l, true, next)
	if !a.hasFinding(ctx, l.thoughts) {
		for i := range l.thoughts {
			next.Put(l.thoughts[i])
		}
	}
	l.thoughts = nil
}

// quotes knows in how many strings a place of a JSON document is.
type quotes struct {
	slashes, layers int
	inString        bool
}

func (q *quotes) read(text string) {
	for i := range len(text) {
		switch text[i] {
		case '\\':
			q.slashes++
			continue
		case '"':
			q.layers = bits.Len(uint(q.slashes)) + 1
			q.inString = q.inString != (q.slashes%2 == 0)
		}
		q.slashes = 0
	}
}

// escape writes a text for the string that the place is in.
func (q *quotes) escape(text string) string {
	for range max(q.layers, 1) {
		if text == "" {
			return ""
		}
		quoted := openai.AppendString(nil, text)
		text = string(quoted[1 : len(quoted)-1])
	}
	return text
}

// A jsonEnd finds where a JSON object or list ends that comes in pieces.
type jsonEnd struct {
	of                bool // it is one, as far as is known
	begun, complete   bool
	inString, escaped bool
	depth             int
}

func (j *jsonEnd) read(piece string) {
	for i := 0; i < len(piece) && j.of; i++ {
		c := piece[i]
		switch {
		case j.escaped:
			j.escaped = false
		case j.inString:
			j.escaped, j.inString = c == '\\', c != '"'
		case c == '{', c == '[':
			j.depth++
			j.begun = true
		case c == '}', c == ']':
			j.depth--
			j.complete = j.depth <= 0
		case c == ' ', c == '\n', c == '\t', c == '\r':
		case !j.begun:
			j.of = false
		case c == '"':
			j.inString = true
		}
	}
}
