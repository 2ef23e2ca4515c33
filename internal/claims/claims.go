// Package claims reads the claims of JSON Web Tokens.
package claims

import "strings"

// Claims are what a token says.
type Claims map[string]any

// Get returns a claim by its name, or by a path with dots into objects; nil where there is none.
func (c Claims) Get(name string) any {
	if value, ok := c[name]; ok {
		return value
	}
	all := map[string]any(c)
	for {
		first, rest, more := strings.Cut(name, ".")
		if !more {
			return all[name]
		}
		all, _ = all[first].(map[string]any)
		name = rest
	}
}

// Text returns a claim that is a text, or "".
func (c Claims) Text(name string) string {
	text, _ := c.Get(name).(string)
	return text
}

// Texts returns the texts of a claim: of a list, or of one text.
func (c Claims) Texts(name string) []string {
	switch value := c.Get(name).(type) {
	case string:
		return []string{value}
	case []any:
		var found []string
		for _, v := range value {
			if s, ok := v.(string); ok {
				found = append(found, s)
			}
		}
		return found
	}
	return nil
}
