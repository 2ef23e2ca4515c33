package configv1

import (
	"slices"
	"strings"
)

// A Client is whose request it is, or who has an object.
type Client struct{ Key, Organization, Project string }

// A Scoped object is for the clients of an organization, or of a project of it; for all if it names none.
type Scoped interface {
	GetOrganization() string
	GetProject() string
}

// A keyed object may be for one key.
type keyed interface{ GetKey() string }

// Covers reports whether an object is for a client: what it names is the client's.
func Covers(o Scoped, c Client) bool {
	if of := o.GetOrganization(); of != "" && of != c.Organization {
		return false
	}
	if of := o.GetProject(); of != "" && of != c.Project {
		return false
	}
	k, ok := o.(keyed)
	return !ok || k.GetKey() == "" || k.GetKey() == c.Key
}

// CoversModel reports whether an object with patterns of models is for a model: one fits, or there are none.
func CoversModel(o interface{ GetModels() []string }, model string) bool {
	patterns := o.GetModels()
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return Matches(p, model) })
}

// Matches reports whether name matches a pattern in which "*" matches any characters, including slashes and dots. All
// patterns of the configuration use it. Its time is bounded by the product of the lengths, because the name is often
// the client's.
func Matches(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p, n = p+1, n+1
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
