package metering

import (
	"bytes"
	"strings"
)

// A member is one that a scanner looks for: a string or an object.
type member uint8

const (
	memberType          member = iota // "type"
	memberError                       // "error"
	memberUsage                       // "usage"
	memberResponseUsage               // "usage" of "response"
	memberMessageUsage                // "usage" of "message", of Anthropic's
	memberUsageMetadata               // "usageMetadata", of Gemini's
	memberTier                        // "service_tier", also of "response"
	memberItem                        // "type" of "item" or of an element of "output"
	memberModel                       // "model", or "model" of "response" or "message", or "modelVersion"
	members
)

const (
	maxMember = 4 << 10 // a value that is longer is not kept
	maxLevel  = 3       // members are looked for down to here
)

// A scanner finds members of a JSON object that comes in pieces, however large the others are, and keeps nothing else.
// It takes the object for well-formed. It stops and goes on within a string or a name, which internal/jsonwalk cannot:
// that needs the whole text.
type scanner struct {
	begun bool
	list  bool // of objects, as Gemini streams them: each is read as if it were alone; not ended
	depth int  // objects and arrays that are open
	found [members]string
	tally Tally

	text, escaped, naming bool
	level                 [maxLevel + 1]struct{ object, value bool } // value: past the colon of a member
	name                  [maxLevel + 1][]byte

	keep    []byte // of the value that is kept
	keeping bool
	keepAt  int // the depth at which it ends
	keepFor member
}

func (s *scanner) feed(piece []byte) {
	for i := 0; i < len(piece); i++ {
		if s.text && !s.escaped && !s.keeping && !s.naming {
			skipped := bytes.IndexAny(piece[i:], `"\`)
			if skipped < 0 {
				return
			}
			i += skipped
		}
		c := piece[i]
		if s.keeping {
			s.hold(c)
		}
		if s.text {
			s.character(c)
		} else {
			s.token(c)
		}
	}
}

// character takes a byte of a string.
func (s *scanner) character(c byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case c == '\\':
		s.escaped = true
	case c == '"':
		s.text = false
		if s.naming {
			s.naming = false
			return
		}
		s.closed()
		return
	}
	if s.naming && len(s.name[s.depth]) < 16 {
		s.name[s.depth] = append(s.name[s.depth], c)
	}
}

// token takes a byte outside of strings.
func (s *scanner) token(c byte) {
	shallow := s.depth <= maxLevel
	switch c {
	case '"':
		s.text = true
		if shallow && s.level[s.depth].object && !s.level[s.depth].value {
			s.naming, s.name[s.depth] = true, s.name[s.depth][:0]
			return
		}
		s.opened(c)
	case '{', '[':
		if c == '[' && !s.begun {
			s.begun, s.list = true, true
			return
		}
		s.opened(c)
		s.begun = true
		s.depth++
		if s.depth <= maxLevel {
			s.level[s.depth].object, s.level[s.depth].value = c == '{', false
		}
	case '}', ']':
		s.list = s.list && s.depth > 0
		s.depth = max(0, s.depth-1)
		s.closed()
	case ':':
		if shallow {
			s.level[s.depth].value = true
		}
	case ',':
		if shallow {
			s.level[s.depth].value = false
		}
	}
}

// opened begins to keep a value where it is looked for.
func (s *scanner) opened(c byte) {
	if s.keeping || s.depth == 0 || s.depth > maxLevel || !s.level[s.depth].object {
		return
	}
	sought := s.sought(string(s.name[s.depth]))
	if sought == members {
		return
	}
	s.keepFor = sought
	s.keeping, s.keepAt, s.keep = true, s.depth, append(s.keep[:0], c)
}

// sought returns which of the members that are looked for begins, by its name and where it is, or members.
func (s *scanner) sought(name string) member {
	within := ""
	if s.depth > 1 && s.level[1].object {
		within = string(s.name[1])
	}
	switch {
	case s.depth == 1 && name == "type":
		return memberType
	case s.depth == 1 && name == "error":
		return memberError
	case s.depth == 1 && name == "usage":
		return memberUsage
	case s.depth == 1 && name == "usageMetadata":
		return memberUsageMetadata
	case s.depth == 1 && (name == "model" || name == "modelVersion"), s.depth == 2 &&
		(within == "response" || within == "message") && name == "model":
		return memberModel
	case s.depth == 1 && name == "service_tier", s.depth == 2 && within == "response" && name == "service_tier":
		return memberTier
	case s.depth == 2 && within == "response" && name == "usage":
		return memberResponseUsage
	case s.depth == 2 && within == "message" && name == "usage":
		return memberMessageUsage
	case name == "type" && (s.depth == 2 && within == "item" || s.depth == 3 && within == "output" && !s.level[2].object):
		return memberItem
	}
	return members
}

func (s *scanner) hold(c byte) {
	if s.keep = append(s.keep, c); len(s.keep) > maxMember {
		s.keeping, s.keep = false, nil
		if s.keepFor == memberError {
			s.found[memberError] = "{}" // that there is one is enough
		}
	}
}

// closed ends the value that is kept where it is the one that has just ended.
func (s *scanner) closed() {
	if s.keeping && s.depth == s.keepAt {
		s.keeping, s.found[s.keepFor] = false, string(s.keep)
		if s.keepFor == memberItem {
			s.tally.item(strings.Trim(string(s.keep), `"`))
		}
	}
}
