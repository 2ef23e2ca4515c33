package guard

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/scan"
)

// A kind is a kind of sensitive data. Its expression is tried only where one may begin: expressions cost a hundred
// times as much as looking for that.
type kind struct {
	label   string                          // in placeholders
	next    func(text string, from int) int // the next place at which one may begin, or -1
	pattern *regexp.Regexp                  // anchored
	accept  func(found string) int          // how much of it is one, from its beginning; nil: all of it
}

func anchored(pattern string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + pattern + `)`) }

// kinds are the kinds of data whose form is known.
var kinds = map[configv1.SensitiveData]kind{
	configv1.SensitiveData_EMAIL: {"EMAIL", nextEmail,
		anchored(`[\pL\pM\pN._%+'-]{1,64}@(?:[\pL\pN](?:[\pL\pM\pN-]{0,61}[\pL\pM\pN])?\.)+` +
			`(?:xn--[A-Za-z0-9-]{1,59}|[A-Za-z]{2,24}\b|[\pL\pM]{2,24})`), nil},
	configv1.SensitiveData_PHONE: {"PHONE", nextNumber(8, 24, "+("),
		anchored(`\+\d{1,3}(?:[ ./-]?\(?\d{1,4}\)?){2,7}\d|(?:\(\d{3}\) ?|\d{3}[-.])\d{3}[-.]\d{4}\b`),
		shorter(isPhone)},
	configv1.SensitiveData_CARD: {"CARD", nextNumber(13, 24, ""),
		anchored(`(?:\d{4}[ .-]){4}\d{1,3}\b|(?:\d{4}[ .-]){3}\d{4}\b|\d{4}[ .-]\d{6}[ .-]\d{4,5}\b|\d{6}[ .-]\d{13}\b|\d{13,19}\b`),
		shorter(isCard)},
	configv1.SensitiveData_IBAN: {"IBAN", nextIBAN,
		anchored(`[A-Za-z]{2}\d{2}(?:[ .-]?[A-Za-z0-9]){11,30}\b`), shorter(isIBAN)},
	configv1.SensitiveData_IP_ADDRESS: {"IP_ADDRESS", nextIP, anchored(`(?:\d{1,3}\.){3}\d{1,3}\b|[0-9A-Fa-f:]{2,39}`), whole(isIP)},
	configv1.SensitiveData_SECRET:     {"SECRET", nextSecret, anchored(secrets), nil},
}

// secrets are the forms of keys and tokens that their services document. Each begins with one of secretPrefixes.
const secrets = `-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[^-]|-[^-])*(?:-----END [A-Z ]*PRIVATE KEY-----)?` +
	`|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}` + // JWT
	`|sk-(?:ant-|proj-|or-v1-|mg-|svcacct-)?[A-Za-z0-9_-]{20,}` + // OpenAI, Anthropic, OpenRouter, this gateway
	`|(?:xai-|gsk_|pplx-|csk-|fw_)[A-Za-z0-9]{20,}|(?:nvapi-|tgp_v1_)[A-Za-z0-9_-]{32,}` + // xAI, Groq, Perplexity, Cerebras, Fireworks, NVIDIA, Together
	`|mg(?:adm|ses)_[A-Za-z0-9.]{20,}` + // administration of this gateway
	`|A[KS]IA[A-Z0-9]{16}\b` + // AWS
	`|AIza[A-Za-z0-9_-]{35}` + // Google
	`|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{22,}` + // GitHub
	`|glpat-[A-Za-z0-9_-]{20,}` + // GitLab
	`|xox[abprs]-[A-Za-z0-9-]{10,}` + // Slack
	`|[rs]k_live_[A-Za-z0-9]{16,}` + // Stripe
	`|hf_[A-Za-z0-9]{30,}` + // Hugging Face
	`|npm_[A-Za-z0-9]{36}\b|pypi-[A-Za-z0-9_-]{50,}` +
	`|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}` // SendGrid

var secretPrefixes = []string{"-----BEGIN ", "eyJ", "sk-", "xai-", "gsk_", "pplx-",
	"csk-", "fw_", "nvapi-", "tgp_v1_", "mgadm_", "mgses_", "AKIA", "ASIA", "AIza", "ghp_", "gho_",
	"ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xoxa-", "xoxb-", "xoxp-", "xoxr-", "xoxs-", "sk_live_", "rk_live_",
	"hf_", "npm_", "pypi-", "SG."}

// begins reports whether a word may begin at a place.
func begins(text string, i int) bool { return i == 0 || !scan.IsWord(text[i-1]) }

// secretsFrom are the prefixes by their first byte.
var secretsFrom = func() (by [256][]string) {
	for _, p := range secretPrefixes {
		by[p[0]] = append(by[p[0]], p)
	}
	return by
}()

func nextSecret(text string, from int) int {
	for i := from; i < len(text); i++ {
		for _, p := range secretsFrom[text[i]] {
			if begins(text, i) && strings.HasPrefix(text[i:], p) {
				return i
			}
		}
	}
	return -1
}

// nextEmail returns where the name before the next @ begins. Within text without spaces it begins where the script
// changes.
func nextEmail(text string, from int) int {
	for at := from; ; {
		i := strings.IndexByte(text[at:], '@')
		if i < 0 {
			return -1
		}
		i += at
		start, unspaced := i, false
		for n := 0; start > from && n < 64; n++ {
			r, size := utf8.DecodeLastRuneInString(text[from:start])
			within := r == '\'' && start < i && start-size > from && isLetter(text[start-2]) // as in o'brien
			if !within && !scan.IsWordRune(r) && (r >= utf8.RuneSelf || strings.IndexByte(".%+-", byte(r)) < 0) ||
				start < i && scan.IsUnspaced(r) != unspaced {
				break
			}
			start, unspaced = start-size, scan.IsUnspaced(r)
		}
		if start < i {
			return start
		}
		at = i + 1
	}
}

// nextNumber returns a function that finds where a number may begin: a digit, or another character with a digit after
// it, with as many digits within the next bytes.
func nextNumber(digits, within int, others string) func(string, int) int {
	return func(text string, from int) int {
		for i := from; i < len(text); i++ {
			c := text[i]
			if c > '9' || c < '(' { // a letter or a space, as most are
				continue
			}
			is := isDigit(c) && begins(text, i) || strings.IndexByte(others, c) >= 0 && i+1 < len(text) && isDigit(text[i+1])
			if !is {
				continue
			}
			found := 0
			for k := i; k < len(text) && k < i+within && found < digits; k++ {
				if isDigit(text[k]) {
					found++
				}
			}
			if found == digits {
				return i
			}
		}
		return -1
	}
}

func nextIBAN(text string, from int) int {
	for i := from + 2; i+1 < len(text); i++ {
		if isDigit(text[i]) && isDigit(text[i+1]) && isLetter(text[i-1]) && isLetter(text[i-2]) &&
			(begins(text, i-2) || text[i-3] == '_') {
			return i - 2
		}
	}
	return -1
}

// nextIP returns where a group before the next dot or colon begins, if a group follows it.
func nextIP(text string, from int) int {
	for i := from; i < len(text); i++ {
		if c := text[i]; c != '.' && c != ':' || i+1 == len(text) || !isHex(text[i+1]) && text[i+1] != ':' {
			continue
		}
		start := i
		for start > from && i-start < 4 && isHex(text[start-1]) {
			start--
		}
		tried := text[i] == ':' && start > 1 && text[start-1] == ':' && isHex(text[start-2]) // with the groups before it
		if begins(text, start) && !tried && (text[i] == ':' || start < i) {
			return start
		}
	}
	return -1
}

func isDigit(c byte) bool   { return c >= '0' && c <= '9' }
func isCapital(c byte) bool { return c >= 'A' && c <= 'Z' }
func isLetter(c byte) bool  { return isCapital(c) || c >= 'a' && c <= 'z' }
func isHex(c byte) bool     { return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

func hasDigit(text string) bool {
	for i := range len(text) {
		if isDigit(text[i]) {
			return true
		}
	}
	return false
}

// whole accepts all of a candidate, or nothing.
func whole(is func(string) bool) func(string) int {
	return func(found string) int {
		if is(found) {
			return len(found)
		}
		return 0
	}
}

// digits returns the digits of a text.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && isDigit(byte(r)) {
			return r
		}
		return -1
	}, text)
}

// isPhone accepts the lengths of E.164.
func isPhone(found string) bool {
	n := len(digits(found))
	return n >= 8 && n <= 15
}

// isCard accepts the first digits and lengths of payment cards (ISO/IEC 7812), with a right checksum (Luhn).
func isCard(found string) bool {
	number := digits(found)
	if len(number) < 13 || len(number) > 19 || number[0] < '2' || number[0] > '6' ||
		strings.Trim(number, number[:1]) == "" {
		return false
	}
	sum := 0
	for i := range len(number) {
		d := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// shorter accepts as much of a candidate as is one. A word or number behind it looks like its last group.
func shorter(is func(string) bool) func(string) int {
	return func(found string) int {
		for !is(found) {
			i := strings.LastIndexAny(found, " ./-")
			if i < 0 {
				return 0
			}
			found = found[:i]
		}
		return len(found)
	}
}

// ibans are the lengths of IBANs, by their countries.
// https://www.swift.com/standards/data-standards/iban-international-bank-account-number
const ibans = "AD24 AE23 AL28 AT20 AZ28 BA20 BE16 BG22 BH22 BI27 BR29 BY28 CH21 CR22 CY28 CZ24 DE22 DJ27 DK18 DO28 EE20 EG29 " +
	"ES24 FI18 FK18 FO18 FR27 GB22 GE22 GI23 GL18 GR27 GT28 HN28 HR21 HU28 IE22 IL23 IQ23 IS26 IT27 JO30 KW30 KZ20 " +
	"LB28 LC32 LI21 LT20 LU20 LV21 LY25 MC27 MD24 ME22 MK19 MN20 MR27 MT31 MU30 NI28 NL18 NO15 OM23 PK24 PL28 PS29 " +
	"PT25 QA29 RO24 RS22 RU33 SA24 SC31 SD18 SE24 SI19 SK24 SM27 SO23 ST25 SV28 TL23 TN24 TR26 UA29 VA22 VG24 XK20 YE30"

// isIBAN accepts a right checksum (ISO 13616: modulo 97). One with small letters must have the length of its country.
func isIBAN(found string) bool {
	text := strings.NewReplacer(" ", "", ".", "", "-", "").Replace(found)
	if len(text) < 15 || len(text) > 34 {
		return false
	}
	if upper := strings.ToUpper(text); upper != text {
		if !strings.Contains(ibans, upper[:2]+strconv.Itoa(len(upper))) {
			return false
		}
		text = upper
	}
	rest := 0
	for _, r := range text[4:] + text[:4] {
		if r >= 'A' {
			rest = (rest*100 + int(r-'A') + 10) % 97
		} else {
			rest = (rest*10 + int(r-'0')) % 97
		}
	}
	return rest == 1
}

// isIP accepts addresses. Of version 6 at least three groups must be there: "::" and "a::" are found in code.
func isIP(found string) bool {
	a, err := netip.ParseAddr(found)
	return err == nil && (a.Is4() || strings.Count(strings.Trim(found, ":"), ":") >= 2)
}
