package configv1

import "strings"

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
