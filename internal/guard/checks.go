package guard

import (
	"context"
	"maps"
	"slices"
	"unicode/utf8"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/chat"
)

const (
	// wholeJudged is how many bytes of an answer that is not streamed checkers judge at once.
	wholeJudged = 128 << 10
	// maxEvents bounds the events that are held back for checkers.
	maxEvents = 4096
)

// A Judge has checkers judge texts of an answer, and returns the rule that ends the answer, or "". An error ends the
// answer, too.
type Judge func(ctx context.Context, texts []string) (rule string, err error)

// checks holds the events of an answer back until checkers have judged their texts. It implements chat.Sink.
type checks struct {
	judge  Judge
	most   int // bytes of text that are judged at once
	before int // bytes of judged text that are judged again, with the next text

	events []chat.Event
	size   int // bytes of texts that were not judged
	texts  []*judged
	at     map[place]*judged
	open   map[int]bool // choices that have begun and not ended
	over   bool         // a rule has ended the answer
}

// judged is a text of the answer: what the provider wrote, with what other rules have masked.
type judged struct {
	text []byte // without what was judged long ago
	from int    // the beginning of text that was not judged
}

// newChecks returns the checks of an answer; nil if no rule has any.
func newChecks(s *Set, streamed bool, judge Judge) *checks {
	if s == nil || !s.judges(configv1.GuardSide_ANSWERS) {
		return nil
	}
	c := &checks{judge: judge, most: wholeJudged, at: map[place]*judged{}, open: map[int]bool{}}
	if streamed {
		c.most = s.judged
	}
	c.before = min(c.most/4, 1<<10)
	return c
}

// Put implements chat.Sink.
func (c *checks) Put(e chat.Event) {
	if ofChoice(e.Kind) {
		if c.over {
			return
		}
		c.open[e.Choice] = true
	}
	e.JSON, e.Logprobs = slices.Clone(e.JSON), nil // logarithms of probabilities are left out
	if e.Usage != nil {
		used := *e.Usage
		e.Usage = &used
	}
	c.events = append(c.events, e)
}

func ofChoice(k chat.Kind) bool {
	switch k {
	case chat.KindRole, chat.KindText, chat.KindReasoning, chat.KindRefusal, chat.KindToolCall, chat.KindArguments,
		chat.KindMember, chat.KindFinish:
		return true
	}
	return false
}

// add adds a piece of a text to the texts that are judged next.
func (c *checks) add(at place, piece string) {
	if c.over || piece == "" {
		return
	}
	t := c.at[at]
	if t == nil {
		t = &judged{}
		c.at[at], c.texts = t, append(c.texts, t)
	}
	t.text = append(t.text, piece...)
	c.size += len(piece)
}

// settle puts the events into next whose texts were judged. It has them judged if there are enough, or if the answer
// is complete. It returns the rule that ends the answer, or "".
func (c *checks) settle(ctx context.Context, complete bool, next chat.Sink) (rule string, err error) {
	if c.size > 0 && !complete && c.size < c.most && len(c.events) < maxEvents {
		return "", nil
	}
	for c.size > 0 && err == nil && rule == "" {
		rule, err = c.judge(ctx, c.take())
	}
	switch {
	case err != nil:
		c.events = nil
		return "", err
	case rule != "":
		c.end(next)
		return rule, nil
	}
	for _, e := range c.events {
		if e.Kind == chat.KindFinish {
			delete(c.open, e.Choice)
		}
		next.Put(e)
	}
	c.events = c.events[:0]
	return "", nil
}

// take returns the texts to judge now, each with a little of the text before.
func (c *checks) take() []string {
	var all []string
	room := c.most
	if c.size < 2*c.most {
		room = c.size // rather than a call for little text
	}
	for _, t := range c.texts {
		n := min(len(t.text)-t.from, room)
		if n == 0 {
			continue
		}
		n = atRune(t.text[t.from:], n)
		to := t.from + n
		all = append(all, string(t.text[:to]))
		c.size -= n
		room -= min(room, n)
		keep := max(0, to-c.before)
		for keep < to && !utf8.RuneStart(t.text[keep]) {
			keep++
		}
		t.text, t.from = append(t.text[:0], t.text[keep:]...), to-keep
	}
	return all
}

// atRune returns the largest number of bytes up to most, and at least one character, that cut no character.
func atRune(b []byte, most int) int {
	n := most
	for n > 0 && n < len(b) && !utf8.RuneStart(b[n]) {
		n--
	}
	if n > 0 {
		return n
	}
	_, n = utf8.DecodeRune(b)
	return n
}

// end ends all choices, without what of them is held back.
func (c *checks) end(next chat.Sink) {
	c.over, c.texts, c.at, c.size = true, nil, nil, 0
	finish := func() {
		for _, choice := range slices.Sorted(maps.Keys(c.open)) {
			next.Put(chat.Finish(choice, FinishBlocked))
		}
		clear(c.open)
	}
	for _, e := range c.events {
		switch e.Kind {
		case chat.KindBegin, chat.KindRole:
		case chat.KindUsage, chat.KindTier, chat.KindEnd:
			finish()
		default:
			continue
		}
		next.Put(e)
	}
	finish()
	c.events = nil
}
