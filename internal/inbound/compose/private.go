package compose

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/private"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// For returns a chat completion as the vendor of a target gets it: without lines of the system's prompt that concern
// another vendor alone.
func For(r *openai.ChatRequest, vendor string, t provider.Target) *openai.ChatRequest {
	if !r.Marked(openai.MarkHeader) || !private.Mentioned(r.Sent().Body) {
		return r
	}
	vendor = private.Vendor(vendor, t.Config.GetEndpoint())
	body := r.Sent().Body
	list := gjson.GetBytes(body, "messages")
	var kept []jsontext.Value
	for _, m := range list.Array() {
		raw := jsontext.Value(m.Raw)
		if role := m.Get("role").Str; role == "system" || role == "developer" {
			raw = Prompt(raw, "content", vendor)
		}
		if raw != nil {
			kept = append(kept, raw)
		}
	}
	if len(kept) == 0 {
		return r
	}
	again, err := r.Carrier().ParseChatRequest(slices.Concat(body[:list.Index], schema.AppendArray(nil, kept),
		body[list.Index+len(list.Raw):]))
	if err != nil { // it was read
		return r
	}
	again.Translated = r.Translated
	return again
}

// Prompt returns an object whose member is a prompt of the system, a string or a list of parts with a text, without
// lines that concern another vendor alone. It returns nil if nothing is left of the prompt.
func Prompt(object jsontext.Value, member, vendor string) jsontext.Value {
	content := gjson.GetBytes(object, member)
	left, changed := prompt(content, vendor)
	if !changed {
		return object
	}
	if left == nil {
		return nil
	}
	return slices.Concat(object[:content.Index], left, object[content.Index+len(content.Raw):])
}

// prompt returns what is left of a prompt, or nil, and whether something is missing.
func prompt(content gjson.Result, vendor string) (left jsontext.Value, changed bool) {
	if content.Type == gjson.String {
		text := private.Prompt(content.Str, vendor)
		if text == "" {
			return nil, text != content.Str
		}
		return openai.AppendString(nil, text), text != content.Str
	}
	var parts []jsontext.Value
	for _, p := range content.Array() {
		part := jsontext.Value(p.Raw)
		if text := p.Get("text"); text.Type == gjson.String {
			rest := private.Prompt(text.Str, vendor)
			if rest != text.Str {
				changed = true
				at := text.Index - p.Index
				part = slices.Concat(part[:at], openai.AppendString(nil, rest), part[at+len(text.Raw):])
			}
			if rest == "" && text.Str != "" {
				continue
			}
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return nil, changed
	}
	return schema.AppendArray(nil, parts), changed
}
