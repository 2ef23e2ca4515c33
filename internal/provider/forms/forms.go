// Package forms knows the form that each vendor demands of ids and names: which characters, and how many. One table
// has them all. Whatever a vendor would refuse is replaced by a string that it takes, the same one wherever the id or
// name stands.
//
// A client's id is not a vendor's: sessions go from one model to another, and take the ids of calls with them.
package forms

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// Chars are the characters of a form.
type Chars uint8

// The sets of characters.
const (
	Any          Chars = iota // every character
	Identifier                // letters, digits, dashes and underscores
	Alphanumeric              // letters and digits
)

// A Form is a vendor's restriction of a string. The zero value allows every string.
type Form struct {
	Chars    Chars
	Min, Max int  // length in bytes; a Max of 0 is no limit
	Letter   bool // it begins with a letter or an underscore
}

// A Vendor has the forms of one vendor.
type Vendor struct {
	Call Form // ids of calls
	Tool Form // names of tools
	User Form // ids of users
	Item Form // ids of items and of calls in the Responses API
	// OwnReasoning means that the vendor's Responses API takes only reasoning that it made itself, and encrypted.
	OwnReasoning bool
}

var (
	identifier = Form{Chars: Identifier, Min: 1, Max: 64}
	word       = Form{Chars: Identifier, Min: 1, Max: 64, Letter: true}
	nine       = Form{Chars: Alphanumeric, Min: 9, Max: 9}
	// Chat completions take ids of calls of 40 characters, and responses of 64.
	ofOpenAI = Vendor{Call: Form{Chars: Identifier, Min: 1, Max: 40}, Tool: identifier, User: Form{Max: 64},
		Item: identifier, OwnReasoning: true}
)

// vendors are the forms by vendor, as its documentation or its errors state them. Servers that people run themselves
// take what is valid JSON.
var vendors = map[string]Vendor{
	"openai":    ofOpenAI,
	"azure":     ofOpenAI,
	"xai":       {Call: Form{Max: 64}, Tool: identifier, Item: identifier, OwnReasoning: true},
	"anthropic": {Call: identifier, Tool: identifier, User: Form{Max: 256}},
	"bedrock":   {Call: identifier, Tool: identifier},
	"vertex":    {Call: identifier, Tool: word},
	"gemini":    {Tool: word},
	"mistral":   {Call: nine, Tool: identifier},
	"cohere":    {Tool: identifier},
	// Kimi's own ids have the form functions.NAME:0, and its models read them.
	"moonshot":    {Call: Form{Max: 64}, Tool: word},
	"deepseek":    {Call: Form{Max: 64}, Tool: identifier, Item: identifier},
	"groq":        {Call: Form{Max: 64}, Tool: identifier, Item: identifier},
	"cerebras":    {Call: Form{Max: 64}, Tool: identifier},
	"openrouter":  {Call: identifier, Tool: identifier, User: Form{Max: 256}, Item: identifier},
	"fireworks":   {Call: Form{Max: 64}, Tool: identifier, Item: identifier},
	"together":    {Call: Form{Max: 64}, Tool: identifier},
	"alibaba":     {Call: Form{Max: 64}, Tool: identifier},
	"zai":         {Call: Form{Max: 64}, Tool: identifier, User: Form{Min: 6, Max: 128}},
	"perplexity":  {},
	"nvidia":      {Call: Form{Max: 64}, Tool: identifier},
	"huggingface": {Call: Form{Max: 64}, Tool: identifier, Item: Form{Max: 64}},
	"vllm":        {Item: Form{Max: 64}},
	"ollama":      {Item: Form{Max: 64}},
	"compatible":  {Item: Form{Max: 64}},
	"llamacpp":    {},
	"echo":        {},
}

// Of returns the forms of a vendor.
func Of(vendor string) Vendor { return vendors[vendor] }

// SentTools returns the names, other than its own, under which a vendor may get a tool.
func SentTools(name string) []string {
	if word.Takes(name) { // so every form does
		return nil
	}
	return []string{identifier.Fit(name), word.Fit(name)}
}

// Knows reports whether the table has a vendor.
func Knows(vendor string) bool {
	_, ok := vendors[vendor]
	return ok
}

// Nine is the form of ids of calls for Mistral's models, wherever they run.
func Nine() Form { return nine }

// Block is the form of ids of blocks that Anthropic's API takes back from a client.
func Block() Form { return Form{Chars: Identifier, Min: 1} }

// Takes reports whether a string has the form.
func (f Form) Takes(s string) bool {
	if len(s) < f.Min || f.Max > 0 && len(s) > f.Max {
		return false
	}
	if f.Letter && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') {
		return false
	}
	if f.Chars == Any {
		return true
	}
	return strings.IndexFunc(s, func(r rune) bool { return !f.has(r) }) < 0
}

func (f Form) has(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return f.Chars == Any || letter || f.Chars == Identifier && (r == '_' || r == '-')
}

// Fit returns s if it has the form. For any other string it returns one that has it and is stable and unique for s.
func (f Form) Fit(s string) string {
	if f.Takes(s) {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	if f.Min == f.Max && f.Min > 0 {
		return digits(sum[:], f.Max)
	}
	limit := f.Max
	if limit == 0 {
		limit = len(s) + 1 + 8
	}
	clean := make([]byte, 0, limit)
	if f.Letter && s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') {
		clean = append(clean, '_')
	}
	for _, r := range s {
		switch {
		case len(clean) >= limit:
		case r < 0x80 && f.has(r):
			clean = append(clean, byte(r))
		default:
			clean = append(clean, '_')
		}
	}
	suffix := "_" + hex.EncodeToString(sum[:4])
	return string(clean[:min(len(clean), limit-len(suffix))]) + suffix
}

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// digits returns n letters and digits for a hash.
func digits(sum []byte, n int) string {
	bits := binary.BigEndian.Uint64(sum)
	out := make([]byte, n)
	for i := range out {
		out[i] = alphanumeric[bits%uint64(len(alphanumeric))]
		bits /= uint64(len(alphanumeric))
	}
	return string(out)
}
