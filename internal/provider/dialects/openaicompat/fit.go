package openaicompat

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/fit"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// maxSchemas bounds what takes the place of references in the schemas of a request, in bytes.
const maxSchemas = 4 << 20

// fit puts ids, names, results and schemas into the form that the vendor demands. What OpenAI's own clients send to
// OpenAI stays as it is. It returns the client's names of tools that were renamed, or nil.
func (c *Changes) fit(r *openai.ChatRequest) *turns.Names {
	if c.dialect.AsReceived && !c.target.Fits(r) {
		return nil
	}
	if c.dialect.AsReceived {
		c.Drop("top_k") // other dialects have it
	}
	if c.object.Marked(openai.MarkCalls) {
		if list := fit.Results(c.Get("messages")); list != nil {
			c.Set("messages", list)
		}
	}
	c.schemas()
	form := forms.Of(c.dialect.Vendor)
	if form.User != (forms.Form{}) {
		for _, name := range [...]string{"user", "safety_identifier"} {
			if user := textOr(c.Get(name)); user != "" && !form.User.Takes(user) {
				c.Set(name, openai.AppendString(nil, form.User.Fit(user)))
			}
		}
	}
	if !c.object.Marked(openai.MarkStrange) {
		return nil
	}
	var names *turns.Names
	if form.Tool != (forms.Form{}) {
		names = &turns.Names{Form: form.Tool}
		if tools := fit.Names(c.Get("tools"), names); tools != nil {
			c.Set("tools", tools)
		}
		if choice := fit.Choice(c.Get("tool_choice"), names); choice != nil {
			c.Set("tool_choice", choice)
		}
	}
	if list := fit.Messages(c.Get("messages"), names, form.Call); list != nil {
		c.Set("messages", list)
	}
	if names.Renames() {
		return names
	}
	return nil
}

// schemas rewrites the schemas of tools and of the answer as the vendor, or the model's own one, takes them.
func (c *Changes) schemas() {
	rules := schema.RulesFor(cmp.Or(c.target.Can().GetSchemaRules(), c.dialect.Vendor))
	if rules == nil {
		return
	}
	if tools := c.Get("tools"); tools.Kind() == '[' {
		cleaned, loose := fit.Schemas(tools, rules, maxSchemas)
		if cleaned != nil {
			c.Set("tools", cleaned)
		}
		for _, i := range loose {
			c.adjust(fmt.Sprintf("tools[%d].function.strict", i))
		}
	}
	format := c.Get("response_format")
	given := gjson.GetBytes(format, "json_schema.schema")
	if !given.IsObject() {
		return
	}
	cleaned, _ := schema.Clean(jsontext.Value(given.Raw), rules, maxSchemas)
	if rules.Strict != nil && !rules.Strict(cleaned) {
		if strict := gjson.GetBytes(format, "json_schema.strict"); strict.Bool() {
			format = slices.Concat(format[:strict.Index], jsontext.Value("false"), format[strict.Index+len(strict.Raw):])
			given = gjson.GetBytes(format, "json_schema.schema")
			c.adjust("response_format")
		}
	}
	c.Set("response_format", slices.Concat(format[:given.Index], cleaned, format[given.Index+len(given.Raw):]))
}

// effort makes the effort of a translated request one that the model has. A model that does not reason gets none.
func (c *Changes) effort() {
	const name = "reasoning_effort"
	can, asked := c.target.Can(), textOr(c.Get(name))
	if can != nil && can.ChatToolsWithReasoning != nil && !*can.ChatToolsWithReasoning && says(c.object, "tools") {
		if asked != reasoning.None { // see package responses, which the target does not have
			c.adjust(name)
		}
		c.Set(name, []byte(`"none"`))
		return
	}
	if asked == "" {
		return
	}
	efforts := can.GetEfforts()
	never := can.GetThinking() == configv1.Thinking_NEVER || slices.Contains(can.GetUnsupportedParameters(), name)
	if never {
		if c.Remove(name); asked != reasoning.None {
			c.adjust(name)
		}
		return
	}
	isSwitch := asked == reasoning.None && can.GetThinking() == configv1.Thinking_ADAPTIVE // which the vendor has apart
	if len(efforts) == 0 || slices.Contains(efforts, asked) || isSwitch {
		return
	}
	c.adjust(name)
	if near := reasoning.Nearest(asked, efforts); near != "" {
		c.Set(name, openai.AppendString(nil, near))
	} else {
		c.Remove(name)
	}
}

// sampling leaves out what OpenAI's models take only if they do not reason:
// https://platform.openai.com/docs/guides/latest-model
func (c *Changes) sampling() {
	if effort := textOr(c.Get("reasoning_effort")); effort == "" || effort == reasoning.None {
		return
	}
	for _, name := range [...]string{"temperature", "top_p"} {
		if v := c.Get(name); v != nil && !isDefault(c.object, name, v) {
			c.note(name)
		}
		c.Remove(name)
	}
}

// textOr returns a string, or "" for anything else.
func textOr(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	return openai.Unquote(v)
}

// adjust notes a parameter whose value was replaced.
func (c *Changes) adjust(param string) { c.adjusted = turns.Note(c.adjusted, param) }

// named gives a call the client's name of its tool.
func (c *call) named(names *turns.Names) {
	if names == nil || !isText(c.name) {
		return
	}
	if sent := openai.Unquote(c.name); names.Client(sent) != sent {
		name := openai.AppendString(nil, names.Client(sent))
		c.function = bytes.Replace(c.function, c.name, name, 1)
		c.name = name
	}
}
