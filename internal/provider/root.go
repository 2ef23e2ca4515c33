package provider

import "strings"

// Root stands in front of a path of a job's request that is relative to the endpoint's host, not to its path: some
// vendors serve files and jobs beside, not below, the place where they serve models.
const Root = "/~root"

// Join returns the path of a job's request to the endpoint. Paths that come from clients must not take this way: Root
// leads out of the endpoint's path.
func (e Endpoint) Join(path string) string {
	if rest, ok := strings.CutPrefix(path, Root); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return e.Path + path
}
