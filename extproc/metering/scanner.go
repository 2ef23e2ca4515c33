package metering

import (
	"bytes"
	"strings"

	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/reported"
)

// A member is a member that a scanner looks for: a string or an object.
type member uint8

const (
	memberType        member = iota // "type"
	memberError                     // "error"
	memberUsage                     // usage, where a vendor has it: see isUsage
	memberTier                      // "service_tier", also of "response", or "type" of Bedrock's "serviceTier"
	memberItem                      // "type" of "item" or of an element of "output"
	memberModel                     // "model", also of "response", "message" or "session", or "modelVersion"
	memberStatus                    // "status" of "response"
	memberTranscriber               // "model" of "transcription" of a session
	memberRole                      // "role" of "item"
	memberKept                      // "prompt" of "session", or what may refer to what a vendor keeps, in "item"
	members
)

const (
	maxMember = 4 << 10 // longer values are skipped, but for usage
	maxLevel  = 5       // the deepest level of these members
	maxName   = 16      // longer names are cut
)

// A scanner finds members of a JSON object that arrives in pieces. Other members may have any size and are not stored.
// The object must be well-formed. A scanner can stop and continue inside a string, which internal/jsonwalk cannot,
// because it needs the whole text.
type scanner struct {
	begun bool
	list  bool // an array of objects, as Gemini streams them: each object is read separately; the array has not ended
	depth int  // open objects and arrays
	found [members]string
	kept  string // the first member that refers to what a vendor keeps
	tally Tally
	usage *found // nil: none was found

	fed, here int64 // bytes of the pieces before, and of what was read
	delta     int64 // length of the string "delta"; -1: it has none, or not all of it was read
	deltaFrom int64

	text, escaped, naming bool
	level                 [maxLevel + 1]struct{ object, value bool } // value: past the colon of a member
	name                  [maxLevel + 1][]byte

	keep    []byte // the value that is stored
	keeping bool
	keepAt  int // the depth at which it ends
	keepFor member
}

// found is usage that is read, and what was reported so far.
type found struct {
	reader reported.Reader
	all    reported.Usage
}

func (s *scanner) feed(piece []byte) {
	defer func() { s.fed += int64(len(piece)) }()
	for i := 0; i < len(piece); i++ {
		if s.text && !s.escaped && !s.keeping && !s.naming {
			skipped := bytes.IndexAny(piece[i:], `"\`)
			if skipped < 0 {
				return
			}
			i += skipped
		}
		c := piece[i]
		s.here = s.fed + int64(i)
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

// character reads a byte of a string.
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
	if s.naming && len(s.name[s.depth]) < maxName {
		s.name[s.depth] = append(s.name[s.depth], c)
	}
}

// token reads a byte outside of strings.
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

// opened begins to store a value if it is one of the members.
func (s *scanner) opened(c byte) {
	if s.keeping || s.depth == 0 || s.depth > maxLevel || !s.level[s.depth].object {
		return
	}
	if c == '"' && s.depth == 1 && string(s.name[1]) == "delta" {
		s.deltaFrom = s.here
		return
	}
	sought := s.sought(string(s.name[s.depth]))
	if sought == members {
		return
	}
	if s.keepFor = sought; sought == memberUsage {
		if s.usage == nil {
			s.usage = &found{}
		}
		s.usage.reader = reported.Reader{}
	}
	s.keeping, s.keepAt, s.keep = true, s.depth, s.keep[:0]
	s.hold(c)
}

// sought returns the member that begins here, by its name and level, or members if it is none of them.
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
	case s.isUsage(name, within):
		return memberUsage
	case s.depth == 1 && (name == "model" || name == "modelVersion"), s.depth == 2 &&
		(within == "response" || within == "message" || within == "session") && name == "model":
		return memberModel
	case s.depth == 1 && name == "service_tier", s.depth == 2 && within == "response" && name == "service_tier",
		s.depth == 2 && within == "serviceTier" && name == "type":
		return memberTier
	case s.depth == 2 && within == "item" && name == "role":
		return memberRole
	case s.depth == 2 && within == "response" && name == "status":
		return memberStatus
	case s.depth > 2 && within == "session" && name == "model" && isTranscription(string(s.name[s.depth-1])):
		return memberTranscriber
	case within == "session" && s.depth == 2 && name == "prompt",
		within == "item" && s.depth > 2 && offered.MayName(name):
		return memberKept
	case name == "type" && (s.depth == 2 && within == "item" || s.depth == 3 && within == "output" && !s.level[2].object):
		return memberItem
	}
	return members
}

// isUsage reports whether a member is where a vendor reports usage: OpenAI also in "tool_usage", Gemini also in
// "interaction", Moonshot in a choice, Cohere in "meta" or in "delta", Groq in "x_groq", Bedrock behind the end of
// another vendor's stream.
func (s *scanner) isUsage(name, within string) bool {
	usage := name == "usage" || name == "usageMetadata" || name == "usage_metadata" || name == "tool_usage"
	switch s.depth {
	case 1:
		return usage || name == "meta" && s.usage == nil || name == "amazon-bedrock-invocationMetrics"[:maxName]
	case 2:
		switch within {
		case "response", "message", "delta", "x_groq", "result", "interaction":
			return usage
		}
	case 3:
		return usage && within == "choices" && !s.level[2].object
	}
	return false
}

// isTranscription reports whether a member of a session sets how audio is transcribed, in any version of the API.
func isTranscription(name string) bool {
	return name == "transcription" || name == "input_audio_transcription"[:maxName]
}

// refers notes a member of a session or of an item that refers to what the vendor keeps, as the same member of a
// request does.
func (s *scanner) refers(within, name string) {
	request := `{"` + name + `":` + string(s.keep) + `}`
	if within == "item" {
		request = `{"input":[` + request + `]}`
	}
	if s.kept == "" && offered.Reference([]byte(request)) != "" {
		s.kept = within + "." + name
	}
}

func (s *scanner) hold(c byte) {
	if s.keepFor == memberUsage {
		s.usage.reader.Byte(c)
		return
	}
	if s.keep = append(s.keep, c); len(s.keep) > maxMember {
		s.keeping, s.keep = false, nil
		if s.keepFor == memberError {
			s.found[memberError] = "{}" // that there is one is enough
		}
		if s.keepFor == memberKept && string(s.name[1]) == "session" {
			s.kept = "session.prompt" // a long address is content
		}
	}
}

// closed ends the stored value if it has just ended.
func (s *scanner) closed() {
	if s.deltaFrom > 0 && s.depth == 1 {
		s.delta, s.deltaFrom = s.here-s.deltaFrom-1, 0
	}
	if s.keeping && s.depth == s.keepAt {
		if s.keeping = false; s.keepFor == memberUsage {
			later := s.usage.reader.Usage()
			s.usage.all.Later(&later)
			return
		}
		if s.keepFor == memberKept {
			s.refers(string(s.name[1]), string(s.name[s.depth]))
			return
		}
		s.found[s.keepFor] = string(s.keep)
		if s.keepFor == memberItem {
			s.tally.item(strings.Trim(string(s.keep), `"`))
		}
	}
}
