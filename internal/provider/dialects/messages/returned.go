package messages

import (
	"bytes"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A nativeMessage is a message of a client's conversation.
type nativeMessage struct {
	Role    string                    `json:"role"`
	Content jsontext.Value            `json:"content"`
	Others  map[string]jsontext.Value `json:",embed"`
}

// returned takes out of a conversation what the gateway added to answers of other vendors, and Claude's vendors
// refuse: thinking without a signature, images of the assistant, citations that Anthropic has not made, and data in
// the ids of calls. Ids that they refuse become others. If the model
// takes no system messages in the middle (inline), they become text of the user.
func returned(body []byte, by openai.Carrier, inline bool) []byte {
	if !bytes.Contains(body, []byte(`"signature"`)) && !openai.HasCarried(body) && !hasStrangeID(body) &&
		!hasOthersAnswer(body) && (inline || !hasSystemRole(body)) {
		return body
	}
	var all struct {
		Messages []nativeMessage           `json:"messages"`
		Others   map[string]jsontext.Value `json:",embed"`
	}
	if json.Unmarshal(body, &all) != nil {
		return body
	}
	changed := false
	for i := range all.Messages {
		m := &all.Messages[i]
		if m.Role == "system" && !inline {
			m.toUser()
			changed = true
		}
		var blocks []jsontext.Value
		if json.Unmarshal(m.Content, &blocks) != nil {
			continue // a string
		}
		kept := blocks[:0]
		for _, b := range blocks {
			out, keep := returnedBlock(b, by)
			if m.Role == "assistant" && keep {
				out, keep = ofAssistant(out)
			}
			changed = changed || !keep || len(out) != len(b)
			if keep {
				kept = append(kept, out)
			}
		}
		if len(kept) == 0 && len(blocks) > 0 {
			kept = append(kept, jsontext.Value(`{"type":"text","text":"."}`)) // a message must not be empty
		}
		m.Content, _ = json.Marshal(kept) // values that were read
	}
	if !changed {
		return body
	}
	out, err := json.Marshal(&all, json.Deterministic(true))
	if err != nil {
		return body
	}
	return out
}

// toUser makes a system message one of the user, with a mark.
func (m *nativeMessage) toUser() {
	m.Role = "user"
	for _, name := range []string{"clear_at", "output_config"} {
		delete(m.Others, name)
	}
	if m.Content.Kind() == '"' {
		m.Content = openai.AppendString(nil, turns.Marked(openai.Unquote(m.Content)))
		return
	}
	var blocks []jsontext.Value
	if json.Unmarshal(m.Content, &blocks) != nil {
		m.Content = jsontext.Value(`"."`)
		return
	}
	for i, b := range blocks {
		if text := gjson.GetBytes(b, "text"); text.Type == gjson.String {
			blocks[i] = bytes.Replace(b, []byte(text.Raw), openai.AppendString(nil, turns.Marked(text.Str)), 1)
		}
	}
	m.Content, _ = json.Marshal(blocks) // values that were read
}

// hasSystemRole reports whether a body may have a message of the role system.
func hasSystemRole(body []byte) bool {
	return bytes.Contains(body, []byte(`"role":"system"`)) || bytes.Contains(body, []byte(`"role": "system"`))
}

// hasStrangeID reports whether a result names a call by an id that Claude's vendors refuse. Texts do not count: their
// quotes are escaped.
func hasStrangeID(body []byte) bool {
	const name = `"tool_use_id"`
	for {
		i := bytes.Index(body, []byte(name))
		if i < 0 {
			return false
		}
		body = bytes.TrimLeft(body[i+len(name):], ": \t\r\n")
		if len(body) == 0 || body[0] != '"' {
			continue
		}
		end := bytes.IndexByte(body[1:], '"')
		if end < 0 {
			return false
		}
		for _, c := range body[1 : 1+end] {
			plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
			if !plain {
				return true
			}
		}
		body = body[1+end:]
	}
}

// returnedBlock returns a block as Claude's vendors take it, and whether they do.
func returnedBlock(b jsontext.Value, by openai.Carrier) (jsontext.Value, bool) {
	root := gjson.ParseBytes(b)
	switch root.Get("type").Str {
	case "thinking":
		return b, root.Get("signature").Str != ""
	case "tool_use", "tool_result":
		for _, name := range []string{"id", "tool_use_id"} {
			full := root.Get(name)
			if fit := forms.Block().Fit(by.Bare(full.Str)); full.Str != "" && fit != full.Str {
				return bytes.Replace(b, []byte(full.Raw), openai.AppendString(nil, fit), 1), true
			}
		}
	}
	return b, true
}

// hasOthersAnswer reports whether the assistant may have said an image, or a text with citations that Anthropic has
// not made. Texts do not count: their quotes are escaped.
func hasOthersAnswer(body []byte) bool {
	if bytes.Contains(body, []byte(`"encrypted_index"`)) {
		return true
	}
	if !bytes.Contains(body, []byte(`"image"`)) {
		return false
	}
	return gjson.GetBytes(body, `messages.#(role=="assistant")#.content.#(type=="image")`).Get("0").Exists()
}

// ofAssistant returns a block of the assistant as Claude's vendors take it, and whether they do.
func ofAssistant(b jsontext.Value) (jsontext.Value, bool) {
	root := gjson.ParseBytes(b)
	switch root.Get("type").Str {
	case "image":
		return b, false
	case "text":
		citations := root.Get("citations")
		kept, all := "", true
		for _, c := range citations.Array() {
			if index := c.Get("encrypted_index"); index.Exists() && index.Str == "" {
				all = false
				continue
			}
			kept += "," + c.Raw
		}
		switch {
		case all:
		case kept == "":
			return bytes.Replace(b, []byte(citations.Raw), []byte("null"), 1), root.Get("text").Str != ""
		default:
			return bytes.Replace(b, []byte(citations.Raw), []byte("["+kept[1:]+"]"), 1), true
		}
	}
	return b, true
}
