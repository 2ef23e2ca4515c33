package guard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

const (
	// context bytes that were sent already are kept, so that a rule sees what stands before a text.
	contextBytes = 32
	// maxHeld bounds the bytes that are held back of one text because a match in it still grows.
	maxHeld = 8 << 10
	// seldom is the part of the held text that has to arrive before all of it is looked at again.
	seldom = 16
	// FinishBlocked is the finish reason of an answer that a rule has ended.
	FinishBlocked = "content_filter"
)

// An Answer looks at the events of one answer. It restores what was masked in the request. It implements
// pipeline.Guard.
type Answer struct {
	Findings Findings
	Blocked  string         // the rule that ended a choice, or ""
	Unjudged string         // the rule that could not judge the answer, or ""
	Work     *Work          // of the rules
	Carrier  openai.Carrier // reads what ids of calls carry

	set      *Set // nil: nothing is looked for
	masks    *Masks
	checks   *checks // nil: no checker judges
	observes *Answer // of rules that only observe: what passes is judged, and stays as it is; nil: there are none
	out      judgedOnly
	lanes    map[int]*lane
	blocked  map[int]bool // choices that have ended
	streamed bool
}

// A place is a text of an answer that comes in pieces.
type place struct {
	kind         chat.Kind
	choice, call int
}

// NewAnswer returns the guard of an answer; nil if there is nothing to do. Set may be nil. Judge is called if a
// rule has a checker judge answers.
func NewAnswer(set *Set, masks *Masks, streamed bool, judge Judge) *Answer {
	a := &Answer{Findings: Findings{}, Work: NewWork(), masks: masks, checks: newChecks(set, streamed, judge),
		lanes: map[int]*lane{}, blocked: map[int]bool{}, streamed: streamed}
	switch {
	case set == nil || !set.finds():
	case set.strictIn(configv1.GuardSide_ANSWERS) || a.checks != nil:
		a.set = set
	default:
		a.observes = &Answer{Findings: a.Findings, Work: a.Work, set: set, masks: &Masks{}, lanes: map[int]*lane{},
			blocked: map[int]bool{}, streamed: streamed}
	}
	if a.set == nil && a.observes == nil && masks.IsEmpty() && a.checks == nil {
		return nil
	}
	return a
}

// IsMuch reports whether the rules may take so long for a piece of so many bytes that other requests must not wait for
// it.
func (a *Answer) IsMuch(piece int) bool {
	set := a.rules()
	return set != nil && set.IsMuch(piece+set.window, configv1.GuardSide_ANSWERS)
}

// rules returns the rules that look at the answer, or nil.
func (a *Answer) rules() *Set {
	if a.set == nil && a.observes != nil {
		return a.observes.set
	}
	return a.set
}

// walkWhole returns a walk that judges an answer as a whole, also by rules that only observe.
func (a *Answer) walkWhole() *walk {
	w := a.walk(a.masks)
	w.set = a.rules()
	return w
}

// MayWait reports whether Put may wait for checkers.
func (a *Answer) MayWait() bool { return a.checks != nil }

// Changes implements pipeline.Guard.
func (a *Answer) Changes() bool { return a.set != nil || a.checks != nil || !a.masks.IsEmpty() }

// Document implements pipeline.Guard. The error says that a rule refuses the answer.
func (a *Answer) Document(ctx context.Context, body []byte) ([]byte, error) {
	w := a.walkWhole()
	out, err := w.document(ctx, body, spot{})
	switch {
	case a.Work.failure != nil:
		return nil, a.ended()
	case errors.Is(err, errBlocked):
		a.Blocked = w.blocked
		return nil, Refusal(w.blocked)
	case err != nil && a.Changes():
		return nil, errUnreadAnswer
	}
	return out, nil
}

// errUnreadAnswer means that rules cannot look at an answer. It must not pass then.
var errUnreadAnswer = errors.New("guardrails cannot read the provider's answer")

// Refusal is the error of an answer that a rule refuses and that has no choice to end.
func Refusal(rule string) *openai.Error {
	return openai.CodeContentBlocked.New("The guardrail '%s' does not allow the content of the answer.",
		rule).Final()
}

// text judges data of an event that are no JSON.
func (a *Answer) text(ctx context.Context, data []byte) ([]byte, error) {
	w := a.walkWhole()
	out, _, err := w.judge(ctx, string(data), inText, spot{})
	switch {
	case a.Work.failure != nil:
		return nil, a.ended()
	case err != nil:
		a.Blocked = w.blocked
		return nil, Refusal(w.blocked)
	}
	return []byte(out), nil
}

// Message judges a short text of an answer that stands alone, such as the message of an error.
func (a *Answer) Message(text string) string {
	w := a.walkWhole()
	out, _, err := w.judge(context.Background(), text, inText, spot{})
	if a.Work.failure != nil {
		return "Guardrails cannot judge what the provider said."
	}
	if err != nil {
		return "The guardrail '" + w.blocked + "' does not allow what the provider said."
	}
	return out
}

// Put implements pipeline.Guard.
func (a *Answer) Put(ctx context.Context, e chat.Event, next chat.Sink) error {
	if a.observes != nil {
		a.observes.pass(ctx, e, unread{})
	}
	if !a.Changes() {
		if a.Work.failure == nil {
			next.Put(e)
		}
		return a.ended()
	}
	if a.out = (judgedOnly{a.Work, next}); a.checks != nil {
		a.out.next = a.checks
	}
	a.pass(ctx, e, &a.out)
	if a.checks == nil {
		return a.ended()
	}
	if err := a.ended(); err != nil {
		return err
	}
	rule, err := a.checks.settle(ctx, e.Kind == chat.KindEnd, next)
	if rule != "" {
		a.Blocked = rule
	}
	return err
}

// ended returns why the answer cannot be judged any more, or nil.
func (a *Answer) ended() error {
	a.Work.note(a.Findings, SideAnswer)
	if u, ok := errors.AsType[*Unjudged](a.Work.failure); ok {
		a.Unjudged = u.Rule
		return u.Refusal()
	}
	return a.Work.failure
}

// judgedOnly passes events on as long as they can be judged.
type judgedOnly struct {
	work *Work
	next chat.Sink
}

func (j *judgedOnly) Put(e chat.Event) {
	if j.work.failure == nil {
		j.next.Put(e)
	}
}

// unread is a sink for what nobody reads.
type unread struct{}

func (unread) Put(chat.Event) {}

// pass puts into next what rules without checkers leave of an event, as soon as they can.
func (a *Answer) pass(ctx context.Context, e chat.Event, next chat.Sink) {
	switch e.Kind {
	case chat.KindText, chat.KindReasoning, chat.KindRefusal, chat.KindArguments:
		if !a.blocked[e.Choice] {
			l := a.lane(e.Choice)
			l.add(place{e.Kind, e.Choice, e.Call}, e.String())
			a.drain(ctx, l, false, next)
		}
	default:
		a.other(ctx, e, next)
	}
}

// other is pass for an event that is no piece of a text.
func (a *Answer) other(ctx context.Context, e chat.Event, next chat.Sink) {
	switch e.Kind {
	case chat.KindToolCall, chat.KindMember:
		l := a.lane(e.Choice)
		if a.blocked[e.Choice] || !a.event(ctx, &e, next) {
			return
		}
		if len(l.items) > 0 {
			e.JSON = slices.Clone(e.JSON)
			l.items = append(l.items, &item{event: &e})
			a.drain(ctx, l, false, next)
			return
		}
	case chat.KindFinish:
		a.finish(ctx, a.lane(e.Choice), next)
		if a.blocked[e.Choice] || !a.event(ctx, &e, next) {
			return
		}
	case chat.KindEnd:
		for _, choice := range slices.Sorted(maps.Keys(a.lanes)) {
			a.finish(ctx, a.lanes[choice], next)
		}
	case chat.KindBegin, chat.KindUsage, chat.KindTier:
		a.event(ctx, &e, next)
	}
	next.Put(e)
}

// send sends what of a text can be sent: everything, if it is complete.
func (a *Answer) send(ctx context.Context, at place, t *text, complete bool, next chat.Sink) {
	cut := len(t.held)
	var found []span
	if a.set != nil {
		if !complete && len(t.held) < a.set.window+a.set.window/seldom {
			return // nearly nothing could be sent, and all of it would be looked at again
		}
		if found, cut = a.look(ctx, t, complete); a.Work.failure != nil {
			return
		}
	}
	if !complete {
		cut = a.beforePlaceholder(t.held, cut)
	}
	var b strings.Builder
	write := func(text string) {
		b.WriteString(a.restore(t, text))
		a.judgeLater(at, text)
	}
	from := 0
	for _, f := range found {
		if f.from >= cut {
			break
		}
		a.Findings.add(f.rule, SideAnswer)
		if f.rule.config.GetMode() == configv1.GuardMode_OBSERVE {
			continue
		}
		write(t.held[from:f.from])
		from = f.to
		if f.rule.config.GetMode() == configv1.GuardMode_BLOCK {
			a.put(at, b.String(), next)
			a.block(at.choice, f.rule.name, next)
			return
		}
		label := t.label(f)
		b.WriteString(label)
		a.judgeLater(at, label)
	}
	write(t.held[from:cut])
	sent := t.sent + t.held[:cut]
	t.sent, t.held = sent[max(0, len(sent)-contextBytes):], t.held[cut:]
	a.put(at, b.String(), next)
}

// judgeLater has checkers judge a piece of a text, as the provider wrote it.
func (a *Answer) judgeLater(at place, piece string) {
	if a.checks != nil {
		a.checks.add(at, piece)
	}
}

// look returns the matches of the rules in the held text, and the end of the part that can be sent: text that
// begins later may still grow into a match.
func (a *Answer) look(ctx context.Context, t *text, complete bool) (found []span, cut int) {
	before := len(t.sent)
	all, _ := a.set.found(ctx, a.Work, t.sent+t.held, configv1.GuardSide_ANSWERS) // work keeps the error
	for _, f := range all {
		if f.from >= before { // otherwise it lies in the text that was judged already
			f.from, f.to = f.from-before, f.to-before
			found = append(found, f)
		}
	}
	if complete {
		return found, len(t.held)
	}
	cut = max(0, len(t.held)-a.set.window)
	for cut > 0 && !utf8.RuneStart(t.held[cut]) {
		cut--
	}
	for _, f := range found {
		if f.from < cut && f.to > cut {
			cut = f.from
			if len(t.held)-cut > maxHeld {
				cut = f.to // it does not end
			}
		}
	}
	return found, cut
}

// beforePlaceholder returns the end of the part that can be sent, so that no placeholder is cut.
func (a *Answer) beforePlaceholder(held string, cut int) int {
	if a.masks.IsEmpty() {
		return cut
	}
	i := strings.LastIndexByte(held[:cut], '[')
	if i < 0 || strings.IndexByte(held[i:cut], ']') >= 0 || !a.masks.begins(held[i:cut]) {
		return cut
	}
	return i
}

// restore puts the client's own texts in place of placeholders. Within JSON they are escaped, as often as the string
// is in strings.
func (a *Answer) restore(t *text, text string) string {
	if !t.isJSON {
		return a.masks.restore(text, nil)
	}
	return a.masks.restore(text, func(before, own string) string {
		t.quotes.read(before)
		return t.quotes.escape(own)
	})
}

// label returns the text that replaces a match. Within JSON it is a string, even if the match was a number.
func (t *text) label(f span) string {
	label := "[" + f.label + "]"
	if !t.isJSON {
		return label
	}
	if !t.quotes.inString {
		label = `"` + label + `"`
	}
	t.quotes.read(t.held[f.from:f.to])
	return label
}

func (a *Answer) put(at place, text string, next chat.Sink) {
	switch {
	case text == "":
	case at.kind == chat.KindMember:
		spoken := append(openai.AppendString([]byte(`{"transcript":`), text), '}')
		next.Put(chat.Member(at.choice, "audio", spoken))
	default:
		next.Put(chat.Event{Kind: at.kind, Choice: at.choice, Call: at.call, Text: text})
	}
}

// block ends a choice. What the provider still sends of it is omitted.
func (a *Answer) block(choice int, by string, next chat.Sink) {
	a.blocked[choice] = true
	l := a.lane(choice)
	l.items, l.thoughts = nil, nil
	if a.Blocked == "" {
		a.Blocked = by
	}
	next.Put(chat.Finish(choice, FinishBlocked))
}
