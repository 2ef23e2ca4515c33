package configv1

import (
	"cmp"
	"slices"
	"time"
)

const (
	defaultCheckTime = 2 * time.Second
	maxCheckTime     = 30 * time.Second
	maxPrompt        = 16 << 10 // bytes
	maxCategories    = 100
)

// Patience returns how long an answer of the checker is waited for.
func (c *Checker) Patience() time.Duration { return orDefault(c.GetTimeout(), defaultCheckTime) }

func (c *Checker) check(v *validator) {
	if secret := c.GetCredential().GetValue(); c.GetType() == CheckerType_WEBHOOK && secret != "" {
		if err := CheckWebhookSecret(secret); err != nil {
			v.fail("credential", "%s", err)
		}
	}
	if c.GetType() == CheckerType_CHAT && c.GetModel() == "" {
		v.fail("model", "missing: CHAT needs one")
	}
	if len(c.GetPrompt()) > maxPrompt || c.GetPrompt() != "" && c.GetType() != CheckerType_CHAT {
		v.fail("prompt", "must be at most %d bytes, and is for CHAT only", maxPrompt)
	}
	if l := c.GetLanguage(); l != "" && (c.GetType() != CheckerType_PRESIDIO || !isLanguage(l)) {
		v.fail("language", "must be two small letters, such as de, and is for PRESIDIO only")
	}
	if d := c.Patience(); d < 10*time.Millisecond || d > maxCheckTime {
		v.fail("timeout", "must be from 0.01 s to %d s", int(maxCheckTime.Seconds()))
	}
}

func isLanguage(s string) bool {
	return len(s) == 2 && s[0] >= 'a' && s[0] <= 'z' && s[1] >= 'a' && s[1] <= 'z'
}

// Spoken returns the language of the texts.
func (c *Checker) Spoken() string { return cmp.Or(c.GetLanguage(), "en") }

// tellsFound reports whether the checker says where it has found something.
func (c *Checker) tellsFound() bool {
	switch c.GetType() {
	case CheckerType_WEBHOOK, CheckerType_BEDROCK, CheckerType_PRESIDIO:
		return true
	}
	return false
}

// categoriesOf returns the categories of a checker; nil if only the checker knows them.
func (c *Checker) categoriesOf() []string {
	switch c.GetType() {
	case CheckerType_AZURE_TEXT:
		return []string{"Hate", "SelfHarm", "Sexual", "Violence"}
	case CheckerType_AZURE_SHIELD:
		return []string{"attack"}
	}
	return nil
}

// unscored reports whether the checker only flags.
func (c *Checker) unscored() bool {
	switch c.GetType() {
	case CheckerType_CHAT, CheckerType_AZURE_SHIELD, CheckerType_BEDROCK:
		return true
	}
	return false
}

// checkerRules returns what is wrong between the rules of a guardrail and the checkers that they name. A rule that can
// find nothing is an error: it would look as if it guarded.
func checkerRules(g *Guardrail, checkers map[string]*Checker, refer func(Object, string, Object)) (errs Errors) {
	for i, r := range g.GetRules() {
		if r.GetChecker() == "" {
			continue
		}
		at := element("rules", i)
		c := checkers[r.GetChecker()]
		if c == nil {
			refer(g, at+".checker", &Checker{Name: r.GetChecker()})
			continue
		}
		if r.GetThreshold() > 0 && c.unscored() {
			errs.add(Label(g), at+".threshold", "cannot be given: %s of type %s has no scores", Label(c), c.GetType())
		}
		if c.GetType() == CheckerType_AZURE_SHIELD && r.LooksIn(GuardSide_ANSWERS) {
			errs.add(Label(g), at+".in", "must be [REQUESTS]: %s of type %s finds attacks on a model", Label(c), c.GetType())
		}
		if r.GetMode() == GuardMode_MASK && !c.tellsFound() {
			errs.add(Label(g), at+".mode", "cannot be MASK: %s of type %s does not say what to mask", Label(c), c.GetType())
		}
		for n, category := range r.GetCategories() {
			if known := c.categoriesOf(); known != nil && !slices.Contains(known, category) {
				errs.add(Label(g), element(at+".categories", n), "must be one of %s", listing(known))
			}
		}
	}
	return errs
}

// guardCheck checks a rule that has a checker judge.
func (v *validator) guardCheck(r *GuardRule) {
	if r.GetChecker() == "" {
		if len(r.GetCategories()) > 0 || r.GetThreshold() != 0 || r.GetPassOnFailure() {
			v.fail("checker", "missing: categories, threshold and pass_on_failure are for rules with a checker")
		}
		return
	}
	if r.GetMode() == GuardMode_MASK && r.LooksIn(GuardSide_ANSWERS) {
		v.fail("in", "must be [REQUESTS] for MASK with a checker")
	}
	if len(r.GetCategories()) > maxCategories {
		v.fail("categories", "must be at most %d", maxCategories)
	}
	if t := r.GetThreshold(); !(t >= 0 && t <= 100) { // also for one that is not a number
		v.fail("threshold", "must be from 0 to 100")
	}
}
