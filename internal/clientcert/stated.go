package clientcert

import (
	"errors"
	"regexp"
	"strings"
)

var errAmbiguous = errors.New("the proxy's x-forwarded-client-cert is not clear: it must have one element, which has the certificate (Cert) or, as its last part, one name (URI or DNS)")

// stated returns the names that a proxy states of its client. Proxies, too, write names as they are. So the text
// counts only if it can be read in one way: it is one element, no part of it is there twice, and the names come
// last. With Cert, that certificate has the names. Otherwise there is one name, because a name with a separator in
// it looks like two. A quoted name is refused: the quotes may be the name's own.
func (r *Reader) stated(header string) (Names, error) {
	seen := map[string]string{}
	var name string // the key of a name, once there was one
	for rest := header; ; {
		key, value, left, ok := cutPair(rest)
		isName := key == "uri" || key == "dns"
		switch {
		case !ok, isName && value[0] == '"', !isName && name != "", !isName && seen[key] != "" && key != "by",
			key == "cert" && strings.Trim(value, `"`) == "":
			return Names{}, errAmbiguous
		case isName && name != "" && seen["cert"] == "":
			return Names{}, errAmbiguous
		case isName:
			name = key
		}
		seen[key] = value
		if left == "" {
			break
		}
		rest = left[1:]
	}
	if c := strings.Trim(seen["cert"], `"`); c != "" {
		return r.parse(c)
	}
	var n Names
	switch name {
	case "uri":
		n.add(tagURI, seen[name])
	case "dns":
		n.add(tagHost, seen[name])
	}
	return n, nil
}

// pair is a part of an element: a key, and a value that is in quotes, with escapes, or has no separator.
var pair = regexp.MustCompile(`^(?i:(by|hash|cert|chain|subject|uri|dns))=("(?:[^"\\]|\\.)*"|[!#-+\x2d-:<-\[\]-~]+)(?:$|;)`)

// cutPair returns the first pair, and what comes after it, with the separator.
func cutPair(s string) (key, value, left string, ok bool) {
	at := pair.FindStringSubmatchIndex(s)
	if at == nil {
		return "", "", "", false
	}
	return strings.ToLower(s[at[2]:at[3]]), s[at[4]:at[5]], s[at[5]:], true
}
