package responses

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// An item is one item of the conversation that is sent.
type item struct {
	Type      string `json:"type"`
	Role      string `json:"role,omitzero"`
	Content   []part `json:"content,omitzero"`
	CallID    string `json:"call_id,omitzero"`
	Name      string `json:"name,omitzero"`
	Arguments string `json:"arguments,omitzero"`
	Output    any    `json:"output,omitzero"`
}

type part struct {
	Type     string  `json:"type"`
	Text     *string `json:"text,omitzero"`
	Refusal  string  `json:"refusal,omitzero"`
	ImageURL string  `json:"image_url,omitzero"`
	Detail   string  `json:"detail,omitzero"`
	FileID   string  `json:"file_id,omitzero"`
	Filename string  `json:"filename,omitzero"`
	FileData string  `json:"file_data,omitzero"`
	FileURL  string  `json:"file_url,omitzero"`

	Audio *sound `json:"input_audio,omitzero"`
}

type sound struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

// input translates the conversation.
func (e *encoder) input() error {
	for _, member := range turns.Unsupported(e.chat) {
		if member != turns.UnsupportedDetail && member != turns.UnsupportedCache {
			e.Drop(member)
		}
	}
	for i := range e.chat.Messages {
		if err := e.message(i, &e.chat.Messages[i]); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) add(i item) error {
	raw, err := json.Marshal(&i)
	e.out.Input = append(e.out.Input, raw)
	return err
}

func (e *encoder) message(i int, m *openai.Message) error {
	parts, err := e.parts(fmt.Sprintf("messages[%d]", i), m)
	if err != nil {
		return err
	}
	switch m.Role {
	case "tool":
		out := item{Type: "function_call_output", CallID: e.form.Item.Fit(m.ToolCallID), Output: parts}
		if len(parts) == 0 || len(parts) == 1 && parts[0].Text != nil {
			out.Output = m.Content.Text()
		}
		return e.add(out)
	case "assistant":
		return e.said(m, parts)
	}
	return e.add(item{Type: "message", Role: m.Role, Content: parts})
}

// said translates the assistant's texts and calls, with the thinking before the calls.
func (e *encoder) said(m *openai.Message, parts []part) error {
	if m.Refusal != "" {
		parts = append(parts, part{Type: "refusal", Refusal: m.Refusal})
	}
	for i := range m.ToolCalls {
		if i == 0 {
			e.out.Input = append(e.out.Input, e.thoughts(m.ToolCalls[i].Carried)...)
		}
	}
	if len(parts) > 0 {
		if err := e.add(item{Type: "message", Role: "assistant", Content: parts}); err != nil {
			return err
		}
	}
	for i := range m.ToolCalls {
		call := &m.ToolCalls[i]
		if i > 0 {
			e.out.Input = append(e.out.Input, e.thoughts(call.Carried)...)
		}
		arguments := string(turns.Arguments(call.Function.Arguments))
		if err := e.add(item{Type: "function_call", CallID: e.form.Item.Fit(call.ID), Name: e.names.Sent(call.Function.Name),
			Arguments: arguments}); err != nil {
			return err
		}
	}
	return nil
}

// carried is the content of a call's id: reasoning items as they came, and the provider that they came from.
// Another one could not decrypt them.
type carried struct {
	Responses struct {
		Of    string           `json:"of"`
		Items []jsontext.Value `json:"items"`
	} `json:"responses"`
}

// thoughts returns the reasoning items that came before a call.
func (e *encoder) thoughts(data jsontext.Value) []jsontext.Value {
	var c carried
	if len(data) == 0 || json.Unmarshal(data, &c) != nil || c.Responses.Of != e.target.Config.GetName() {
		return nil
	}
	return c.Responses.Items
}

// parts translates the content of a message.
func (e *encoder) parts(at string, m *openai.Message) ([]part, error) {
	kind := "input_text"
	if m.Role == "assistant" {
		kind = "output_text"
	}
	var out []part
	for n := range m.Content {
		p := &m.Content[n]
		switch {
		case p.Type == "text":
			if p.Text != "" || m.Role != "assistant" {
				out = append(out, part{Type: kind, Text: &p.Text})
			}
		case p.Type == "refusal":
			out = append(out, part{Type: "refusal", Refusal: p.Refusal})
		case p.Thought != nil:
		case p.Type == "image_url" && p.ImageURL != nil:
			out = append(out, part{Type: "input_image", ImageURL: p.ImageURL.URL, Detail: p.ImageURL.Detail})
		case p.Type == "input_audio" && p.InputAudio != nil:
			out = append(out, part{Type: "input_audio", Audio: &sound{p.InputAudio.Data, p.InputAudio.Format}})
		case p.Type == "file" && p.File != nil:
			f := part{Type: "input_file", FileID: p.File.FileID, Filename: p.File.Filename, FileData: p.File.FileData}
			if strings.HasPrefix(f.FileData, "https://") || strings.HasPrefix(f.FileData, "http://") {
				f.FileURL, f.FileData, f.Filename = f.FileData, "", ""
			}
			out = append(out, f)
		default:
			return nil, openai.BadValue(fmt.Sprintf("%s.content[%d].type", at, n),
				"Content of type '%s' is not supported by the provider '%s'.", p.Type, e.Vendor)
		}
	}
	return out, nil
}
