package responses

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/id"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/jobsvc/items"
	"github.com/modelgate/modelgate/jobsvc/rest"
)

const (
	reasoning     = "reasoning"
	itemReference = "item_reference"
)

// prefixes are the prefixes of items' ids, by type. Other items have otherItem.
var prefixes = map[string]string{
	"message": "msg_", reasoning: "rs_", "function_call": "fc_", "function_call_output": "fco_",
	"custom_tool_call": "ctc_", "custom_tool_call_output": "cto_",
}

const otherItem = "item_"

// inputItems returns the items that a request sends: a string is one message of the user.
func inputItems(o *rest.Object, v jsontext.Value) []json.RawMessage {
	if v.Kind() == '"' {
		return []json.RawMessage{replaced(nil, set("type", text("message")), set("role", text("user")),
			set("content", part("user", string(v))))}
	}
	var all []json.RawMessage
	if v.Kind() != '[' || json.Unmarshal(v, &all) != nil {
		o.WrongType("input", "a string or an array", v)
		return nil
	}
	return all
}

// checkItems refuses what no item is.
func checkItems(o *rest.Object, param string, items []json.RawMessage) {
	for i, item := range items {
		if v := jsontext.Value(item); v.Kind() != '{' {
			o.WrongType(element(param, i), "an object", v)
			return
		}
	}
}

// typeOf returns the type of an item. One that has none is a message, or refers to another by its id alone.
func typeOf(item gjson.Result) string {
	typ := item.Get("type").Str
	switch {
	case typ != "":
		return typ
	case !item.Get("role").Exists() && item.Get("id").Exists():
		return itemReference
	}
	return "message"
}

// part returns the content of a message that is given as a string, which is JSON.
func part(role, content string) []byte {
	if role == "assistant" {
		return []byte(`[{"type":"output_text","annotations":[],"text":` + content + `}]`)
	}
	return []byte(`[{"type":"input_text","text":` + content + `}]`)
}

// identified returns items in one form: each has an id and a type, and messages have parts.
func identified(items []json.RawMessage) []json.RawMessage {
	out := make([]json.RawMessage, len(items))
	for i, raw := range items {
		out[i] = raw
		item := gjson.ParseBytes(raw)
		typ := typeOf(item)
		var with []openai.Edit
		if item.Get("type").Str == "" {
			with = append(with, set("type", text(typ)))
		}
		if item.Get("id").Str == "" {
			prefix := prefixes[typ]
			if prefix == "" {
				prefix = otherItem
			}
			with = append(with, set("id", text(prefix+id.Bare())))
		}
		if said := item.Get("content"); typ == "message" && said.Type == gjson.String {
			with = append(with, set("content", part(item.Get("role").Str, said.Raw)))
		}
		if len(with) > 0 {
			out[i] = replaced(raw, with...)
		}
	}
	return out
}

// sendable reports whether a provider takes an item. One that serves the API itself refuses the summary of a reasoning
// that it does not store.
func sendable(raw json.RawMessage, native bool) bool {
	item := gjson.ParseBytes(raw)
	return !native || typeOf(item) != reasoning || item.Get("encrypted_content").Str != "" ||
		len(item.Get("content").Array()) > 0
}

// appendSendable appends an item as any provider takes it. Ids are the gateway's own, except that an encrypted
// reasoning is bound to its id.
func appendSendable(dst []byte, raw json.RawMessage) []byte {
	item := gjson.ParseBytes(raw)
	if typeOf(item) == reasoning || !item.Get("id").Exists() {
		return append(dst, raw...)
	}
	return schema.AppendEdited(dst, jsontext.Value(raw), set("id", nil))
}

// listOf returns OpenAI's list of items.
func listOf(items []json.RawMessage, more bool) rest.List[json.RawMessage] {
	l := rest.List[json.RawMessage]{Object: "list", Data: []json.RawMessage{}, HasMore: more}
	if n := len(items); n > 0 {
		first, last := gjson.GetBytes(items[0], "id").Str, gjson.GetBytes(items[n-1], "id").Str
		l.Data, l.FirstID, l.LastID = items, &first, &last
	}
	return l
}

// A finder returns the item with an id, or nil.
type finder func(id string) (json.RawMessage, error)

// nothing finds nothing.
func nothing(string) (json.RawMessage, error) { return nil, nil }

// among finds items of a list in memory.
func among(all []json.RawMessage) finder {
	return func(id string) (json.RawMessage, error) {
		for _, item := range all {
			if gjson.GetBytes(item, "id").Str == id {
				return item, nil
			}
		}
		return nil, nil
	}
}

// finding finds items of a stored list.
func finding(ctx context.Context, at *items.Store, list *items.List) finder {
	return func(id string) (json.RawMessage, error) {
		_, item, err := at.Find(ctx, list, id)
		return item, err
	}
}

// known returns items with each reference replaced by its item.
func known(said []json.RawMessage, find finder, param string) ([]json.RawMessage, error) {
	out := slices.Clone(said)
	for i, raw := range said {
		item := gjson.ParseBytes(raw)
		if typeOf(item) != itemReference {
			continue
		}
		other, err := find(item.Get("id").Str)
		if err != nil {
			return nil, err
		}
		if other == nil {
			return nil, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest,
				Param: element(param, i),
				Message: "Item with id '" + item.Get("id").Str +
					"' not found in the previous response or the conversation. Send the item itself."}
		}
		out[i] = other
	}
	return out, nil
}
