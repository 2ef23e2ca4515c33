package guard

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

const (
	// context bytes that were sent already are kept, so that a rule sees what stands before a text.
	contextBytes = 32
	// maxHeld bounds what is held back of one text, in bytes: of what a rule finds that still grows.
	maxHeld = 8 << 10
	// seldom is which part of what is held back has to arrive before all of it is looked at again.
	seldom = 16
	// FinishBlocked is the finish reason of an answer that a rule has ended.
	FinishBlocked = "content_filter"
)

// An Answer looks at the events of one answer. It restores what was masked in the request. It implements
// pipeline.Guard.
type Answer struct {
	Findings Findings
	Blocked  string // the rule that ended a choice, or ""
	Unjudged string // the rule that could not judge the answer, or ""
	Work     *Work  // of the rules

	set     *Set // nil: nothing is looked for
	masks   *Masks
	checks  *checks // nil: no checker judges
	texts   map[place]*text
	order   []place      // of texts, as they began
	blocked map[int]bool // choices that have ended
}

// A place is a text of an answer that comes in pieces.
type place struct {
	kind         chat.Kind
	choice, call int
}

// A text is what is held back of one, after what was sent of it last.
type text struct{ sent, held string }

// NewAnswer returns the guard of an answer; nil where there is nothing to do. Set may be nil. Judge is called if a
// rule has a checker judge answers.
func NewAnswer(set *Set, masks *Masks, streamed bool, judge Judge) *Answer {
	checks := newChecks(set, streamed, judge)
	if set != nil && !set.finds() {
		set = nil
	}
	if set == nil && masks.IsEmpty() && checks == nil {
		return nil
	}
	return &Answer{Findings: Findings{}, Work: NewWork(), set: set, masks: masks, checks: checks,
		texts: map[place]*text{}, blocked: map[int]bool{}}
}

// IsMuch reports whether the rules may take so long for a piece of so many bytes that other requests must not wait for
// it.
func (a *Answer) IsMuch(piece int) bool {
	return a.set != nil && a.set.IsMuch(piece+a.set.window, configv1.GuardSide_ANSWERS)
}

// MayWait reports whether Put may wait for checkers.
func (a *Answer) MayWait() bool { return a.checks != nil }

// Put implements pipeline.Guard.
func (a *Answer) Put(ctx context.Context, e chat.Event, next chat.Sink) error {
	if a.checks == nil {
		return a.pass(ctx, e, next)
	}
	if err := a.pass(ctx, e, a.checks); err != nil {
		return err
	}
	rule, err := a.checks.settle(ctx, e.Kind == chat.KindEnd, next)
	if rule != "" {
		a.Blocked = rule
	}
	return err
}

// pass puts into next what rules without checkers leave of an event, as soon as they can.
func (a *Answer) pass(ctx context.Context, e chat.Event, next chat.Sink) error {
	if a.set == nil {
		return a.split(ctx, e, next)
	}
	err := a.split(ctx, e, next)
	a.Work.note(a.Findings, SideAnswer)
	if u, ok := errors.AsType[*Unjudged](err); ok {
		a.Unjudged = u.Rule
		return u.Refusal()
	}
	return err
}

func (a *Answer) split(ctx context.Context, e chat.Event, next chat.Sink) error {
	at := place{e.Kind, e.Choice, e.Call}
	switch e.Kind {
	case chat.KindText, chat.KindReasoning, chat.KindRefusal, chat.KindArguments:
		if a.blocked[e.Choice] {
			return nil
		}
		if err := a.flush(ctx, next, func(p place) bool { return p.choice == e.Choice && p != at }); err != nil {
			return err
		}
		t := a.texts[at]
		if t == nil {
			t = &text{}
			a.texts[at] = t
			a.order = append(a.order, at)
		}
		t.held += e.String()
		return a.send(ctx, at, t, false, next)
	case chat.KindToolCall, chat.KindMember, chat.KindFinish:
		err := a.flush(ctx, next, func(p place) bool { return p.choice == e.Choice })
		if err != nil || a.blocked[e.Choice] {
			return err
		}
	case chat.KindEnd:
		if err := a.flush(ctx, next, func(place) bool { return true }); err != nil {
			return err
		}
	}
	next.Put(e)
	return nil
}

// flush sends what is held back of texts that are complete.
func (a *Answer) flush(ctx context.Context, next chat.Sink, complete func(place) bool) error {
	kept := a.order[:0]
	for _, at := range a.order {
		if !complete(at) {
			kept = append(kept, at)
			continue
		}
		if !a.blocked[at.choice] {
			if err := a.send(ctx, at, a.texts[at], true, next); err != nil {
				return err
			}
		}
		delete(a.texts, at)
	}
	a.order = kept
	return nil
}

// send sends what of a text can be sent: everything, if it is complete.
func (a *Answer) send(ctx context.Context, at place, t *text, complete bool, next chat.Sink) error {
	cut := len(t.held)
	var found []span
	if a.set != nil {
		if !complete && len(t.held) < a.set.window+a.set.window/seldom {
			return nil // nearly nothing could be sent, and all of it would be looked at again
		}
		var err error
		if found, cut, err = a.look(ctx, t, complete); err != nil {
			return err
		}
	}
	if !complete {
		cut = a.beforePlaceholder(t.held, cut)
	}
	var b strings.Builder
	write := func(text string) {
		b.WriteString(a.restore(at, text))
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
			a.block(at.choice, f.rule, next)
			return nil
		}
		b.WriteString("[" + f.label + "]")
		a.judgeLater(at, "["+f.label+"]")
	}
	write(t.held[from:cut])
	sent := t.sent + t.held[:cut]
	t.sent, t.held = sent[max(0, len(sent)-contextBytes):], t.held[cut:]
	a.put(at, b.String(), next)
	return nil
}

// judgeLater has checkers judge a piece of a text, as the provider wrote it.
func (a *Answer) judgeLater(at place, piece string) {
	if a.checks != nil {
		a.checks.add(at, piece)
	}
}

// look returns what the rules find in what is held back, and up to where it can be sent: a text that begins later may
// still grow into something that a rule finds.
func (a *Answer) look(ctx context.Context, t *text, complete bool) (found []span, cut int, err error) {
	before := len(t.sent)
	all, err := a.set.spans(ctx, a.Work, t.sent+t.held, configv1.GuardSide_ANSWERS)
	if err != nil {
		return nil, 0, err
	}
	for _, f := range all {
		if f.from >= before { // otherwise it is a part of what was judged already
			f.from, f.to = f.from-before, f.to-before
			found = append(found, f)
		}
	}
	if complete {
		return found, len(t.held), nil
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
	return found, cut, nil
}

// beforePlaceholder returns the end of what can be sent, so that no placeholder is cut.
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

// restore puts the client's own texts in place of placeholders. Within arguments, which are JSON, they are escaped.
func (a *Answer) restore(at place, text string) string {
	if at.kind != chat.KindArguments {
		return a.masks.restore(text, nil)
	}
	return a.masks.restore(text, func(s string) string {
		quoted := openai.AppendString(nil, s)
		return string(quoted[1 : len(quoted)-1])
	})
}

func (a *Answer) put(at place, text string, next chat.Sink) {
	if text != "" {
		next.Put(chat.Event{Kind: at.kind, Choice: at.choice, Call: at.call, Text: text})
	}
}

// block ends a choice. What the provider still sends of it is omitted.
func (a *Answer) block(choice int, by *rule, next chat.Sink) {
	a.blocked[choice] = true
	if a.Blocked == "" {
		a.Blocked = by.name
	}
	next.Put(chat.Finish(choice, FinishBlocked))
}
