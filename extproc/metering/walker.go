package metering

import "github.com/modelgate/modelgate/internal/jsonwalk"

// A walker returns the strings of a JSON object in order, with their positions. If the object is malformed, the walker
// ends early.
type walker struct {
	data  []byte
	at    int
	depth int    // of open objects and arrays around the last string
	name  []byte // of the member that contains the string
	top   []byte // of the object's own member that contains it
	topAt int    // where that member's value begins
	index int    // of the choice that contains it: the first digit after "index", two levels below the object
}

// next returns the next string value, without its quotes and still escaped. It is a part of the data.
func (w *walker) next() (value []byte, ok bool) {
	for ; w.at < len(w.data); w.at++ {
		switch c := w.data[w.at]; c {
		case '{', '[':
			w.depth++
		case '}', ']':
			w.depth--
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if w.depth == 3 && string(w.name) == "index" {
				w.index, w.name = int(c-'0'), nil
			}
		case '"':
			start := w.at + 1
			w.at = jsonwalk.String(w.data, w.at)
			end := w.at
			if end > start && w.data[end-1] == '"' { // it may be cut
				end--
			}
			s := w.data[start:end]
			if !w.names() {
				return s, true
			}
			if w.name = s; w.depth == 1 {
				w.top, w.topAt = s, w.at+1
			}
		}
	}
	return nil, false
}

// names reports whether the string before the position is a member's name. The position is then at the colon.
func (w *walker) names() bool {
	for i := w.at; i < len(w.data); i++ {
		switch w.data[i] {
		case ' ', '\t', '\r', '\n':
			continue
		case ':':
			w.at = i
			return true
		}
		return false
	}
	return false
}
