package openai

import (
	"math"

	"github.com/go-json-experiment/json/jsontext"
)

// A CompletionRequest is a legacy completion request that was checked once. It is immutable and safe for concurrent
// use.
type CompletionRequest struct {
	Object

	Model        string
	Stream       bool
	IncludeUsage bool
	Completion
}

// A Completion is the body of a legacy completion request, with the types that the gateway needs. A null member is
// treated as absent.
type Completion struct {
	// Prompts are the prompts as text. If the client sent tokens, it is nil and Tokens is set.
	Prompts []string
	// Tokens means that the prompts are tokens.
	Tokens bool

	BestOf           *int64
	Echo             *bool
	FrequencyPenalty *float64
	LogitBias        jsontext.Value
	Logprobs         *int64
	MaxTokens        *int64
	N                *int64
	PresencePenalty  *float64
	Seed             *int64
	Stop             Strings
	Suffix           string
	Temperature      *float64
	TopP             *float64
	User             string
}

// completionChecks are the members of a legacy completion request with a known type or range, except for the prompt.
var completionChecks = map[string]check{
	"model":             kind("a string", '"'),
	"best_of":           integer(0, 20),
	"echo":              boolean,
	"frequency_penalty": rangedNumber(-2, 2),
	"presence_penalty":  rangedNumber(-2, 2),
	"logit_bias":        checkBias,
	"logprobs":          rangedInteger(0, 5),
	"max_tokens":        rangedInteger(0, maxInteger),
	"n":                 integer(1, 128),
	"seed":              integer(math.MinInt64, math.MaxInt64),
	"stop":              checkStop,
	"stream":            boolean,
	"stream_options":    kind("an object", '{'),
	"suffix":            kind("a string", '"'),
	"temperature":       rangedNumber(0, 2),
	"top_p":             rangedNumber(0, 1),
	"user":              kind("a string", '"'),
}

// ParseCompletionRequest checks and parses body. It keeps body. An error is an *Error with status 400 that names the
// wrong member.
func ParseCompletionRequest(body []byte) (*CompletionRequest, error) {
	r := &CompletionRequest{Object: Object{Members: Members{Body: body}}}
	if err := r.read(r.checkMember); err != nil {
		return nil, err
	}
	if err := r.checkModel(r.Model); err != nil {
		return nil, err
	}
	if r.present("prompt") == nil {
		return nil, missing("prompt")
	}
	if err := r.checkStreamOptions(r.Stream); err != nil {
		return nil, err
	}
	d := &decoder{cursor: cursor{data: body}}
	for name := range d.members {
		if read := completionMembers[string(name)]; read != nil {
			read(d, &r.Completion)
		} else {
			d.value()
		}
	}
	if err := d.err(); err != nil {
		return nil, err
	}
	return r, nil
}

// completionMembers read the members of a legacy completion request.
var completionMembers = map[string]func(*decoder, *Completion){
	"best_of":           func(d *decoder, c *Completion) { d.int(&c.BestOf) },
	"echo":              func(d *decoder, c *Completion) { d.bool(&c.Echo) },
	"frequency_penalty": func(d *decoder, c *Completion) { d.float(&c.FrequencyPenalty) },
	"logit_bias":        func(d *decoder, c *Completion) { d.raw(&c.LogitBias) },
	"logprobs":          func(d *decoder, c *Completion) { d.int(&c.Logprobs) },
	"max_tokens":        func(d *decoder, c *Completion) { d.int(&c.MaxTokens) },
	"n":                 func(d *decoder, c *Completion) { d.int(&c.N) },
	"presence_penalty":  func(d *decoder, c *Completion) { d.float(&c.PresencePenalty) },
	"seed":              func(d *decoder, c *Completion) { d.int(&c.Seed) },
	"stop":              func(d *decoder, c *Completion) { d.stringOrStrings(&c.Stop) },
	"suffix":            func(d *decoder, c *Completion) { d.string(&c.Suffix) },
	"temperature":       func(d *decoder, c *Completion) { d.float(&c.Temperature) },
	"top_p":             func(d *decoder, c *Completion) { d.float(&c.TopP) },
	"user":              func(d *decoder, c *Completion) { d.string(&c.User) },
}

func (r *CompletionRequest) checkMember(c *cursor, name string) error {
	switch k := c.peek(); {
	case k == 'n':
		c.value()
	case name == "model" && k == '"':
		r.Model = string(c.str())
	case name == "stream" && (k == 't' || k == 'f'):
		r.Stream = k == 't'
		c.value()
	case name == "stream_options" && k == '{':
		return readStreamOptions(c, &r.IncludeUsage)
	case name == "prompt":
		return r.readPrompt(c)
	case completionChecks[name] != nil:
		return completionChecks[name](name, c)
	default:
		c.value()
	}
	return nil
}

func (r *CompletionRequest) readPrompt(c *cursor) error {
	inputs, err := readInputs("prompt", c)
	if err != nil {
		return err
	}
	for _, i := range inputs {
		if i.Tokens != nil {
			r.Prompts, r.Tokens = nil, true
			return nil
		}
		r.Prompts = append(r.Prompts, i.Text)
	}
	return nil
}
