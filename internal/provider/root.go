package provider

import "strings"

// Root is a prefix for a job's path that is relative to the endpoint's host instead of its path. Some vendors serve
// files and jobs beside, and not below, the path for models.
const Root = "/~root"

// Join appends a job's path to the endpoint's. Paths of clients must not be passed, because Root leads out of the
// endpoint's path.
func (e Endpoint) Join(path string) string {
	if rest, ok := strings.CutPrefix(path, Root); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return e.Path + path
}
