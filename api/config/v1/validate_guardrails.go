package configv1

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/modelgate/modelgate/api/config/expression"
)

const (
	maxPatterns   = 100
	maxPattern    = 1000 // bytes
	maxRuleSteps  = 50_000
	maxWords      = 10_000
	maxWord       = 200 // bytes
	defaultWindow = 128
	defaultJudged = 1024
)

// HeldBack returns the number of bytes of a streamed answer that are held back.
func (g *Guardrail) HeldBack() int {
	if g.GetWindow() == 0 {
		return defaultWindow
	}
	return int(g.GetWindow())
}

// JudgedAtOnce returns the number of bytes of a streamed answer that checkers judge at once.
func (g *Guardrail) JudgedAtOnce() int {
	if g.GetCheckWindow() == 0 {
		return defaultJudged
	}
	return int(g.GetCheckWindow())
}

// LooksIn reports whether a rule looks at a side.
func (r *GuardRule) LooksIn(side GuardSide) bool {
	return len(r.GetIn()) == 0 || slices.Contains(r.GetIn(), side)
}

func (g *Guardrail) check(v *validator) {
	if g.GetKey() != "" && g.GetOrganization() != "" {
		v.fail("key", "cannot be given together with organization: a key has one")
	}
}

func (r *GuardRule) check(v *validator) {
	for i, d := range r.GetData() {
		if SensitiveData_name[int32(d)] == "" || d == SensitiveData_SENSITIVE_DATA_UNSPECIFIED {
			v.fail(element("data", i), "must be one of %s", listing(sensitiveNames()))
		}
	}
	v.guardPatterns(r)
	v.guardCheck(r)
	ofText := len(r.GetData()) + len(r.GetPatterns()) + len(r.GetWords())
	ofRequest := len(r.GetAllowedTools()) > 0 || r.GetMaxCharacters() > 0 || r.GetMaxMessages() > 0
	switch {
	case r.GetChecker() != "" && (ofText > 0 || ofRequest):
		v.fail("", "cannot have a checker together with what the rule itself finds: use two rules")
	case r.GetChecker() != "":
	case ofText == 0 && !ofRequest:
		v.fail("", "needs data, patterns, words, allowed_tools, max_characters, max_messages or a checker: otherwise it finds nothing")
	case ofRequest && r.GetMode() == GuardMode_MASK:
		v.fail("mode", "cannot be MASK with allowed_tools, max_characters or max_messages, which find nothing that could be masked")
	case ofRequest && !r.LooksIn(GuardSide_REQUESTS):
		v.fail("in", "must have REQUESTS with allowed_tools, max_characters or max_messages")
	}
}

func (v *validator) guardPatterns(r *GuardRule) {
	if len(r.GetPatterns()) > maxPatterns {
		v.fail("patterns", "must be at most %d", maxPatterns)
		return
	}
	steps := 0
	for i, p := range r.GetPatterns() {
		field := element("patterns", i)
		n, err := expression.Steps(p)
		steps += n
		switch {
		case len(p) > maxPattern:
			v.fail(field, "must have at most %d bytes", maxPattern)
		case err != nil:
			v.fail(field, "must be a regular expression in RE2's syntax: %v", err)
		case n > expression.MaxSteps || steps > maxRuleSteps:
			v.fail(field, "is too large: it may have %d steps, and all of a rule %d; each character is one, as often as it may be repeated",
				expression.MaxSteps, maxRuleSteps)
			return
		case matchesNothing(p):
			v.fail(field, "must not match an empty text")
		}
	}
	if len(r.GetWords()) > maxWords {
		v.fail("words", "must be at most %d", maxWords)
	}
	for i, w := range r.GetWords() {
		if len(w) > maxWord || strings.TrimSpace(w) != w || w == "" || strings.ContainsFunc(w, unicode.IsControl) {
			v.fail(element("words", i), "must be 1 to %d bytes without spaces at its ends", maxWord)
		}
	}
}

// matchesNothing reports whether a regular expression matches an empty text.
func matchesNothing(pattern string) bool {
	compiled, err := regexp.Compile(pattern)
	return err == nil && compiled.MatchString("")
}

// sensitiveNames returns the names of the kinds of data, in order.
func sensitiveNames() []string {
	var names []string
	for n := int32(1); SensitiveData_name[n] != ""; n++ {
		names = append(names, SensitiveData_name[n])
	}
	return names
}
