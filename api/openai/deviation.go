package openai

import (
	"slices"
	"strings"
)

// A deviation is something in a request that OpenAI would refuse but that another vendor may document: a value outside
// of OpenAI's range, an unknown word, or another form of a value. The check of a request records it. The codec, which
// knows the vendor, decides about it.
type deviation struct {
	key string // the member, or a path in it; a word follows after a colon
	err *Error
}

// maxDeviations bounds the stored deviations. Normal requests have fewer.
const maxDeviations = 16

// deviations are the deviations of a request, each once.
type deviations struct {
	all     []deviation
	newWord *Error // the first word that OpenAI does not have yet, in a list that OpenAI extends
	marks   Mark
}

// A Mark means that the messages or tools of a request have something that some vendors accept only in another form,
// or not at all. The check records it, so that codecs need not search the request.
type Mark uint16

// The marks of a request.
const (
	MarkDeveloper    Mark = 1 << iota // a message of the role developer
	MarkReasoning                     // a message with reasoning_content
	MarkThoughts                      // Claude's thinking, as a part or as thinking_blocks
	MarkCacheControl                  // cache_control
	MarkCustomTool                    // a tool of the type custom
	MarkOtherTool                     // a tool of a type that chat completions do not have
	MarkCalls                         // calls of tools, or their results
	MarkExtensions                    // what other vendors' answers have in messages: images, reasoning_details, extra_content
	MarkHeader                        // a text that begins as a header does: x-
	MarkStrange                       // an id of a call or a name of a tool that is not short, or not a plain word
)

// Marked reports whether the request has one of the marks.
func (o *Object) Marked(m Mark) bool { return o.marks&m != 0 }

// addDeviation stores a deviation with OpenAI's error for it. If there are too many, it returns the error.
func (d *deviations) addDeviation(key string, refusal func() *Error) error {
	if d.has(key) {
		return nil
	}
	err := refusal()
	if len(d.all) == maxDeviations {
		return err
	}
	d.all = append(d.all, deviation{key, err})
	return nil
}

func (d *deviations) has(key string) bool {
	return slices.ContainsFunc(d.all, func(d deviation) bool { return d.key == key })
}

// addUnknownWord stores a word, a JSON string, of a list that OpenAI extends, if it is not among the known ones. A nil
// word is ignored.
func (d *deviations) addUnknownWord(param func() string, word []byte, known ...string) {
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
	return CodeInvalidValue.On(param, "Invalid value: '%s'. Supported values are: %s.", word, supported)
}

// RejectDeviations returns OpenAI's error for the first deviation that is not one of the vendor's own. The vendor's
// own deviations are named by the member or the path in it, such as "top_p", or by one word of it, such as
// "tool_choice:any". A "*" stands for all. Unknown words in lists that OpenAI extends are not rejected.
func (o *Object) RejectDeviations(own ...string) error {
	for _, d := range o.all {
		if !owns(own, d.key) {
			return d.err
		}
	}
	return nil
}

// RejectAll is RejectDeviations for a vendor that accepts only what OpenAI accepts today.
func (o *Object) RejectAll() error {
	if o.newWord != nil {
		return o.newWord
	}
	return o.RejectDeviations()
}

// HasDeviation reports whether the request has the deviation.
func (o *Object) HasDeviation(key string) bool {
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
