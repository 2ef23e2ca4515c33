// Package fit puts the parts of a chat completion into the form that a strict vendor demands: names and ids, results
// right after their calls, and schemas. It works on JSON, for codecs that change a request in place.
//
// Each function returns nil if nothing must change, so that a request that fits costs one look at it.
package fit

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// Names returns the tools with names that the vendor takes.
func Names(tools jsontext.Value, names *turns.Names) []byte {
	return each(tools, func(tool []schema.Member) bool { return rename(tool, names.Sent) })
}

// Choice returns the choice among tools with names that the vendor takes.
func Choice(choice jsontext.Value, names *turns.Names) []byte {
	ms := schema.Members(choice)
	if !rename(ms, names.Sent) {
		return nil
	}
	return schema.AppendObject(nil, ms)
}

// rename changes the name of the function among the members of a tool, a choice or a call.
func rename(ms []schema.Member, sent func(string) string) bool {
	for i := range ms {
		if ms[i].Name != "function" {
			continue
		}
		inner := schema.Members(ms[i].Value)
		if changeText(inner, "name", sent) {
			ms[i].Value = schema.AppendObject(nil, inner)
			return true
		}
	}
	return false
}

// changeText changes a member that is a string.
func changeText(ms []schema.Member, name string, change func(string) string) bool {
	for i := range ms {
		if ms[i].Name != name || ms[i].Value.Kind() != '"' {
			continue
		}
		before := openai.Unquote(ms[i].Value)
		if after := change(before); after != before {
			ms[i].Value = openai.AppendString(nil, after)
			return true
		}
	}
	return false
}

// Messages returns the messages with names of tools and ids of calls that the vendor takes. Names may be nil.
func Messages(list jsontext.Value, names *turns.Names, ids forms.Form) []byte {
	return each(list, func(message []schema.Member) bool {
		changed := changeText(message, "tool_call_id", ids.Fit)
		for i := range message {
			if message[i].Name != "tool_calls" {
				continue
			}
			calls := each(message[i].Value, func(call []schema.Member) bool {
				named := names != nil && rename(call, names.Sent)
				return changeText(call, "id", ids.Fit) || named
			})
			if calls != nil {
				message[i].Value, changed = calls, true
			}
		}
		return changed
	})
}

// each returns a list of objects with the changes of those that change reports as changed.
func each(list jsontext.Value, change func([]schema.Member) bool) []byte {
	elements, changed := schema.Elements(list), false
	for i := range elements {
		if ms := schema.Members(elements[i]); change(ms) {
			elements[i], changed = schema.AppendObject(nil, ms), true
		}
	}
	if !changed {
		return nil
	}
	return schema.AppendArray(nil, elements)
}

// Schemas returns the tools with schemas that the vendor takes. What a reference stands for is bounded by most bytes.
// It also returns the indexes of tools that were strict and cannot be.
func Schemas(tools jsontext.Value, rules *schema.Rules, most int) (out []byte, loose []int) {
	i := -1
	out = each(tools, func(tool []schema.Member) bool {
		i++
		for n := range tool {
			if tool[n].Name != "function" {
				continue
			}
			f, changed, strict := parameters(schema.Members(tool[n].Value), rules, &most)
			if !strict {
				loose = append(loose, i)
			}
			if changed {
				tool[n].Value = schema.AppendObject(nil, f)
			}
			return changed
		}
		return false
	})
	return out, loose
}

// parameters cleans the schema of a function. It reports whether something has changed, and whether the function is as
// strict as before.
func parameters(f []schema.Member, rules *schema.Rules, most *int) (_ []schema.Member, changed, strict bool) {
	at := -1
	for i := range f {
		if f[i].Name == "parameters" {
			at = i
		}
	}
	switch {
	case at < 0:
		at, f = len(f), append(f, schema.Member{Name: "parameters"})
		fallthrough
	case f[at].Value.Kind() != '{':
		f[at].Value = jsontext.Value(`{"type":"object","properties":{}}`)
		return f, true, true
	}
	given, also := f[at].Value, ""
	if rules.ObjectRoot && !rules.Merge {
		given, also = schema.Object(given)
	}
	cleaned, size := schema.Clean(given, rules, *most)
	*most -= size
	if rules.ObjectRoot && rules.Merge {
		cleaned, also = schema.Object(cleaned)
	}
	changed = !bytes.Equal(compact(f[at].Value), cleaned)
	f[at].Value = cleaned
	if also != "" {
		f = schema.Describe(f, "The arguments must also match this JSON Schema: "+also)
	}
	if rules.Strict == nil || string(schema.Find(f, "strict")) != "true" || rules.Strict(cleaned) {
		return f, changed, true
	}
	for i := range f {
		if f[i].Name == "strict" {
			f[i].Value = jsontext.Value("false")
		}
	}
	return f, true, false
}

func compact(v jsontext.Value) jsontext.Value {
	out := v.Clone()
	if out.Compact() != nil {
		return v
	}
	return out
}

// role returns the role of a message.
func role(message []byte) string { return gjson.GetBytes(message, "role").Str }
