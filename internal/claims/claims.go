// Package claims reads the claims of JSON Web Tokens.
//
// A claim is there in the type that its reader wants, or is not there, or is an error. The most likely mistake is to
// treat the third as the second: a token whose "nbf" is a text would be valid at once.
package claims

import (
	"fmt"
	"math"
	"time"
)

// Claims are the claims of a token.
type Claims map[string]any

// A TypeError is the error of a claim that is there, but not in the type that it must have.
type TypeError struct{ Name, Want string }

// Error implements error.
func (e *TypeError) Error() string { return fmt.Sprintf("its claim %.64q is not %s", e.Name, e.Want) }

// find returns a claim by its name, or by a path with dots into objects, and whether it is there. The value of a path
// through something that is no object is that.
func (c Claims) find(name string) (any, bool) {
	if value, ok := c[name]; ok {
		return value, true
	}
	return find(c, name)
}

// find takes the shortest beginning of a path that is a key of the object: keys can have dots, such as the
// "kubernetes.io" of service accounts.
func find(object map[string]any, path string) (any, bool) {
	for i := range len(path) + 1 {
		if i < len(path) && path[i] != '.' {
			continue
		}
		value, ok := object[path[:i]]
		inner, isObject := value.(map[string]any)
		switch {
		case !ok:
			continue
		case i == len(path):
			return value, true
		case value == nil:
			return nil, false
		case !isObject:
			return map[string]any{}, true // its type is none that a reader wants
		}
		return find(inner, path[i+1:])
	}
	return nil, false
}

// Text returns a claim that is a text, or "" if it is not there or null.
func (c Claims) Text(name string) (string, error) {
	switch value, _ := c.find(name); value := value.(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	}
	return "", &TypeError{name, "a string"}
}

// Texts returns the texts of a claim: of a list, or of one text. There are none if it is not there or null.
func (c Claims) Texts(name string) ([]string, error) {
	switch value, _ := c.find(name); value := value.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{value}, nil
	case []any:
		found := make([]string, len(value))
		for i, v := range value {
			text, ok := v.(string)
			if !ok {
				return nil, &TypeError{name, "a list of strings"}
			}
			found[i] = text
		}
		return found, nil
	}
	return nil, &TypeError{name, "a string or a list of strings"}
}

// maxTime bounds times, in seconds since 1970: it is in the year 36812.
const maxTime = 1 << 40

// Time returns a claim that is a NumericDate, and whether it is there.
func (c Claims) Time(name string) (t time.Time, ok bool, err error) {
	value, ok := c.find(name)
	if !ok {
		return time.Time{}, false, nil
	}
	seconds, isNumber := value.(float64)
	if !isNumber || math.IsNaN(seconds) || seconds < 0 || seconds > maxTime {
		return time.Time{}, true, &TypeError{name, "a number of seconds since 1970"}
	}
	return time.Unix(int64(seconds), 0), true, nil
}
