package configv1

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"time"
	"unicode/utf8"
)

// Defaults and bounds of Bodies.
const (
	defaultBodyBytes      = 64 << 10
	maxBodyBytes          = 1 << 20
	defaultBodyTotal      = 1 << 30
	maxBodyTotal          = 1 << 50
	defaultBodyRetention  = 30 * 24 * time.Hour
	maxBodyRetention      = 365 * 24 * time.Hour
	minBodyRetention      = time.Minute
	maxRedactionPattern   = 512 // characters
	redactNone            = "none"
	maxRedactionPositions = 2000 // instructions of the compiled expression
)

var redactionName = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// BuiltInRedactions returns the names of the built-in rules of [Bodies].
func BuiltInRedactions() []string { return []string{"email", "card", "api_key"} }

// BuiltIn returns the built-in rules that apply.
func (x *Bodies) BuiltIn() []string {
	switch {
	case len(x.GetRedact()) == 0:
		return BuiltInRedactions()
	case slices.Contains(x.GetRedact(), redactNone):
		return nil
	}
	return x.GetRedact()
}

// BodyBytes bounds the part of each body that is kept.
func (x *Bodies) BodyBytes() int { return int(cmp.Or(x.GetMaxBytes(), defaultBodyBytes)) }

// TotalBytes bounds all that is kept under the setting.
func (x *Bodies) TotalBytes() int64 { return int64(cmp.Or(x.GetMaxTotalBytes(), defaultBodyTotal)) }

// KeptFor returns how long bodies are kept.
func (x *Bodies) KeptFor() time.Duration { return orDefault(x.GetRetention(), defaultBodyRetention) }

func (x *Bodies) check(v *validator) {
	if !(x.GetShare() >= 0 && x.GetShare() <= 1) { // also for one that is not a number
		v.fail("share", "must be from 0 to 1")
	}
	for i, name := range x.GetRedact() {
		if name != redactNone && !slices.Contains(BuiltInRedactions(), name) {
			v.fail(element("redact", i), "must be one of %s, or none", listing(BuiltInRedactions()))
		}
	}
	if slices.Contains(x.GetRedact(), redactNone) && len(x.GetRedact()) > 1 {
		v.fail("redact", "none cannot be given together with others")
	}
	if x.GetMaxBytes() > maxBodyBytes {
		v.fail("max_bytes", "must be at most %d", maxBodyBytes)
	}
	if x.GetMaxTotalBytes() > maxBodyTotal {
		v.fail("max_total_bytes", "must be at most %d", maxBodyTotal)
	}
	if d := x.KeptFor(); d < minBodyRetention || d > maxBodyRetention {
		v.fail("retention", "must be from %s to %s", minBodyRetention, maxBodyRetention)
	}
}

func (r *Redaction) check(v *validator) {
	if !redactionName.MatchString(r.GetName()) {
		v.fail("name", "must be 1 to 32 lower-case letters, digits, _ and -")
	}
	if r.GetPattern() == "" || utf8.RuneCountInString(r.GetPattern()) > maxRedactionPattern {
		v.fail("pattern", "must have 1 to %d characters", maxRedactionPattern)
		return
	}
	parsed, err := syntax.Parse(r.GetPattern(), syntax.Perl)
	if err != nil {
		v.fail("pattern", "is not a regular expression in the syntax of RE2: %v", err)
		return
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxRedactionPositions {
		v.fail("pattern", "is too large: use smaller counts of repetition")
		return
	}
	if regexp.MustCompile(r.GetPattern()).MatchString("") {
		v.fail("pattern", "matches the empty text")
	}
}
