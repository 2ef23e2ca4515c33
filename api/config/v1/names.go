package configv1

import (
	"fmt"
	"net/url"
	"strings"
)

// Fold returns a text in the form in which names are compared where case does not count: letters of ASCII in lower
// case, and nothing else changed. Unicode makes one name of two: the Kelvin sign becomes a k, and a dotted İ an i.
func Fold(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}

// AccountName returns the name under which an account is stored, of a name as a person types it or a directory or an
// identity provider writes it. A name that has anything but ASCII is refused, never mapped to another.
func AccountName(written string) (string, error) {
	name := Fold(written)
	if len(name) > maxAccount || !accountPattern.MatchString(name) {
		return "", fmt.Errorf("must be 1 to %d letters of ASCII, digits and ._%%+@-, such as an address of e-mail", maxAccount)
	}
	return name, nil
}

// SameIssuer reports whether two addresses are of one issuer. The case of the host and a slash at the end do not
// count.
func SameIssuer(a, b string) bool {
	return a == b || a != "" && b != "" && plainIssuer(a) == plainIssuer(b)
}

func plainIssuer(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return s
	}
	u.Scheme, u.Host = Fold(u.Scheme), Fold(u.Host)
	return strings.TrimSuffix(u.String(), "/")
}
