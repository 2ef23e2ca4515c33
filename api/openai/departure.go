package openai

import (
	"slices"
	"strings"
)

// A departure is something in a request that OpenAI would refuse and another vendor may have documented: a value out
// of OpenAI's range, a word that it does not know, a form of its own. The check of a request keeps it, and who knows
// the vendor judges it.
type departure struct {
	key string // the member, or a path in it; behind a colon the word
	err *Error
}

// maxDepartures is how many are kept. Nobody's request has more.
const maxDepartures = 16

// departures are those of a request, each once.
type departures struct {
	all     []departure
	newWord *Error // the first word that OpenAI does not know yet, in a list to which it adds
	marks   Mark
}

// A Mark says that something stands in the messages or the tools of a request which some vendors take in another form,
// or not at all. The check notes it, so that no codec searches the text of a request for it.
type Mark uint8

// The marks of a request.
const (
	MarkDeveloper    Mark = 1 << iota // a message of the role developer
	MarkReasoning                     // a message with reasoning_content
	MarkThoughts                      // Claude's thinking, as a part or as thinking_blocks
	MarkCacheControl                  // cache_control
	MarkCustomTool                    // a tool of the type custom
	MarkOtherTool                     // a tool of a type that chat completions do not have
)

// Marked reports whether the request has one of the marks.
func (o *Object) Marked(m Mark) bool { return o.marks&m != 0 }

// departs keeps a departure, with the error that OpenAI has for it, or returns the error where there are too many.
func (d *departures) departs(key string, refusal func() *Error) error {
	if d.has(key) {
		return nil
	}
	err := refusal()
	if len(d.all) == maxDepartures {
		return err
	}
	d.all = append(d.all, departure{key, err})
	return nil
}

func (d *departures) has(key string) bool {
	return slices.ContainsFunc(d.all, func(d departure) bool { return d.key == key })
}

// word notes a word, a JSON string, of a list to which OpenAI adds words, where it is none of those known. Nothing is
// noted of nil.
func (d *departures) word(param func() string, word []byte, known ...string) {
	if len(word) < len(`""`) || d.newWord != nil {
		return
	}
	w := word[1 : len(word)-1]
	for _, k := range known {
		if string(w) == k {
			return
		}
	}
	d.newWord = unknownWord(param(), Unquote(word), known)
}

func unknownWord(param, word string, known []string) *Error {
	supported := "'" + known[0] + "'"
	if last := len(known) - 1; last > 0 {
		supported = "'" + strings.Join(known[:last], "', '") + "', and '" + known[last] + "'"
	}
	return BadRequest(param, CodeInvalidValue, "Invalid value: '%s'. Supported values are: %s.", word, supported)
}

// Judge returns OpenAI's error for the first thing in the request that OpenAI would refuse and that is not among the
// vendor's own. Those are named by the member or the path in it, such as "top_p", or by one word of it, such as
// "tool_choice:any"; "*" is all there is. Words of lists to which OpenAI adds are not judged.
func (o *Object) Judge(own ...string) error {
	for _, d := range o.all {
		if !owns(own, d.key) {
			return d.err
		}
	}
	return nil
}

// JudgeAll is Judge for a vendor that takes what OpenAI takes today and nothing else.
func (o *Object) JudgeAll() error {
	if o.newWord != nil {
		return o.newWord
	}
	return o.Judge()
}

// Departs reports whether the request has the departure.
func (o *Object) Departs(key string) bool {
	return o.has(key)
}

func owns(own []string, key string) bool {
	for _, name := range own {
		if name == "*" || name == key || strings.HasPrefix(key, name) && key[len(name)] == ':' {
			return true
		}
	}
	return false
}
