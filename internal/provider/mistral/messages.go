package mistral

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// messages writes the conversation, message by message, each with no member but those that the vendor knows.
func (e *encoder) messages() error {
	e.out = append(e.member("messages"), '[')
	for i := range e.chat.Messages {
		m := &e.chat.Messages[i]
		if m.Name != "" && m.Role != "function" && m.Role != "tool" {
			e.drop(fmt.Sprintf("messages[%d].name", i))
		}
		before := len(e.out)
		if e.out[before-1] == '}' {
			e.out = append(e.out, ',')
		}
		e.out = append(e.out, '{')
		said, err := e.message(m, i)
		if err != nil {
			return err
		}
		if e.out = append(e.out, '}'); !said {
			e.out = e.out[:before]
		}
	}
	e.out = append(e.out, ']')
	return nil
}

// message writes the members of a message. It reports whether there is anything in it.
func (e *encoder) message(m *openai.Message, n int) (bool, error) {
	switch m.Role {
	case "assistant":
		return e.assistant(m, n)
	case "tool", "function":
		id := m.ToolCallID
		if m.Role == "function" {
			id = legacyID(m.Name)
		}
		e.out = append(e.member("role"), `"tool"`...)
		e.out = openai.AppendString(e.member("tool_call_id"), callID(id))
		if m.Name != "" {
			e.out = openai.AppendString(e.member("name"), m.Name)
		}
	case "developer":
		e.out = append(e.member("role"), `"system"`...)
	default:
		e.out = openai.AppendString(e.member("role"), m.Role)
	}
	e.out = e.member("content")
	return true, e.content(m, n, "")
}

func (e *encoder) assistant(m *openai.Message, n int) (bool, error) {
	e.out = append(e.member("role"), `"assistant"`...)
	reasoning := m.ReasoningContent
	if thinking := e.target.Can().GetThinking(); thinking != configv1.Thinking_ALWAYS && thinking != configv1.Thinking_ADAPTIVE {
		reasoning = "" // models that do not think have no place for it
	}
	said := reasoning != "" || m.Refusal != "" || hasContent(m.Content)
	if said {
		e.out = e.member("content")
		if err := e.content(m, n, reasoning); err != nil {
			return false, err
		}
	}
	calls := m.ToolCalls
	if m.FunctionCall != nil {
		calls = append(calls[:len(calls):len(calls)], openai.ToolCall{ID: legacyID(m.FunctionCall.Name), Function: *m.FunctionCall})
	}
	for i, c := range calls {
		if i == 0 {
			e.out = append(e.member("tool_calls"), '[')
		} else {
			e.out = append(e.out, ',')
		}
		e.out = openai.AppendString(append(e.out, `{"id":`...), callID(c.ID))
		e.out = openai.AppendString(append(e.out, `,"type":"function","function":{"name":`...), c.Function.Name)
		arguments := c.Function.Arguments
		if strings.TrimSpace(arguments) == "" {
			arguments = "{}"
		}
		e.out = openai.AppendString(append(e.out, `,"arguments":`...), arguments)
		e.out = append(e.out, `}}`...)
	}
	if len(calls) > 0 {
		e.out = append(e.out, ']')
	} else if said && n == len(e.chat.Messages)-1 {
		e.out = append(e.member("prefix"), "true"...) // an answer that is begun, without which the vendor wants another to speak last
	}
	return said || len(calls) > 0, nil
}

// hasContent reports whether there is more than empty text.
func hasContent(parts openai.Content) bool {
	for i := range parts {
		if parts[i].Type != "text" || parts[i].Text != "" {
			return true
		}
	}
	return false
}

// content writes a message's content: a string where it is one text, and else a list.
func (e *encoder) content(m *openai.Message, n int, reasoning string) error {
	if reasoning == "" && m.Refusal == "" && (len(m.Content) == 0 || len(m.Content) == 1 && m.Content[0].Type == "text") {
		e.out = openai.AppendString(e.out, m.Content.Text())
		return nil
	}
	e.out = append(e.out, '[')
	if reasoning != "" {
		e.out = openai.AppendString(append(e.out, `{"type":"thinking","thinking":[{"type":"text","text":`...), reasoning)
		e.out = append(e.out, `}],"closed":true}`...)
	}
	for i := range m.Content {
		p := &m.Content[i]
		if p.Type == "text" && p.Text == "" {
			continue
		}
		if e.out[len(e.out)-1] == '}' {
			e.out = append(e.out, ',')
		}
		if err := e.part(p, m.Role, n, i); err != nil {
			return err
		}
	}
	if m.Refusal != "" {
		if e.out[len(e.out)-1] == '}' {
			e.out = append(e.out, ',')
		}
		e.text(m.Refusal)
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) text(s string) {
	e.out = append(openai.AppendString(append(e.out, `{"type":"text","text":`...), s), '}')
}

// part writes one part of a message's content.
func (e *encoder) part(p *openai.Part, role string, n, i int) error {
	media := role == "user" || role == "tool"
	switch {
	case p.Type == "text" || p.Type == "refusal":
		e.text(p.Text + p.Refusal)
	case media && p.Type == "image_url" && p.ImageURL != nil:
		e.out = openai.AppendString(append(e.out, `{"type":"image_url","image_url":{"url":`...), p.ImageURL.URL)
		if p.ImageURL.Detail != "" {
			e.out = openai.AppendString(append(e.out, `,"detail":`...), p.ImageURL.Detail)
		}
		e.out = append(e.out, "}}"...)
	case media && p.Type == "input_audio" && p.InputAudio != nil:
		e.out = openai.AppendString(append(e.out, `{"type":"input_audio","input_audio":{"data":`...), p.InputAudio.Data)
		e.out = openai.AppendString(append(e.out, `,"format":`...), p.InputAudio.Format)
		e.out = append(e.out, "}}"...)
	case media && p.Type == "file" && p.File != nil:
		return e.file(p.File, fmt.Sprintf("messages[%d].content[%d].file", n, i))
	case p.Type == "document_url", p.Type == "thinking", p.Type == "reference", p.Type == "tool_reference":
		e.out = append(e.out, e.rawPart(n, i)...) // the vendor's own
	default:
		return badValue(fmt.Sprintf("messages[%d].content[%d].type", n, i),
			"Content of type '%s' is not supported by the provider '%s' in a message of the role '%s'.", p.Type, name, role)
	}
	return nil
}

// file writes a file: one that the vendor keeps by its id, and any other as a document, by URL or data URI.
func (e *encoder) file(f *openai.File, at string) error {
	if f.FileID != "" {
		e.out = append(openai.AppendString(append(e.out, `{"type":"file","file_id":`...), f.FileID), '}')
		return nil
	}
	url := f.FileData
	switch {
	case url == "":
		return openai.BadRequest(at+".file_data", "missing_required_parameter", "Missing required parameter: '%s.file_data'.", at)
	case strings.HasPrefix(url, "data:image/"):
		e.out = append(openai.AppendString(append(e.out, `{"type":"image_url","image_url":{"url":`...), url), "}}"...)
		return nil
	case !strings.HasPrefix(url, "data:") && !strings.Contains(url, "://"):
		url = "data:application/pdf;base64," + url
	}
	e.out = openai.AppendString(append(e.out, `{"type":"document_url","document_url":`...), url)
	if f.Filename != "" {
		e.out = openai.AppendString(append(e.out, `,"document_name":`...), f.Filename)
	}
	e.out = append(e.out, '}')
	return nil
}

// rawPart returns a part of a message's content as the client sent it.
func (e *encoder) rawPart(n, i int) jsontext.Value {
	if e.raw == nil {
		gjson.ParseBytes(e.body.Get("messages")).ForEach(func(_, m gjson.Result) bool {
			e.raw = append(e.raw, m.Get("content").Array())
			return true
		})
	}
	return jsontext.Value(e.raw[n][i].Raw)
}

// legacyID is the id of a function_call, which has none of its own.
func legacyID(name string) string { return "fn:" + name }

// callIDLength is how long the ids of tool calls are. Nothing but letters and digits is in them.
const callIDLength = 9

const alphanumeric = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// callID returns the id to send for one of another vendor's: the same for the call and for its result.
func callID(id string) string {
	valid := len(id) == callIDLength
	for i := 0; valid && i < len(id); i++ {
		valid = strings.IndexByte(alphanumeric, id[i]) >= 0
	}
	if valid {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	bits := binary.BigEndian.Uint64(sum[:])
	out := make([]byte, callIDLength)
	for i := range out {
		out[i] = alphanumeric[bits%uint64(len(alphanumeric))]
		bits /= uint64(len(alphanumeric))
	}
	return string(out)
}
