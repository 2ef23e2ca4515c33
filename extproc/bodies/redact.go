package bodies

import (
	"bytes"
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/scan"
)

// Rules replace what must not be stored. They are immutable.
type Rules struct{ list []rule }

// A rule replaces what a pattern matches by its name in brackets.
type rule struct {
	name    string
	needs   string // text without it does not match; may be empty
	pattern *regexp.Regexp
	own     *scan.Patterns // of the operator, in place of pattern: its work is counted
	// within, if not nil, returns which parts of a match are replaced, as offsets, in their order.
	within func(match string) [][2]int
}

// builtIn are the rules that every gateway has. The order matters: a key may contain what looks like a card.
func builtIn() []rule {
	return []rule{
		{name: "api_key", pattern: regexp.MustCompile(
			`-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)` +
				`|(?i:\bbearer\s+)[A-Za-z0-9._~+/=-]{16,}` +
				`|\b(?:sk|pk|rk|mg)[-_][A-Za-z0-9_-]{16,}` +
				`|\bmgadm_[A-Za-z0-9._-]{16,}` +
				`|\b(?:AKIA|ASIA)[0-9A-Z]{16}` +
				`|\b(?:gh[pousr]_|github_pat_|glpat-|hf_|gsk_|xai-|AIza|xox[abeprs]-)[A-Za-z0-9_-]{16,}` +
				`|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`)},
		{name: "email", needs: "@", pattern: regexp.MustCompile(
			`[\pL\pN._%+'-]{1,64}@[\pL\pN-]{1,63}(?:\.[\pL\pN-]{1,63})+`)},
		{name: "card", pattern: regexp.MustCompile(`[0-9](?:[ \x{a0}-]?[0-9]){12,}`), within: cards},
	}
}

// NewRules compiles the rules of a setting.
func NewRules(b *configv1.Bodies) (*Rules, error) {
	wanted := b.BuiltIn()
	r := &Rules{}
	for _, known := range builtIn() {
		for _, name := range wanted {
			if name == known.name {
				r.list = append(r.list, known)
			}
		}
	}
	for _, p := range b.GetPatterns() {
		pattern, err := scan.NewPattern(p.GetPattern())
		if err != nil {
			return nil, err
		}
		r.list = append(r.list, rule{name: p.GetName(), own: pattern})
	}
	return r, nil
}

// maxWork bounds the work of the operator's rules on one body, in steps of a few nanoseconds: about a second.
const maxWork = 1 << 28

// text redacts text, and returns how many pieces it has replaced.
func (r *Rules) text(ctx context.Context, work *scan.Work, s string, onlyOwn bool) (string, int, error) {
	total := 0
	for i := range r.list {
		if onlyOwn && r.list[i].own == nil {
			continue
		}
		var n int
		var err error
		if s, n, err = r.list[i].apply(ctx, work, s); err != nil {
			return "", 0, err
		}
		total += n
	}
	return s, total, nil
}

// find returns the places of matches.
func (r *rule) find(ctx context.Context, work *scan.Work, s string) (all [][]int, err error) {
	if r.own == nil {
		return r.pattern.FindAllStringIndex(s, -1), work.Spend(ctx, len(s))
	}
	err = r.own.Find(ctx, work, s, func(from, to int) { all = append(all, []int{from, to}) })
	return all, err
}

func (r *rule) apply(ctx context.Context, work *scan.Work, s string) (string, int, error) {
	if !strings.Contains(s, r.needs) {
		return s, 0, nil
	}
	found, err := r.find(ctx, work, s)
	if err != nil {
		return "", 0, err
	}
	var b strings.Builder
	done, n := 0, 0
	for _, at := range found {
		parts := [][2]int{{0, at[1] - at[0]}}
		if r.within != nil {
			parts = r.within(s[at[0]:at[1]])
		}
		for _, part := range parts {
			b.WriteString(s[done : at[0]+part[0]])
			b.WriteString("[" + r.name + "]")
			done, n = at[0]+part[1], n+1
		}
	}
	if n == 0 {
		return s, 0, nil
	}
	b.WriteString(s[done:])
	return b.String(), n, nil
}

// JSON redacts each name, string and integer of a document as the text that it stands for. The operator's rules then
// redact the document as a whole, which may leave text that is not JSON. The error may be that of ctx, or
// scan.ErrSpent.
func (r *Rules) JSON(ctx context.Context, document []byte) (string, int, error) {
	work := scan.NewWork(maxWork)
	lenient := []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}
	in := jsontext.NewDecoder(bytes.NewReader(document), lenient...)
	var out bytes.Buffer
	to := jsontext.NewEncoder(&out, lenient...)
	total := 0
	for {
		token, err := in.ReadToken()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return "", 0, err
		}
		if kind := token.Kind(); kind == '"' || kind == '0' && !strings.ContainsAny(token.String(), ".eE") {
			text, n, err := r.text(ctx, work, token.String(), false)
			if err != nil {
				return "", 0, err
			}
			if n > 0 || kind == '"' {
				token, total = jsontext.String(text), total+n
			}
		}
		if err := to.WriteToken(token); err != nil {
			return "", 0, err
		}
	}
	text, n, err := r.text(ctx, work, strings.TrimSuffix(out.String(), "\n"), true)
	return text, total + n, err
}

// cards returns the numbers in a run of digits that have the length and the check digit of a card's. A number begins
// and ends where a group of digits does, so that neither an expiry date after it hides it nor a long number contains
// one.
func cards(run string) (found [][2]int) {
	for start := 0; start < len(run); {
		end := 0
		if isDigit(run[start]) && (start == 0 || !isDigit(run[start-1])) {
			end = cardEnd(run, start)
		}
		if end == 0 {
			start++
			continue
		}
		found = append(found, [2]int{start, end})
		start = end
	}
	return found
}

// cardEnd returns the end of the longest card number that begins at start, or 0.
func cardEnd(run string, start int) (end int) {
	var digits []byte
	for i := start; i < len(run) && len(digits) < 19; i++ {
		if !isDigit(run[i]) {
			continue
		}
		digits = append(digits, run[i]-'0')
		isEnd := i+1 == len(run) || !isDigit(run[i+1])
		if isEnd && len(digits) >= 13 && hasCheckDigit(digits) {
			end = i + 1
		}
	}
	return end
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// hasCheckDigit is Luhn's algorithm.
func hasCheckDigit(digits []byte) bool {
	sum, all := 0, byte(0)
	for i := range digits {
		d := int(digits[len(digits)-1-i])
		all |= digits[i]
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0 && all != 0
}

// cut returns at most so many bytes of a text, and ends with a whole character.
func cut(s string, most int) (string, bool) {
	if len(s) <= most {
		return s, false
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most], true
}
