package guard

import (
	"context"
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

// event judges an event that is no piece of a text. It reports whether it is for the client now.
func (a *Answer) event(ctx context.Context, e *chat.Event, next chat.Sink) bool {
	w := a.walk(a.masks)
	var err error
	switch e.Kind {
	case chat.KindToolCall:
		err = w.call(ctx, a.Carrier, e)
	case chat.KindMember:
		return a.member(ctx, w, e, next)
	case chat.KindBegin:
		e.ID, _, err = w.judgeOnly(ctx, e.ID, inName, spot{})
		e.ID = idOf(e.ID, err)
		return true
	case chat.KindTier, chat.KindFinish:
		if !choices[e.Text] {
			e.Text, _, err = w.judgeOnly(ctx, e.Text, inChoice, spot{})
		}
	case chat.KindUsage:
		if e.JSON != nil && a.set != nil {
			if out, err := w.document(ctx, e.JSON, spot{}); err != nil || string(out) != string(e.JSON) {
				e.JSON = nil
			}
		}
	}
	if err == nil {
		return true
	}
	if e.Kind == chat.KindTier {
		e.Text = ""
		return true
	}
	a.block(e.Choice, w.blocked, next)
	return false
}

// idOf returns the id of an answer, which has no choice that could be blocked.
func idOf(id string, err error) string {
	if err != nil {
		return "blocked"
	}
	return id
}

// call judges the beginning of a call. Data that its id carries for the next request are left out if a rule would mask
// something in them.
func (w *walk) call(ctx context.Context, by openai.Carrier, e *chat.Event) error {
	id, carried := by.Split(e.ID)
	kept := carried
	if carried != nil && w.set != nil {
		inner := walk{set: w.set, work: w.work, side: w.side, masks: &Masks{}, findings: Findings{}}
		if out, err := inner.document(ctx, carried, spot{}); err != nil || string(out) != string(carried) {
			kept = nil
		}
	}
	judged, changed, err := w.judgeOnly(ctx, id, inName, spot{})
	switch {
	case err != nil:
		return err
	case changed || len(kept) != len(carried):
		e.ID = by.Carry(judged, kept)
	}
	if e.Name, _, err = w.judgeOnly(ctx, e.Name, inName, spot{}); err != nil {
		return err
	}
	if e.JSON != nil && w.set != nil {
		out, err := w.document(ctx, e.JSON, spot{})
		if err != nil {
			return err
		}
		if string(out) != string(e.JSON) {
			e.JSON = nil
		}
	}
	return nil
}

// member judges a member of a choice. Those whose texts come in pieces that are not known are left out.
func (a *Answer) member(ctx context.Context, w *walk, e *chat.Event, next chat.Sink) bool {
	if a.set == nil && a.masks.IsEmpty() {
		return true
	}
	switch e.Name {
	case "images", "annotations":
	case "thinking_blocks":
		return a.set == nil || a.thought(e)
	case "audio":
		if a.set != nil && a.streamed && !a.audio(ctx, e, next) {
			return false
		}
	default:
		return a.set == nil
	}
	out, err := w.document(ctx, e.JSON, spot{name: e.Name, depth: 1, within: "message"})
	if err != nil {
		a.block(e.Choice, w.blocked, next)
		return false
	}
	e.JSON = out
	return true
}

// thought keeps blocks of thinking until all of them are known. They are left out if a rule finds something in them,
// which their provider would not take back in another form. It reports whether the client gets them now.
func (a *Answer) thought(e *chat.Event) bool {
	l := a.lane(e.Choice)
	kept := *e
	kept.JSON = slices.Clone(e.JSON)
	l.thoughts = append(l.thoughts, kept)
	return false
}

// hasFinding reports whether a rule finds something in blocks of thinking. They may be pieces of blocks.
func (a *Answer) hasFinding(ctx context.Context, thoughts []chat.Event) bool {
	var all strings.Builder
	for i := range thoughts {
		w := walk{set: a.set, work: a.Work, side: configv1.GuardSide_ANSWERS, masks: &Masks{}, findings: Findings{},
			gathers: true}
		out, err := w.document(ctx, thoughts[i].JSON, spot{name: "thinking_blocks", depth: 1, within: "message"})
		if err != nil || string(out) != string(thoughts[i].JSON) {
			return true
		}
		for _, t := range w.texts {
			all.WriteString(t)
		}
	}
	if all.Len() == 0 {
		return false
	}
	found, err := a.set.found(ctx, a.Work, all.String(), configv1.GuardSide_ANSWERS)
	return err != nil || slices.ContainsFunc(found, func(f span) bool { return f.rule.isStrict() })
}

// audio takes the transcript out of spoken words that come in pieces, and adds it to the texts. It reports whether
// something is left.
func (a *Answer) audio(ctx context.Context, e *chat.Event, next chat.Sink) bool {
	rest, spoken := []byte{'{'}, false
	gjson.ParseBytes(e.JSON).ForEach(func(name, value gjson.Result) bool {
		if name.Str == "transcript" && value.Type == gjson.String {
			l := a.lane(e.Choice)
			l.add(place{kind: chat.KindMember, choice: e.Choice}, value.Str)
			a.drain(ctx, l, false, next)
			spoken = true
			return true
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, name.Raw...), ':'), value.Raw...)
		return true
	})
	if spoken {
		e.JSON = append(rest, '}')
	}
	return !spoken || len(rest) > 1
}
