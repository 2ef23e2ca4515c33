package configv1

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/modelgate/modelgate/api/config/expression"
	"github.com/modelgate/modelgate/api/config/options"
)

const (
	maxName  = 63
	maxModel = 256
	maxText  = 256
	hashSize = 32 // of HMAC-SHA-256
	maxHint  = 4
	maxClaim = 256
)

var (
	labelPattern    = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`)
	idPattern       = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	modelPattern    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:@+/-]*$`)
	placePattern    = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)
	endpointPattern = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._*/-]*$`)
)

// form checks the form of a text.
func (v *validator) form(field string, form options.Form, s string) {
	wrong := ""
	if form == options.Form_SINGLE && s != "default" {
		wrong = "must be default: there is one " + inWords(v.kind)
	} else if check := forms[form]; check != nil {
		wrong = check(s)
	}
	if wrong != "" {
		v.fail(field, "%s", wrong)
	}
}

// forms say what is wrong with a text, or "".
var forms = map[options.Form]func(string) string{
	options.Form_TEXT: shortText,
	options.Form_LABEL: func(s string) string {
		return unless(len(s) <= maxName && labelPattern.MatchString(s),
			"must be 1 to 63 lower-case letters, digits and dashes, and begin and end with a letter or digit")
	},
	options.Form_ID: func(s string) string {
		return unless(isID(s), "must be 1 to 63 letters, digits, _ and -")
	},
	options.Form_MODEL: func(s string) string { // clients can send it, and it can be in a path without escapes
		return unless(len(s) <= maxModel && modelPattern.MatchString(s) && path.Clean(s) == s,
			"must be 1 to 256 letters, digits and ._:@+-, in parts separated by single slashes")
	},
	options.Form_PLACE: func(s string) string { // a part of a host name or a path, which ends neither
		return unless(len(s) <= maxName && placePattern.MatchString(s) && !strings.Contains(s, ".."),
			"must be at most 63 lower-case letters, digits, dots and dashes, and begin and end with a letter or digit")
	},
	options.Form_HOST: func(s string) string {
		_, err := netip.ParseAddr(s)
		return unless(err != nil && isHost(s), "must be a DNS name such as jobs.internal")
	},
	options.Form_URL: func(s string) string {
		_, err := webhookEndpoint(s)
		return message(err)
	},
	options.Form_ISSUER:  issuer,
	options.Form_PATH:    endpoint,
	options.Form_ADDRESS: func(s string) string { _, err := ParseAddress(s); return message(err) },
	options.Form_MAILBOX: func(s string) string { // alone it can neither end a header nor begin another
		a, err := mail.ParseAddress(s)
		return unless(err == nil && a.Address == s && len(s) <= maxText && !strings.ContainsFunc(s, unicode.IsControl),
			"must be an e-mail address such as ops@example.com, without a name")
	},
	options.Form_IDENTITY: identity,
	options.Form_SCOPE: func(s string) string {
		return unless(s != "" && len(s) <= maxClaim && !strings.ContainsFunc(s, notInScope),
			"must be a scope of OAuth, such as groups")
	},
	options.Form_DOMAIN: func(s string) string {
		return unless(slices.Contains(DomainNames(), s), "must be one of "+listing(DomainNames()))
	},
	options.Form_EXPRESSION: celExpression,
	options.Form_USD:        func(s string) string { _, err := ParseUSD(s); return message(err) },
	options.Form_MONEY:      money,
	options.Form_PEM:        pemCertificates,
	options.Form_HASH:       func(s string) string { return unless(len(s) == hashSize, "must be 32 bytes") },
	options.Form_HINT:       func(s string) string { return unless(len(s) <= maxHint, "must be at most 4 characters") },
}

func unless(right bool, message string) string {
	if right {
		return ""
	}
	return message
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func isID(s string) bool { return len(s) <= maxName && idPattern.MatchString(s) }

// shortText accepts a short line of text.
func shortText(s string) string {
	return unless(len(s) <= maxText && !strings.ContainsFunc(s, unicode.IsControl),
		"must be at most 256 bytes without control characters")
}

// issuer accepts what an issuer may be (OpenID Connect Discovery, section 3), and http on a loopback address.
func issuer(s string) string {
	u, err := url.Parse(s)
	local := err == nil && u.Scheme == "http" && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && !local, len(s) > maxURL:
		return "must be a URL that begins with https://, as the issuer's tokens have it"
	case u.User != nil, u.RawQuery != "", u.ForceQuery, u.Fragment != "":
		return "must have no user, query or fragment"
	}
	return ""
}

// endpoint accepts a path of the gateway, or a pattern of paths.
func endpoint(s string) string {
	switch {
	case strings.HasPrefix(strings.TrimPrefix(s, "/"), "v1/") || strings.HasPrefix(s, "/"):
		return "must be a path under /v1/ without that, such as chat/completions"
	case len(s) > maxText || !endpointPattern.MatchString(s):
		return "must be a path under /v1/ such as chat/completions, or a pattern such as audio/*"
	}
	return ""
}

// identity accepts a pattern of the names in certificates. One that everybody fits would be a mistake.
func identity(pattern string) string {
	notPrintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if strings.Trim(pattern, "*") == "" || strings.ContainsFunc(pattern, notPrintable) {
		return "must be a URI such as spiffe://example.org/ns/ml/*, or a DNS name, without spaces"
	}
	return shortText(pattern)
}

// notInScope reports whether a scope cannot have a character (RFC 6749, section 3.3).
func notInScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// celExpression accepts the text of an expression.
func celExpression(text string) string {
	if len(text) > expression.MaxBytes {
		return fmt.Sprintf("must have at most %d bytes", expression.MaxBytes)
	}
	if _, err := expression.Program(text); err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n") // the other lines repeat the expression
		return "must be an expression in CEL: " + line
	}
	return ""
}

// money accepts US dollars: decimal digits, which are exact, within a bound that catches typing errors.
func money(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	_, fraction, _ := strings.Cut(text, ".")
	return unless(err == nil && strings.Trim(text, "0123456789.") == "" && f <= 10_000 && len(fraction) <= 6,
		"must be US dollars, such as 0.15, for a million tokens or one image, with at most six digits after the point, and at most 10000")
}

// pemCertificates accepts only certificates, at least one.
func pemCertificates(text string) string {
	return pemBlocks(text, "certificate", "CERTIFICATE", func(der []byte) error {
		_, err := x509.ParseCertificate(der)
		return err
	})
}

// pemBlocks accepts only blocks of a type, at least one, which can be read.
func pemBlocks(text, what, blockType string, read func(der []byte) error) string {
	rest := []byte(text)
	for n := 0; ; n++ {
		block, after := pem.Decode(rest)
		if block == nil {
			return unless(n > 0 && strings.TrimSpace(string(rest)) == "",
				fmt.Sprintf("must be PEM %ss; after %d of them there is something else", what, n))
		}
		if block.Type != blockType {
			return fmt.Sprintf("must hold only PEM %ss; block %d is a %q", what, n+1, block.Type)
		}
		if err := read(block.Bytes); err != nil {
			return fmt.Sprintf("%s %d cannot be read: %v", what, n+1, err)
		}
		rest = after
	}
}

// A TextForm is as much of a form as a schema can say. What it does not refuse, validation may.
type TextForm struct {
	Pattern string   // RE2; empty: any
	Values  []string // if not empty, all there are
	Most    int      // characters; 0: any number
}

// FormOf returns what a schema says of a form.
func FormOf(form options.Form) TextForm {
	switch form {
	case options.Form_TEXT, options.Form_IDENTITY:
		return TextForm{Most: maxText}
	case options.Form_LABEL:
		return TextForm{Pattern: labelPattern.String(), Most: maxName}
	case options.Form_ID:
		return TextForm{Pattern: idPattern.String(), Most: maxName}
	case options.Form_SINGLE:
		return TextForm{Values: []string{"default"}}
	case options.Form_MODEL:
		return TextForm{Pattern: modelPattern.String(), Most: maxModel}
	case options.Form_PLACE:
		return TextForm{Pattern: placePattern.String(), Most: maxName}
	case options.Form_URL:
		return TextForm{Pattern: `^https?://.+$`, Most: maxURL}
	case options.Form_ISSUER:
		return TextForm{Pattern: `^https?://[^?#]+$`, Most: maxURL}
	case options.Form_PATH:
		return TextForm{Pattern: endpointPattern.String(), Most: maxText}
	case options.Form_MAILBOX:
		return TextForm{Pattern: `^.+@.+$`, Most: maxText}
	case options.Form_SCOPE:
		return TextForm{Pattern: `^[!#-\[\]-~]+$`, Most: maxClaim}
	case options.Form_DOMAIN:
		return TextForm{Values: DomainNames()}
	case options.Form_EXPRESSION:
		return TextForm{Most: expression.MaxBytes}
	case options.Form_USD, options.Form_MONEY:
		return TextForm{Pattern: `^[0-9]*\.?[0-9]*$`, Most: maxName}
	case options.Form_PEM:
		return TextForm{Pattern: `-----BEGIN CERTIFICATE-----`}
	}
	return TextForm{}
}
