package call

import "strconv"

// LengthOf returns the announced length of a body, in bytes.
func LengthOf(h Headers) (n int64, ok bool) {
	text := h.Get("content-length")
	if text == "" { // an error of strconv would allocate
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}
