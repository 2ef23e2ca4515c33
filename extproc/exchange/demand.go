package exchange

import (
	"bytes"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	inbound "github.com/modelgate/modelgate/internal/inbound/openai"
	"github.com/modelgate/modelgate/internal/limit"
	"github.com/modelgate/modelgate/internal/tokens"
	"github.com/modelgate/modelgate/internal/usage"
)

const (
	// defaultOutput is how many tokens of answer are reserved for a request that does not say how many it wants. It is the
	// length of a usual answer: more would keep others out whose answers are as short, and what an answer has more is counted
	// when it ends.
	defaultOutput = 256
	// mediaTokens is what is reserved for an image, a sound or a file within a request.
	mediaTokens = 1000
	// dataRun is how long a run of bytes without a space is at least that is taken for such data, and not for text.
	dataRun = 2 << 10
	// maxUser bounds what is kept of a user's name, in bytes.
	maxUser = 256
)

// A demand is what a request is expected to use.
type demand struct {
	user   string // at most maxUser bytes
	input  int64  // tokens, guessed
	unread int64  // tokens, the most that what is not looked at can be
	output int64  // tokens, the most that the request lets the answers have; -1 where it does not say
	// answers is how many it wants, and images how many of these are images.
	answers, images int64
	background      bool // the answer does not come with the request
	hour            bool // it asks that a part is written to a cache for an hour
	passes          bool // its body passes unseen, and may ask so
	*surcharges          // nil: none
}

// demandOf reads what a request wants. It has been checked; where it has not, what is absurd is ignored.
func demandOf(op *inbound.Operation, r inbound.Request, body []byte) demand {
	d := demand{output: -1, answers: 1, input: textTokens(body)}
	get := func(name string) gjson.Result { return gjson.GetBytes(body, name) }
	switch known, ok := r.Encoder.(interface{ Get(string) jsontext.Value }); {
	case ok:
		get = func(name string) gjson.Result { return gjson.ParseBytes(known.Get(name)) }
	case !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")): // a form: of its text there is little
		d.input = 0
		if form, ok := r.Encoder.(interface{ Field(string) string }); ok {
			get = func(name string) gjson.Result { return gjson.Result{Type: gjson.String, Str: form.Field(name)} }
		}
	}
	d.hour = keepsHour(body)
	d.user = userOf(get("user").Str)
	d.surcharges = surchargesOf(get)
	d.background = op.Name == "responses" && get("background").Bool()
	for _, name := range [...]string{"n", "best_of"} {
		d.answers = max(d.answers, count(get(name)))
	}
	if !op.Says {
		d.output = 0
	}
	for _, name := range [...]string{"max_tokens", "max_completion_tokens", "max_output_tokens"} {
		if v := get(name); op.Says && v.Type == gjson.Number && v.Num >= 0 { // below it is no limit
			d.output = max(d.output, count(v)*d.answers)
		}
	}
	if op.Draws {
		d.images = d.answers
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

// amounts returns what is reserved for a request that goes to one of targets, under rules. A length of the answer that the
// request does not say is a guess, and never what makes the request too large for a limit.
func (d *demand) amounts(in *derived, set *ruleSet, targets []Target) limit.Amounts {
	input, output := d.input, d.output
	if d.unread > 0 { // the whole of a limit, where it is more
		input += d.unread
		for _, r := range set.rules {
			if r.Measure == limit.Tokens || r.Measure == limit.InputTokens {
				input = max(d.input, min(input, r.Limit))
			}
		}
	}
	if guessed := output < 0; guessed {
		output = defaultOutput
		for _, r := range set.rules {
			switch r.Measure {
			case limit.Tokens:
				output = min(output, max(0, r.Limit-input))
			case limit.OutputTokens:
				output = min(output, r.Limit)
			}
		}
	}
	if most := mostOutput(in, targets); most > 0 {
		output = min(output, most*d.answers)
	}
	a := limit.Amounts{limit.Requests: 1, limit.Concurrency: 1, limit.InputTokens: input, limit.OutputTokens: output, limit.Tokens: input + output,
		limit.Cost: 1} // also what seems to cost nothing does not pass a budget that is used up
	for _, t := range targets {
		rates := in.price(t.Provider.Vendor.Name, t.Model).rates
		if rates == nil {
			continue
		}
		text, _ := rates.Estimate(input, output, d.hour || d.passes)
		images, _ := rates.Cost(usage.Used{Images: d.images})
		if in, other := rates.In(d.asked()); other && in != rates { // the vendor may give less than was asked for
			dear, _ := in.Estimate(input, output, d.hour || d.passes)
			pictures, _ := in.Cost(usage.Used{Images: d.images})
			text, images = max(text, dear), max(images, pictures)
		}
		a[limit.Cost] = max(a[limit.Cost], int64(text.Plus(images).Plus(d.cost(rates))))
	}
	return a
}

// mostOutput returns the longest answer that any of the targets can give, or 0 where one of them is not known.
func mostOutput(in *derived, targets []Target) int64 {
	longest := int64(0)
	for _, t := range targets {
		if in.config.Catalog == nil {
			return 0
		}
		most := in.config.Catalog.Facts(t.Provider.Vendor.Name, t.Model).GetCapabilities().GetMaxOutputTokens()
		if most <= 0 {
			return 0
		}
		longest = max(longest, most)
	}
	return longest
}
