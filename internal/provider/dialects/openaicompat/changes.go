package openaicompat

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// Changes collects what is to change in a client's request. Its methods take the names of top-level members.
type Changes struct {
	object  *openai.Object
	dialect *Dialect
	target  provider.Target
	edits   []openai.Edit
	dropped []string
	// translated means that the client speaks another dialect: see turns.Omitted.
	translated bool
	// adjusted are the parameters whose values were replaced by the nearest ones.
	adjusted []string
	room     [4]openai.Edit
	name     [48]byte // for the name of the model
}

func newChanges(o *openai.Object, d *Dialect, t provider.Target) *Changes {
	c := &Changes{object: o, dialect: d, target: t}
	c.edits = c.room[:0]
	return c
}

// Get returns the value of a member as it is after the changes so far, or nil if it is absent or null.
func (c *Changes) Get(name string) jsontext.Value {
	v := c.object.Get(name)
	if i := c.find(name); i >= 0 {
		v = c.edits[i].Value
	}
	if v == nil || v.Kind() == 'n' {
		return nil
	}
	return v
}

// Set gives a member a JSON value.
func (c *Changes) Set(name string, value []byte) {
	if i := c.find(name); i >= 0 {
		c.edits[i].Value = value
		return
	}
	c.edits = append(c.edits, openai.Edit{Name: name, Value: value})
}

// Remove leaves a member out.
func (c *Changes) Remove(name string) {
	if c.object.Has(name) || c.find(name) >= 0 {
		c.Set(name, nil)
	}
}

// Refuse leaves out a member that the vendor cannot honour and notes it in Request.Dropped, or returns the client's
// error if the operator does not want that.
func (c *Changes) Refuse(name string) error {
	if err := c.drop(name); err != nil {
		return err
	}
	c.Remove(name)
	return nil
}

// Drop leaves out a member on which nothing of the answer depends, and notes it in Request.Dropped whatever the
// operator wants.
func (c *Changes) Drop(name string) {
	if c.object.Has(name) || c.find(name) >= 0 {
		c.note(name)
		c.Remove(name)
	}
}

// drop notes a parameter that is left out, or returns the client's error.
func (c *Changes) drop(param string) error {
	if !c.target.Drops() && (!c.translated || !turns.IsWish(param, c.target.Last)) {
		return openai.Unsupported(param, c.dialect.Vendor)
	}
	c.note(param)
	return nil
}

func (c *Changes) note(param string) {
	c.dropped = turns.Note(c.dropped, param)
}

func (c *Changes) find(name string) int {
	return slices.IndexFunc(c.edits, func(e openai.Edit) bool { return e.Name == name })
}

// request returns the vendor's request. The body is the client's own if nothing has changed.
func (c *Changes) request(path string) provider.Request {
	body := c.object.Body
	if len(c.edits) > 0 && !c.target.Unsent {
		body = c.object.Edit(c.edits...)
	}
	sent := c.dialect.newRequest(path, c.target, body, c.dropped)
	sent.Adjusted = c.adjusted
	return sent
}

// model names the model as the provider does.
func (c *Changes) model(clients string) {
	if clients != c.target.Model {
		c.Set("model", openai.AppendString(c.name[:0], c.target.Model))
	}
}

// streamOptions asks for usage, and reports whether the client has not.
func (c *Changes) streamOptions(stream, includeUsage bool) bool {
	switch {
	case c.dialect.NoStreamOptions:
		c.Remove("stream_options")
	case stream && !includeUsage:
		c.Set("stream_options", withUsage(c.object.Get("stream_options")))
		return true
	}
	return false
}

// parameters takes out what vendor or model do not know, and gives the rest the vendor's names. What a model of
// OpenAI's does not know is left for OpenAI to refuse, whose error says more, unless the operator wants it dropped, or
// it is a wish of a client of another dialect.
func (c *Changes) parameters() error {
	models := c.target.Can().GetUnsupportedParameters()
	if c.dialect.AsReceived && !c.target.Drops() {
		if models = nil; c.translated {
			models = turns.Wishes(c.target.Can().GetUnsupportedParameters())
		}
	}
	for _, names := range [...][]string{c.dialect.Unsupported, models} {
		for _, name := range names {
			if err := c.unsupported(name); err != nil {
				return err
			}
		}
	}
	for _, name := range c.dialect.Hints {
		if v := c.object.Get(name); v != nil && isDefault(c.object, name, v) {
			c.Remove(name)
		}
		if c.Get(name) != nil {
			c.Drop(name)
		}
	}
	if len(c.dialect.Rename) == 0 {
		return nil
	}
	for _, from := range slices.Sorted(maps.Keys(c.dialect.Rename)) {
		to := c.dialect.Rename[from]
		// max_tokens is the older name of its target: the newer one counts where both are set.
		if v := c.Get(from); v != nil && (from != "max_tokens" || c.Get(to) == nil) {
			c.Set(to, v)
		}
		c.Remove(from)
	}
	return nil
}

func (c *Changes) unsupported(name string) error {
	switch v := c.object.Get(name); {
	case v == nil || c.find(name) >= 0 && c.edits[c.find(name)].Value == nil:
		return nil
	case isDefault(c.object, name, v):
		if name != "n" { // every vendor takes one answer for an answer
			c.Remove(name)
		}
		return nil
	}
	return c.Refuse(name)
}

// outputLimit names the limit of the answer as the model does.
func (c *Changes) outputLimit() {
	limit := c.Get("max_tokens")
	if limit == nil || !c.target.Can().GetMaxCompletionTokens() {
		return
	}
	c.Remove("max_tokens")
	if c.Get("max_completion_tokens") == nil {
		c.Set("max_completion_tokens", limit)
	}
}

// withUsage returns the client's stream_options with include_usage set.
func withUsage(options []byte) []byte {
	m, ok := scan(options)
	if !ok || m.empty {
		return []byte(`{"include_usage":true}`)
	}
	var p patch
	p.reset(options)
	p.set(m.includeUsage, m.end, `,"include_usage":`, "true")
	return p.appendTo(nil)
}

// defaults are the values that ask for nothing: to leave them out changes nothing.
var defaults = map[string][]string{
	"n":                   {"1"},
	"best_of":             {"1"},
	"frequency_penalty":   {"0"},
	"presence_penalty":    {"0"},
	"temperature":         {"1"},
	"top_p":               {"1"},
	"top_logprobs":        {"0"},
	"logprobs":            {"false"},
	"store":               {"false"},
	"echo":                {"false"},
	"parallel_tool_calls": {"true"},
	"service_tier":        {`"auto"`, `"default"`},
	"response_format":     {`{"type":"text"}`},
	"modalities":          {`["text"]`},
	"verbosity":           {`"medium"`},
	"reasoning_effort":    {`"none"`},
	"tool_choice":         {`"auto"`, `"none"`},
	"function_call":       {`"auto"`, `"none"`},
	"encoding_format":     {`"float"`},
	"web_search_options":  nil, // empty ones ask for a search
}

// isDefault reports whether a parameter's value asks for nothing.
func isDefault(o *openai.Object, name string, v jsontext.Value) bool {
	values, listed := defaults[name]
	switch {
	case v.Kind() == 'n':
		return true
	case name == "tool_choice" && says(o, "tools"), name == "function_call" && says(o, "functions"):
		return string(v) == `"auto"`
	case v.Kind() == '0':
		return slices.Contains(values, trimZeros(v))
	case v.Kind() == '{' || v.Kind() == '[':
		compact := v.Clone()
		if compact.Compact() != nil {
			return false
		}
		empty := len(compact) == len("{}")
		return slices.Contains(values, string(compact)) || empty && (!listed || len(values) > 0)
	case string(v) == `""`:
		return true
	}
	return slices.Contains(values, string(v))
}

// says reports whether a member is there and is not empty.
func says(o *openai.Object, name string) bool {
	v := o.Get(name)
	return v != nil && v.Kind() == '[' && !isEmpty(v)
}

// trimZeros returns a number without the zeros that end its fraction, so that 0.00 is 0.
func trimZeros(v []byte) string {
	s := string(v)
	if slices.Contains(v, '.') && !slices.Contains(v, 'e') && !slices.Contains(v, 'E') {
		for s[len(s)-1] == '0' {
			s = s[:len(s)-1]
		}
		if s[len(s)-1] == '.' {
			s = s[:len(s)-1]
		}
	}
	if s == "-0" {
		return "0"
	}
	return s
}
