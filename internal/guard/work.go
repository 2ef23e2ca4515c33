package guard

import (
	"context"
	"errors"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/scan"
)

const (
	// maxWork bounds the work of rules on one side of an exchange, in steps of a few nanoseconds: about a second. What
	// people send takes less than a thousandth of it. Rules that observe have a share of their own, so that they never
	// have a request refused.
	maxWork     = 1 << 28
	maxObserved = maxWork / 4
	// stepsPerFinding is the cost of a finding: it is kept, sorted, and gets a placeholder of its own.
	stepsPerFinding = 512
	// atOnce is how much work other requests may have to wait for: about a millisecond.
	atOnce = 1 << 19
)

// Work is what rules may do on one side of an exchange. It is used by one goroutine at a time.
type Work struct {
	strict, observed scan.Work

	failed  map[*rule]bool // rules that observe, and could not look at everything
	failure error          // why the work has ended: of its context, or an *Unjudged
}

// NewWork returns the work on one side of an exchange.
func NewWork() *Work {
	return &Work{strict: *scan.NewWork(maxWork), observed: *scan.NewWork(maxObserved)}
}

// Pause sets what is called after each piece of work. It may wait, and its error ends the work. It may be nil.
func (w *Work) Pause(wait func(context.Context) error) { w.strict.Pause, w.observed.Pause = wait, wait }

// of returns the work of a rule.
func (w *Work) of(r *rule) *scan.Work {
	if r.isStrict() {
		return &w.strict
	}
	return &w.observed
}

// An Unjudged is the rule that could not look at all of a text, because the work is used up.
type Unjudged struct{ Rule string }

// Error implements error.
func (u *Unjudged) Error() string { return "the work of rules is used up: " + u.Rule }

// Refusal returns the error for the client whose request, or whose answer, takes too much work.
func (u *Unjudged) Refusal() *openai.Error {
	return openai.CodeGuardrailWorkExceeded.New("The guardrail '%s' cannot judge so much text: its rules take more work than a request may cause.",
		u.Rule).Final()
}

// end returns the error of a rule whose work has ended. A rule that observes only notes it.
func (w *Work) end(r *rule, err error) error {
	switch {
	case !errors.Is(err, scan.ErrSpent):
		w.failure = err
		return err
	case r.isStrict():
		w.failure = &Unjudged{r.name}
		return w.failure
	}
	if w.failed == nil {
		w.failed = map[*rule]bool{}
	}
	w.failed[r] = true
	return nil
}

// note adds the rules that could not look at everything to findings.
func (w *Work) note(f Findings, side string) {
	for r := range w.failed {
		f[Finding{r.name, ModeFailed, side}] = 1
	}
}

// Fail reports the findings of rules that could not look at a request at all.
func (s *Set) Fail(found func(Finding, int)) {
	for _, r := range s.rules {
		if len(r.finds) > 0 && r.config.LooksIn(configv1.GuardSide_REQUESTS) {
			found(Finding{r.name, ModeFailed, SideRequest}, 1)
		}
	}
}

// weights of finders: their usual steps for each byte of a text.
const (
	weightOfKind    = 1
	weightOfWords   = 4
	stepsPerWeight  = 4 // of patterns: all threads are seldom under way
	weightOfLiteral = 1
)

func (f *finder) weight() int {
	switch {
	case f.patterns != nil:
		return 1 + f.patterns.Steps()/stepsPerWeight
	case f.words != nil:
		return weightOfWords
	case f.literal != "":
		return weightOfLiteral
	}
	return weightOfKind
}

// IsMuch reports whether the rules for one side may take so long for a text of so many bytes that other requests must
// not wait for it.
func (s *Set) IsMuch(bytes int, side configv1.GuardSide) bool {
	return bytes*s.weights[side] > atOnce
}

// sides is more than the number of the last side.
const sides = int(configv1.GuardSide_ANSWERS) + 1

// weigh adds a rule to the weights of sides.
func weigh(of *[sides]int, r *rule) {
	for side := range of {
		if !r.config.LooksIn(configv1.GuardSide(side)) {
			continue
		}
		for i := range r.finds {
			of[side] += r.finds[i].weight()
		}
	}
}
