package tokens

import (
	"runtime"
	"strings"
	"sync"
	"unicode"

	"github.com/tiktoken-go/tokenizer"
)

// Separator keeps texts apart that are counted together. It is one token with every vendor, wherever it stands.
const Separator = "\x00"

// Count estimates how many tokens a vendor counts for a text that is given to one of its models, or comes from it.
// Model is the vendor's own name. Of a text of more than 16 KB parts are counted. It is safe for concurrent use, and
// waits where half of the processors count already.
func Count(vendor, model, text string) int64 {
	var s Sample
	s.Add([]byte(text))
	return s.Count(vendor, model)
}

// A Framing is how many tokens there are beside the text.
type Framing struct {
	Chat, Message, Name int64 // of a prompt: once, with each message, and with the name of its author
	Answer, Call        int64 // of an answer: at its beginning, and with each call of a tool
}

// FramingOf returns how a model's prompts and answers are framed. Model is the vendor's own name.
func FramingOf(vendor, model string) Framing { return counterOf(vendor, model).framing }

// A counter says how texts of some models are counted: as texts of a known counting, times a factor.
type counter struct {
	vendor  string // empty: any
	model   string // what the model's name, or a part of it, begins with; empty: any
	count   func(text string) int
	factor  float64
	framing Framing
}

func counterOf(vendor, model string) counter {
	model = strings.ToLower(model)
	for _, c := range counters() {
		if (c.vendor == "" || c.vendor == vendor) && begins(model, c.model) {
			return c
		}
	}
	panic("unreachable: the last counter is for all models")
}

// begins reports whether a name, or what stands in it behind a separator, begins with a prefix: names of models have
// those of vendors, regions and resources before them.
func begins(name, prefix string) bool {
	for {
		if strings.HasPrefix(name, prefix) {
			return true
		}
		i := strings.IndexAny(name, "/.:")
		if i < 0 {
			return false
		}
		name = name[i+1:]
	}
}

// Vocabularies are loaded when they are used for the first time.
var (
	o200k  = vocabulary(tokenizer.O200kBase)
	cl100k = vocabulary(tokenizer.Cl100kBase)
)

// counting keeps many clients that leave at once from taking the processors from the remaining ones.
var counting = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))

func vocabulary(encoding tokenizer.Encoding) func(text string) int {
	load := sync.OnceValue(func() tokenizer.Codec {
		c, err := tokenizer.Get(encoding)
		if err != nil {
			panic(err) // it does not know the name
		}
		return c
	})
	return func(text string) int {
		counting <- struct{}{}
		defer func() { <-counting }()
		n, err := load().Count(text)
		if err != nil { // it fails for text that is not UTF-8 only if asked to, and it was not
			return len(text) / bytesPerToken
		}
		return n
	}
}

// words counts as the gateway's own provider does.
func words(text string) int {
	return len(strings.FieldsFunc(text, func(r rune) bool { return unicode.IsSpace(r) || r == 0 })) +
		strings.Count(text, Separator)
}
