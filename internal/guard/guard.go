// Package guard finds in texts what guardrails are about, masks it for the provider, and restores it for the client.
// It knows no network and keeps no text. Findings name rules, and never what was found.
package guard

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/scan"
)

// Rails are the guardrails of a configuration. They are immutable.
type Rails []*rail

type rail struct {
	config *configv1.Guardrail
	rules  []*rule
	when   cel.Program // true for the requests that it applies to; nil: all
	// weights are the steps of the rules for each byte of a text on a side.
	weights [sides]int
}

// A rule is ready for use.
type rule struct {
	config *configv1.GuardRule
	name   string // "<guardrail>/<rule>"
	finds  []finder
	// allowed are the bytes of the patterns of tools.
	allowed int
}

// A finder finds one kind of text.
type finder struct {
	kind
	patterns *scan.Patterns // in place of a kind
	words    *scan.Words    // in place of a kind
	literal  string         // that a checker has found, in place of a kind
	digits   bool           // there is no such text without a digit
}

// Compile makes guardrails ready for use. The error names the one that is wrong.
func Compile(configs []*configv1.Guardrail) (Rails, error) { return Rails(nil).Next(configs) }

// Next compiles guardrails. Those that have not changed are taken from rails.
func (rails Rails) Next(configs []*configv1.Guardrail) (Rails, error) {
	ready := make(map[string]*rail, len(rails))
	for _, r := range rails {
		ready[r.config.GetName()] = r
	}
	var all Rails
	for _, g := range configs {
		if r := ready[g.GetName()]; r != nil && proto.Equal(r.config, g) {
			all = append(all, r)
			continue
		}
		when, err := g.Program()
		if err != nil {
			return nil, fmt.Errorf("Guardrail %s: when: %w", g.GetName(), err)
		}
		r := &rail{config: g, when: when}
		for _, c := range g.GetRules() {
			finds, err := finders(c)
			if err != nil {
				return nil, err
			}
			ready := &rule{config: c, name: g.GetName() + "/" + c.GetName(), finds: finds}
			for _, p := range c.GetAllowedTools() {
				ready.allowed += 1 + len(p)
			}
			r.rules = append(r.rules, ready)
			weigh(&r.weights, ready)
		}
		all = append(all, r)
	}
	return all, nil
}

func finders(c *configv1.GuardRule) ([]finder, error) {
	var all []finder
	for _, of := range []map[configv1.SensitiveData]kind{national, kinds} { // a French number may look like a card's
		for _, d := range c.GetData() {
			if k, ok := of[d]; ok {
				all = append(all, finder{kind: k, digits: hasDigits(d)})
			}
		}
	}
	label := kind{label: labelOf(c.GetName())}
	if len(c.GetPatterns()) > 0 {
		patterns, err := scan.NewPatterns(c.GetPatterns())
		if err != nil {
			return nil, err
		}
		all = append(all, finder{kind: label, patterns: patterns})
	}
	if len(c.GetWords()) > 0 {
		all = append(all, finder{kind: label, words: scan.NewWords(c.GetWords())})
	}
	return all, nil
}

// hasDigits reports whether data of a kind always have digits.
func hasDigits(d configv1.SensitiveData) bool {
	switch d {
	case configv1.SensitiveData_EMAIL, configv1.SensitiveData_IP_ADDRESS, configv1.SensitiveData_SECRET:
		return false
	}
	return true
}

// labelOf returns a name as it stands in placeholders.
func labelOf(name string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && scan.IsWord(byte(r)) {
			return unicode.ToUpper(r)
		}
		return '_'
	}, name[:min(len(name), maxLabel)])
}

// A Set is the rules that apply to a request. It is immutable.
type Set struct {
	rules  []*rule
	window int
	judged int // bytes of a streamed answer that checkers judge at once
	// weights are the steps of the rules for each byte of a text on a side.
	weights [sides]int
}

// Chosen returns a name for the rules that apply: an answer to an equal request with other rules, because of its
// key or of an expression, may have passed something else. A nil set has none.
func (s *Set) Chosen() string {
	if s == nil {
		return ""
	}
	var names strings.Builder
	for _, r := range s.rules {
		names.WriteString(r.name)
		names.WriteByte(' ')
	}
	return names.String()
}

// For returns the rules for a client's request to a model; nil if there are none. Fits decides whether a guardrail
// with an expression applies.
func (rails Rails) For(from *request.Subject, model string, fits func(when cel.Program) bool) *Set {
	var s *Set
	for _, r := range rails {
		if !r.of(from) || !configv1.CoversModel(r.config, model) || r.when != nil && !fits(r.when) {
			continue
		}
		if s == nil {
			s = &Set{}
		}
		s.rules = append(s.rules, r.rules...)
		for side := range s.weights {
			s.weights[side] += r.weights[side]
		}
		s.window, s.judged = max(s.window, r.config.HeldBack()), max(s.judged, r.config.JudgedAtOnce())
	}
	return s
}

// Guards reports whether a guardrail that does more than observe may apply to a client, whatever the model is.
func (rails Rails) Guards(s *request.Subject) bool {
	return slices.ContainsFunc(rails, func(r *rail) bool {
		return r.of(s) && slices.ContainsFunc(r.rules, (*rule).isStrict)
	})
}

func (r *rail) of(s *request.Subject) bool { return configv1.Covers(r.config, s.Client()) }

// Strict reports whether a rule does more than observe.
func (s *Set) Strict() bool { return slices.ContainsFunc(s.rules, (*rule).isStrict) }

func (r *rule) isStrict() bool { return r.config.GetMode() != configv1.GuardMode_OBSERVE }

// Answers reports whether a rule may change answers, or has a checker judge them.
func (s *Set) Answers() bool {
	return s.finds() && s.strictIn(configv1.GuardSide_ANSWERS) || s.judges(configv1.GuardSide_ANSWERS)
}

// strictIn reports whether a rule that finds something by itself does more than observe on a side.
func (s *Set) strictIn(side configv1.GuardSide) bool {
	return slices.ContainsFunc(s.rules, func(r *rule) bool {
		return r.isStrict() && len(r.finds) > 0 && r.config.LooksIn(side)
	})
}

// judges reports whether a rule has a checker judge the texts of a side.
func (s *Set) judges(side configv1.GuardSide) bool {
	return slices.ContainsFunc(s.rules, func(r *rule) bool { return r.judges(side) })
}

// finds reports whether a rule finds something in answers without a checker.
func (s *Set) finds() bool {
	return slices.ContainsFunc(s.rules, func(r *rule) bool {
		return r.config.LooksIn(configv1.GuardSide_ANSWERS) && len(r.finds) > 0
	})
}

// judges reports whether the rule has a checker judge the texts of a side.
func (r *rule) judges(side configv1.GuardSide) bool {
	return r.config.GetChecker() != "" && r.config.LooksIn(side)
}

// A Check is a rule that has a checker judge the texts of a side.
type Check struct {
	Rule, Checker string
	Side          string
	Categories    []string
	Threshold     float64
	Blocks, Masks bool
	PassOnFailure bool
}

// Checks returns the rules that have a checker judge the texts of a side.
func (s *Set) Checks(side configv1.GuardSide) []Check {
	var all []Check
	for _, r := range s.rules {
		if c := r.config; r.judges(side) {
			of := SideRequest
			if side == configv1.GuardSide_ANSWERS {
				of = SideAnswer
			}
			all = append(all, Check{Rule: r.name, Checker: c.GetChecker(), Side: of, Categories: c.GetCategories(),
				Threshold: c.GetThreshold(), Blocks: c.GetMode() == configv1.GuardMode_BLOCK,
				Masks: c.GetMode() == configv1.GuardMode_MASK, PassOnFailure: c.GetPassOnFailure() || !r.isStrict()})
		}
	}
	return all
}

// Finding returns what is noted if the check finds something.
func (c *Check) Finding() Finding {
	mode := ModeObserve
	if c.Blocks {
		mode = ModeBlock
	}
	return Finding{Rule: c.Rule, Mode: mode, Side: c.Side}
}

// Failure returns the finding for an unavailable checker.
func (c *Check) Failure() Finding { return Finding{Rule: c.Rule, Mode: ModeFailed, Side: c.Side} }

// A span is a part of a text that a rule has found.
type span struct {
	from, to int
	rule     *rule
	label    string
}

// spans returns what the rules find in a text on one side, from left to right, without overlaps. Of overlapping ones
// the stricter goes first, then the one that begins first, up to the end of the others.
func (s *Set) spans(ctx context.Context, w *Work, text string, side configv1.GuardSide) ([]span, error) {
	var all []span
	none, known := false, false // whether there are no digits in the text
	for _, r := range s.rules {
		if !r.config.LooksIn(side) {
			continue
		}
		for i := range r.finds {
			if r.finds[i].digits && !known {
				none, known = !hasDigit(text), true
			}
			if r.finds[i].digits && none {
				continue
			}
			var err error
			if all, err = r.finds[i].add(ctx, w.of(r), all, text, r); err != nil {
				if err = w.end(r, err); err != nil {
					return nil, err
				}
			}
		}
	}
	return apart(all), nil
}

// apart returns spans from left to right, without overlaps. Those of one mode that overlap become one.
func apart(all []span) []span {
	if len(all) < 2 {
		return all
	}
	slices.SortStableFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(b.rule.config.GetMode(), a.rule.config.GetMode()), cmp.Compare(a.from, b.from),
			cmp.Compare(b.to, a.to))
	})
	byPlace := func(a, b span) int { return cmp.Compare(a.from, b.from) }
	var kept []span
	for len(all) > 0 { // one mode after the other
		mode, stricter, end, n := all[0].rule.config.GetMode(), kept, 0, 0
		for ; n < len(all) && all[n].rule.config.GetMode() == mode; n++ {
			x := all[n]
			i, _ := slices.BinarySearchFunc(stricter, x.from, func(k span, from int) int { return cmp.Compare(k.to, from+1) })
			switch free := i == len(stricter) || stricter[i].from >= x.to; {
			case free && x.from >= end:
				kept, end = append(kept, x), x.to
			case free && x.to > end: // its end would be left over
				kept[len(kept)-1].to, end = x.to, x.to
			}
		}
		slices.SortFunc(kept, byPlace)
		all = all[n:]
	}
	return kept
}

// add adds what is found in a text.
func (f *finder) add(ctx context.Context, w *scan.Work, all []span, text string, r *rule) ([]span, error) {
	var spent error // the limit that was exceeded
	found := func(from, to int) {
		if spent == nil {
			spent = w.Spend(ctx, stepsPerFinding)
		}
		if spent == nil {
			all = append(all, span{from, to, r, f.label})
		}
	}
	switch {
	case f.patterns != nil:
		err := f.patterns.Find(ctx, w, text, found)
		return all, cmp.Or(err, spent)
	case f.words != nil:
		err := f.words.Find(ctx, w, text, found)
		return all, cmp.Or(err, spent)
	}
	if err := w.Spend(ctx, 1+len(text)/2); err != nil {
		return all, err
	}
	if f.literal != "" {
		for i := nextLiteral(text, f.literal, 0); i >= 0 && spent == nil; {
			found(i, i+len(f.literal))
			i = nextLiteral(text, f.literal, i+len(f.literal))
		}
		return all, spent
	}
	for i := f.next(text, 0); i >= 0 && spent == nil; {
		length := 0
		if at := f.pattern.FindStringIndex(text[i:]); at != nil {
			length = at[1]
		}
		if length > 0 && f.accept != nil {
			length = f.accept(text[i : i+length])
		}
		if length > 0 {
			found(i, i+length)
		}
		i = f.next(text, i+max(length, 1))
	}
	return all, spent
}

// A Finding is a rule that has found something. Its values are bounded by the configuration.
type Finding struct {
	Rule string // "<guardrail>/<rule>"
	Mode string // observe, mask, block or failed
	Side string // request or answer
}

// Modes of a Finding, besides mask. ModeFailed is for a rule whose checker was unavailable, or that took too
// much work.
const (
	ModeObserve = "observe"
	ModeBlock   = "block"
	ModeFailed  = "failed"
)

// Sides of a Finding.
const (
	SideRequest = "request"
	SideAnswer  = "answer"
)

// Findings counts what rules have found.
type Findings map[Finding]int

func (f Findings) add(r *rule, side string) {
	f[Finding{r.name, strings.ToLower(r.config.GetMode().String()), side}]++
}

// Texts returns the findings for people, such as "mask pii/email in the request: 2", in order.
func (f Findings) Texts() []string {
	var all []string
	for of, n := range f {
		all = append(all, fmt.Sprintf("%s %s in the %s: %d", of.Mode, of.Rule, of.Side, n))
	}
	slices.Sort(all)
	return all
}
