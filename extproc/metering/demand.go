package metering

import (
	"bytes"
	"math"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/offered"
	"github.com/modelgate/modelgate/internal/request"
	"github.com/modelgate/modelgate/internal/tokens"
)

const (
	// DefaultOutput is the reserved number of output tokens for a request without a limit of its own. It is the length of
	// a usual answer. A larger value would refuse other requests whose answers are as short. Tokens above it are counted
	// when the answer ends.
	DefaultOutput = 256
	// mediaTokens is the reserved number of tokens for an image, a sound or a file in a request.
	mediaTokens = 1000
	// dataRun is the minimum length of a string that can be the data of media.
	dataRun = 2 << 10
	// maxUser bounds the stored name of a user, in bytes.
	maxUser = 256
)

// A Demand is the expected usage of a request.
type Demand struct {
	User   string // at most maxUser bytes
	Input  int64  // tokens, estimated
	Doubt  int64  // tokens of Input that alone make no request too large for a limit
	Unread int64  // tokens, at most, of the part that is not read
	Output int64  // tokens, at most, of all answers; -1 if the request has no limit
	Guess  int64  // tokens of a usual answer; 0: DefaultOutput
	// Answers is the number of requested answers, and Images the number of images among them.
	Answers, Images int64
	Background      bool // the answer comes later, for another request
	HourCache       bool // a part is written to a cache for an hour
	Passed          bool // the body passes unseen, and may ask for such a cache
	*Surcharges          // nil: none
}

// DemandOf reads the demand of a request, which has the vendor do what it offers. The request was checked; absurd
// values in an unchecked one are ignored.
func DemandOf(op *inbound.Operation, r *inbound.Request, body []byte, offers *offered.List) Demand {
	d := Demand{Output: -1, Answers: 1, User: UserOf(r)}
	get := func(name string) gjson.Result { return gjson.ParseBytes(r.Sent.Get(name)) }
	if r.Sent != nil { // of the text of a form there is little
		d.Input = textTokens(body)
	}
	if known, ok := r.Encoder.(interface{ Get(string) jsontext.Value }); ok { // by the names of a chat completion
		get = func(name string) gjson.Result {
			if value := known.Get(name); value != nil { // most are absent
				return gjson.ParseBytes(value)
			}
			return gjson.Result{}
		}
	} else if form, ok := r.Encoder.(interface{ Field(string) string }); ok && r.Sent == nil {
		get = func(name string) gjson.Result { return gjson.Result{Type: gjson.String, Str: form.Field(name)} }
	}
	if form, ok := r.Encoder.(interface {
		Parts(func(name string, file bool, value []byte))
	}); ok && d.Input == 0 {
		d.Input = formTokens(form.Parts)
	}
	d.HourCache = AsksHourCache(body)
	if d.Surcharges = surchargesOf(offers, count(get("max_tool_calls"))); op.Name == "rerank" {
		d.Surcharges = rankingOf(get("documents"))
	}
	d.Background = op.Name == "responses" && get("background").Bool()
	for _, name := range [...]string{"n", "best_of"} {
		d.Answers = max(d.Answers, count(get(name)))
	}
	if !op.TextAnswer {
		d.Output = 0
	}
	if offers != nil {
		d.Answers = max(d.Answers, offers.Answers)
		if op.TextAnswer && offers.Output > 0 {
			d.Output = offers.Output * d.Answers
		}
	}
	for _, name := range [...]string{"max_tokens", "max_completion_tokens", "max_output_tokens", "max_new_tokens",
		"n_predict"} {
		if v := get(name); op.TextAnswer && v.Type == gjson.Number && v.Num >= 1 { // other values are no limit
			d.Output = max(d.Output, count(v)*d.Answers)
		}
	}
	if op.ImageAnswer {
		d.Images = d.Answers
	}
	if d.Guess = d.guessed(op); d.Guess > 0 {
		d.Output = -1
	}
	return d
}

// count converts a number to a count.
func count(v gjson.Result) int64 { return min(max(v.Int(), 0), math.MaxInt32) }

// UserOf returns the user that a request names, at most maxUser bytes of it.
func UserOf(r *inbound.Request) string {
	name := request.UserOf(r)
	return strings.ToValidUTF8(name[:min(len(name), maxUser)], "")
}

// textTokens estimates the input tokens of a body, which may contain media.
func textTokens(body []byte) int64 {
	if len(body) < dataRun {
		return tokens.Estimate(len(body))
	}
	text, media := len(body), int64(0)
	for at := 0; len(body)-at >= dataRun; {
		end := bytes.IndexByte(body[at:], '"')
		if end < 0 {
			break
		}
		if end >= dataRun && mayBeMedia(body, at) {
			switch kind := mediaOf(body[at : at+end]); kind {
			case notMedia:
			case mediaText:
				text, media = text-end, media+kind.tokens(end)
			default:
				text, media = text-end, media+mediaTokens
			}
		}
		at += end + 1
	}
	return tokens.Estimate(text) + media
}

// mayBeMedia reports whether the string that begins at a position is of a member that may have media.
func mayBeMedia(body []byte, at int) bool {
	before := bytes.TrimRight(body[:max(at-1, 0)], " \t\r\n")
	before, named := bytes.CutSuffix(before, []byte(":"))
	before, quoted := bytes.CutSuffix(bytes.TrimRight(before, " \t\r\n"), []byte(`"`))
	if !named || !quoted {
		return false
	}
	return media[string(before[bytes.LastIndexByte(before, '"')+1:])]
}
