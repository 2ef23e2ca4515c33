package provider

import "fmt"

// MaxOpen is the most blocks or calls of a choice that are followed at a time: each piece of a stream is looked up
// among them.
const MaxOpen = 1024

// ErrTooManyOpen is returned for an answer with more of them.
var ErrTooManyOpen = fmt.Errorf("%w: more than %d of its blocks or calls are open", ErrNotAnAnswer, MaxOpen)

// maxID is the longest id of an answer that is kept, in bytes: each chunk of a stream repeats it.
const maxID = 512

// ID returns a vendor's id of an answer, or nothing where it is too long to be one.
func ID(id string) string {
	if len(id) > maxID {
		return ""
	}
	return id
}
