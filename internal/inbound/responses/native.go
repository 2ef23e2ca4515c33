package responses

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/jsonwalk"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/private"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// nativeRequest returns a client's request for a vendor that has the API itself.
func nativeRequest(path string, r *openai.NativeRequest, t provider.Target, vendor string) provider.Request {
	body, adjusted := fitted(nativeBody(r, t, vendor), r, t, vendor)
	return provider.Request{Path: path, Header: http.Header{"Content-Type": {jsonType}}, Body: body, Adjusted: adjusted}
}

// nativeBody returns a client's request for a vendor that has the API itself: with the vendor's name of the model, and
// without what the gateway added to answers of other vendors and this one would refuse.
func nativeBody(r *openai.NativeRequest, t provider.Target, vendor string) []byte {
	body, form := withoutPrivate(r.WithModel(t.Model), private.Vendor(vendor, t.Config.GetEndpoint())), forms.Of(vendor)
	if !bytes.Contains(body, []byte(`"call_id"`)) && !bytes.Contains(body, []byte(`"id"`)) {
		return body
	}
	from, to := -1, -1
	jsonwalk.Object(body, jsonwalk.Between(body, 0), func(name, nameEnd, start int) int {
		end := jsonwalk.Value(body, start)
		if string(body[name:nameEnd]) == `"input"` && body[start] == '[' {
			from, to = start, end
		}
		return end
	})
	if from < 0 {
		return body
	}
	list := returnedItems(body[from:to], form)
	if list == nil {
		return body
	}
	return slices.Concat(body[:from], list, body[to:])
}

// withoutPrivate returns a body without what concerns another vendor alone: lines of the system's prompt, and members.
func withoutPrivate(body []byte, vendor string) []byte {
	lines := private.Mentioned(body)
	if !lines && !bytes.Contains(body, []byte(`"client_metadata"`)) {
		return body
	}
	ms, changed := schema.Members(body), false
	for i := range ms {
		m := &ms[i]
		switch {
		case !private.Takes(vendor, private.Member, m.Name):
			m.Value, changed = nil, true
		case lines && m.Name == "instructions" && m.Value.Kind() == '"':
			m.Value, changed = openai.AppendString(nil, private.Prompt(openai.Unquote(m.Value), vendor)), true
		case lines && m.Name == "input" && m.Value.Kind() == '[':
			var kept []jsontext.Value
			for _, item := range schema.Elements(m.Value) {
				if role := gjson.GetBytes(item, "role").Str; role == "system" || role == "developer" {
					item = compose.Prompt(item, "content", vendor)
				}
				if item != nil {
					kept = append(kept, item)
				}
			}
			m.Value, changed = schema.AppendArray(nil, kept), true
		}
	}
	if !changed {
		return body
	}
	return schema.AppendObject(nil, ms)
}

// returnedItems returns the items as a vendor takes them, or nil if it takes them as they are.
func returnedItems(list []byte, form forms.Vendor) []byte {
	var kept []jsontext.Value // from the first item on that changes
	changed, n := false, 0
	jsonwalk.Array(list, 0, func(start int) int {
		end := jsonwalk.Value(list, start)
		raw := jsontext.Value(list[start:end:end])
		item, keep := raw, true
		if raw[0] == '{' {
			item, keep = returnedItem(raw, form)
		}
		if !changed && (!keep || &item[0] != &raw[0]) {
			changed, kept = true, slices.Clone(schema.Elements(list)[:n])
		}
		if changed && keep {
			kept = append(kept, item)
		}
		n++
		return end
	})
	if !changed {
		return nil
	}
	return schema.AppendArray(nil, kept)
}

// returnedItem returns an item as a vendor takes it, and whether it does. Reasoning that is not encrypted was made
// by the gateway from another vendor's.
func returnedItem(raw jsontext.Value, form forms.Vendor) (jsontext.Value, bool) {
	var typ, id, callID, encrypted jsontext.Value
	jsonwalk.Object(raw, 0, func(name, nameEnd, start int) int {
		end := jsonwalk.Value(raw, start)
		switch value := raw[start:end:end]; string(raw[name+1 : nameEnd-1]) {
		case "type":
			typ = value
		case "id":
			id = value
		case "call_id":
			callID = value
		case "encrypted_content":
			encrypted = value
		}
		return end
	})
	if string(typ) == `"reasoning"` && form.OwnReasoning && encrypted.Kind() != '"' && (id == nil || isOurs(id)) {
		return nil, false
	}
	plainCall, plain := plainID(callID, form), id
	switch string(typ) {
	case `"item_reference"`:
	case `"local_shell_call_output"`: // its id is the call's
		plain = plainID(id, form)
	default:
		if id.Kind() == '"' && (isOurs(id) || !bytes.Equal(plainID(id, form), id)) {
			plain = nil
		}
	}
	if bytes.Equal(plainCall, callID) && bytes.Equal(plain, id) {
		return raw, true
	}
	return schema.AppendEdited(nil, raw, openai.Edit{Name: "call_id", Value: plainCall},
		openai.Edit{Name: "id", Value: plain}), true
}

// plainID returns an id, as JSON, as the vendor takes it. What is no string stays.
func plainID(id jsontext.Value, form forms.Vendor) jsontext.Value {
	if id.Kind() != '"' {
		return id
	}
	full := openai.Unquote(id)
	if fit := form.Item.Fit(full); fit != full {
		return openai.AppendString(nil, fit)
	}
	return id
}

// isOurs reports whether the id of an item, as JSON, is one that the gateway made: it ends with the number of the item
// in its answer. Vendors' own ids have one underscore.
func isOurs(id jsontext.Value) bool {
	s := string(bytes.Trim(id, `"`))
	first, last := strings.IndexByte(s, '_'), strings.LastIndexByte(s, '_')
	number := s[last+1:]
	if first < 0 || first == last || number == "" || strings.Trim(number, "0123456789") != "" {
		return false
	}
	prefix := s[:first+1]
	return slices.Contains(prefixes[:], prefix) ||
		slices.ContainsFunc(clientTools, func(t *clientTool) bool { return t.prefix == prefix })
}
