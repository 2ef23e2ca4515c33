package provider

import "fmt"

// MaxOpen bounds the open blocks or calls of a choice, because each piece of a stream is looked up among them.
const MaxOpen = 1024

// ErrTooManyOpen is the error for an answer with more than MaxOpen.
var ErrTooManyOpen = fmt.Errorf("%w: more than %d of its blocks or calls are open", ErrNotAnAnswer, MaxOpen)

// maxID bounds the id of an answer, in bytes: each chunk of a stream repeats it.
const maxID = 512

// ID returns a vendor's id of an answer, or "" if it is too long.
func ID(id string) string {
	if len(id) > maxID {
		return ""
	}
	return id
}
