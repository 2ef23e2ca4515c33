package metering

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/tokens"
)

const (
	// DefaultOutput is how many tokens of answer are reserved for a request that does not say how many it wants. It is
	// the length of a usual answer: more would keep others out whose answers are as short, and what an answer has more is
	// counted when it ends.
	DefaultOutput = 256
	// mediaTokens is what is reserved for an image, a sound or a file within a request.
	mediaTokens = 1000
	// dataRun is how long a run of bytes without a space is at least that is taken for such data, and not for text.
	dataRun = 2 << 10
	// maxUser bounds what is kept of a user's name, in bytes.
	maxUser = 256
)

// A Demand is what a request is expected to use.
type Demand struct {
	User   string // at most maxUser bytes
	Input  int64  // tokens, guessed
	Unread int64  // tokens, the most that what is not looked at can be
	Output int64  // tokens, the most that the request lets the answers have; -1 where it does not say
	// Answers is how many it wants, and Images how many of these are images.
	Answers, Images int64
	Background      bool // the answer does not come with the request
	Hour            bool // it asks that a part is written to a cache for an hour
	Passes          bool // its body passes unseen, and may ask so
	*Surcharges          // nil: none
}

// DemandOf reads what a request wants. It has been checked; where it has not, what is absurd is ignored.
func DemandOf(op *inbound.Operation, r inbound.Request, body []byte) Demand {
	d := Demand{Output: -1, Answers: 1, Input: textTokens(body)}
	get := func(name string) gjson.Result { return gjson.GetBytes(body, name) }
	switch known, ok := r.Encoder.(interface{ Get(string) jsontext.Value }); {
	case ok:
		get = func(name string) gjson.Result { return gjson.ParseBytes(known.Get(name)) }
	case !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")): // a form: of its text there is little
		d.Input = 0
		if form, ok := r.Encoder.(interface{ Field(string) string }); ok {
			get = func(name string) gjson.Result { return gjson.Result{Type: gjson.String, Str: form.Field(name)} }
		}
	}
	d.Hour = KeepsHour(body)
	d.User = userOf(get("user").Str)
	d.Surcharges = surchargesOf(get)
	d.Background = op.Name == "responses" && get("background").Bool()
	for _, name := range [...]string{"n", "best_of"} {
		d.Answers = max(d.Answers, count(get(name)))
	}
	if !op.TextAnswer {
		d.Output = 0
	}
	for _, name := range [...]string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		if v := get(name); op.TextAnswer && v.Type == gjson.Number && v.Num >= 0 { // below it is no limit
			d.Output = max(d.Output, count(v)*d.Answers)
		}
	}
	if op.ImageAnswer {
		d.Images = d.Answers
	}
	return d
}

// count returns a number that is one of things.
func count(v gjson.Result) int64 { return min(max(v.Int(), 0), math.MaxInt32) }

// userOf returns what is kept of a user's name.
func userOf(name string) string {
	return strings.ToValidUTF8(name[:min(len(name), maxUser)], "")
}

// textTokens guesses how many tokens of input a body is, in which there may be media.
func textTokens(body []byte) int64 {
	if len(body) < dataRun {
		return tokens.Estimate(len(body))
	}
	text, media := len(body), int64(0)
	for rest := body; len(rest) >= dataRun; {
		end := bytes.IndexByte(rest, '"')
		if end < 0 {
			break
		}
		if end >= dataRun && bytes.IndexByte(rest[:dataRun], ' ') < 0 && isASCII(rest[:dataRun]) {
			text, media = text-end, media+1
		}
		rest = rest[end+1:]
	}
	return tokens.Estimate(text) + media*mediaTokens
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
