package cohere

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// messages translates the conversation, message by message: the vendor has OpenAI's roles, in any order.
func (e *encoder) messages() error {
	gjson.ParseBytes(e.body.Get("documents")).ForEach(func(_, d gjson.Result) bool {
		e.out.Documents = append(e.out.Documents, []byte(d.Raw))
		return true
	})
	e.out.Messages = make([]message, 0, len(e.chat.Messages))
	for i := range e.chat.Messages {
		m := &e.chat.Messages[i]
		if m.Name != "" && m.Role != "function" && m.Role != "tool" {
			e.drop(fmt.Sprintf("messages[%d].name", i))
		}
		parts, err := e.parts(m, i)
		if err != nil {
			return err
		}
		out := message{Role: m.Role, Content: parts}
		switch m.Role {
		case "developer":
			out.Role = "system"
		case "tool":
			out.ToolCallID = m.ToolCallID
		case "function":
			out.Role, out.ToolCallID = "tool", legacyID(m.Name)
		case "assistant":
			if said := e.assistant(&out, m); !said {
				continue // the vendor refuses a turn that is empty
			}
		}
		e.out.Messages = append(e.out.Messages, out)
	}
	return nil
}

// assistant fills in what only the assistant's messages have. It reports whether there is anything in it.
func (e *encoder) assistant(out *message, m *openai.Message) bool {
	for _, c := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, newCall(c.ID, c.Function))
	}
	if m.FunctionCall != nil {
		out.ToolCalls = append(out.ToolCalls, newCall(legacyID(m.FunctionCall.Name), *m.FunctionCall))
	}
	switch {
	case m.ReasoningContent == "":
	case len(out.ToolCalls) > 0:
		out.ToolPlan = m.ReasoningContent
	default:
		out.Content = append(content{{Type: "thinking", Thinking: m.ReasoningContent}}, out.Content...)
	}
	if len(out.Content) == 0 {
		out.Content = nil
	}
	return len(out.Content) > 0 || len(out.ToolCalls) > 0
}

func newCall(id string, f openai.FunctionCall) call {
	if strings.TrimSpace(f.Arguments) == "" {
		f.Arguments = "{}"
	}
	return call{ID: id, Type: "function", Function: callFunction{Name: f.Name, Arguments: f.Arguments}}
}

// legacyID is the id of a function_call, which has none of its own.
func legacyID(name string) string { return "fn:" + name }

// parts translates the content of a message. What comes back is not nil, though it may be empty.
func (e *encoder) parts(m *openai.Message, n int) (content, error) {
	parts := make(content, 0, len(m.Content)+1)
	for i := range m.Content {
		p := &m.Content[i]
		switch {
		case p.Type == "text" || p.Type == "refusal":
			if text := p.Text + p.Refusal; text != "" {
				parts = append(parts, part{Type: "text", Text: text})
			}
			continue
		case m.Role == "user" && p.Type == "image_url" && p.ImageURL != nil:
			parts = append(parts, part{Type: "image_url", ImageURL: &imageURL{URL: p.ImageURL.URL, Detail: p.ImageURL.Detail}})
			continue
		case m.Role == "user" && p.Type == "file" && p.File != nil:
			if err := e.file(p.File, fmt.Sprintf("messages[%d].content[%d].file", n, i)); err != nil {
				return nil, err
			}
			continue
		}
		return nil, badValue(fmt.Sprintf("messages[%d].content[%d].type", n, i),
			"Content of type '%s' is not supported by the provider '%s' in a message of the role '%s'.", p.Type, name, m.Role)
	}
	if m.Refusal != "" {
		parts = append(parts, part{Type: "text", Text: m.Refusal})
	}
	return parts, nil
}

// file makes a file of text a document, which is how the vendor takes files. It takes no others.
func (e *encoder) file(f *openai.File, at string) error {
	if f.FileData == "" {
		return badValue(at+".file_id", "Files by id are not supported by the provider '%s'. Send the content as 'file_data'.", name)
	}
	text, ok := fileText(f.FileData)
	if !ok {
		return badValue(at+".file_data", "The file '%s' is not text in base64, and the provider '%s' takes no other.", f.Filename, name)
	}
	raw, err := json.Marshal(document{Data: documentData{Title: f.Filename, Text: text}})
	if err != nil {
		return badValue(at+".file_data", "The file '%s' could not be read: %v.", f.Filename, err)
	}
	e.out.Documents = append(e.out.Documents, raw)
	return nil
}

// fileText returns the text that is a file's content: base64, or a data URI (RFC 2397).
func fileText(data string) (string, bool) {
	rest, isURI := strings.CutPrefix(data, "data:")
	head := ";base64"
	if isURI {
		var found bool
		if head, data, found = strings.Cut(rest, ","); !found {
			return "", false
		}
	}
	var text []byte
	var err error
	if strings.HasSuffix(head, ";base64") {
		text, err = base64.StdEncoding.DecodeString(data)
	} else {
		var plain string
		plain, err = url.PathUnescape(data)
		text = []byte(plain)
	}
	ok := err == nil && utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 && len(bytes.TrimSpace(text)) > 0
	return string(text), ok && !bytes.HasPrefix(text, []byte("%PDF-"))
}

// badValue is the 400 for a value that the vendor has no place for.
func badValue(param, format string, args ...any) error {
	return openai.BadRequest(param, "unsupported_value", format, args...)
}
