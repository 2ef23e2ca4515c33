package cohere

import (
	"bytes"
	"encoding/base64"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// Texts that stand where the vendor wants some and the client has none.
const filler = "."

// messages translates the conversation. The vendor has OpenAI's roles, but wants every call answered, and nothing
// else.
func (e *encoder) messages() error {
	gjson.ParseBytes(e.body.Get("documents")).ForEach(func(_, d gjson.Result) bool {
		e.out.Documents = append(e.out.Documents, []byte(d.Raw))
		return true
	})
	for _, member := range turns.Unsupported(e.chat) {
		if member != turns.UnsupportedDetail && member != turns.UnsupportedReason {
			e.Drop(member)
		}
	}
	c, err := turns.Build(e.chat.Messages, turns.Options{InlineSystem: true, ID: distinctID, Name: e.names.Use})
	if err != nil {
		return err
	}
	if len(c.System) > 0 {
		c.Turns = slices.Insert(c.Turns, 0, turns.Turn{Role: turns.System, Parts: c.System})
	}
	if !slices.ContainsFunc(c.Turns, func(t turns.Turn) bool { return t.Role != turns.System }) {
		c.Turns = append(c.Turns, turns.Turn{Role: turns.User})
	}
	e.out.Messages = make([]message, 0, len(c.Turns))
	for i := range c.Turns {
		t := &c.Turns[i]
		if t.Role == turns.Assistant {
			e.out.Messages = append(e.out.Messages, assistant(t))
		} else if err := e.heard(t); err != nil {
			return err
		}
	}
	return nil
}

// distinctID makes the ids of calls distinct if the client used one id for several.
func distinctID(id string, occurrence int) string {
	if occurrence > 1 || id == "" {
		return turns.ID(id, occurrence)
	}
	return id
}

// heard writes the results of calls, each a message, and what the user or the system says.
func (e *encoder) heard(t *turns.Turn) error {
	for i := range t.Results {
		r := &t.Results[i]
		parts, err := e.parts(r.Parts, false)
		if err != nil {
			return err
		}
		if r.NotExecuted {
			parts = content{{Type: "text", Text: turns.NotExecuted}}
		}
		e.out.Messages = append(e.out.Messages, message{Role: "tool", ToolCallID: r.Call.ID, Content: parts})
	}
	if len(t.Parts) == 0 && len(t.Results) > 0 {
		return nil
	}
	parts, err := e.parts(t.Parts, true)
	if len(parts) == 0 {
		parts = content{{Type: "text", Text: filler}}
		e.Adjust("messages")
	}
	e.out.Messages = append(e.out.Messages, message{Role: string(t.Role), Content: parts})
	return err
}

// assistant returns the assistant's turn as one message.
func assistant(t *turns.Turn) message {
	out := message{Role: "assistant"}
	var reasoning string
	for i := range t.Said {
		said := &t.Said[i]
		reasoning += said.Message.ReasoningContent
		for j := range said.Parts {
			out.Content = append(out.Content, part{Type: "text", Text: said.Parts[j].Text})
		}
		for _, c := range said.Calls {
			out.ToolCalls = append(out.ToolCalls,
				call{ID: c.ID, Type: "function", Function: callFunction{Name: c.Name, Arguments: string(c.Arguments)}})
		}
	}
	switch {
	case reasoning == "":
	case len(out.ToolCalls) > 0:
		out.ToolPlan = reasoning
	default:
		out.Content = append(content{{Type: "thinking", Thinking: reasoning}}, out.Content...)
	}
	return out
}

// parts translates parts, only the user's may be media. The result may be empty, but is not nil.
func (e *encoder) parts(from []turns.Part, media bool) (content, error) {
	parts := make(content, 0, len(from))
	for i := range from {
		p := &from[i]
		switch {
		case p.Type == "text":
			parts = append(parts, part{Type: "text", Text: p.Text})
		case media && p.Type == "image_url" && p.ImageURL != nil:
			address, ok := turns.Address(p.ImageURL.URL)
			if !ok {
				return nil, openai.CodeInvalidImageURL.On(p.Param+".image_url.url",
					"Invalid '%s.image_url.url': expected an http(s) URL or a base64 data URI.", p.Param)
			}
			parts = append(parts, part{Type: "image_url", ImageURL: &imageURL{URL: address, Detail: p.ImageURL.Detail}})
		case media && p.Type == "file" && p.File != nil:
			if err := e.file(p.File, p.Param+".file"); err != nil {
				return nil, err
			}
		default:
			return nil, openai.BadValue(p.Param+".type",
				"Content of type '%s' is not supported by the provider '%s' in this message.", p.Type, name)
		}
	}
	return parts, nil
}

// file makes a file of text a document, which is how the vendor takes files. It takes no others.
func (e *encoder) file(f *openai.File, at string) error {
	if f.FileData == "" {
		return openai.BadValue(at+".file_id",
			"Files by id are not supported by the provider '%s'. Send the content as 'file_data'.", name)
	}
	text, ok := fileText(f.FileData)
	if !ok {
		return openai.BadValue(at+".file_data", "The file '%s' is not text in base64, and the provider '%s' takes no other.",
			f.Filename, name)
	}
	raw, err := json.Marshal(document{Data: documentData{Title: f.Filename, Text: text}})
	if err != nil {
		return openai.BadValue(at+".file_data", "The file '%s' could not be read: %v.", f.Filename, err)
	}
	e.out.Documents = append(e.out.Documents, raw)
	return nil
}

// fileText returns the text that is a file's content.
func fileText(file string) (string, bool) {
	_, data, ok := turns.DataURI(file)
	if !ok {
		data, ok = turns.Base64(file)
	}
	text, err := base64.StdEncoding.DecodeString(data)
	ok = ok && err == nil && utf8.Valid(text) && bytes.IndexByte(text, 0) < 0 && len(bytes.TrimSpace(text)) > 0
	return string(text), ok && !bytes.HasPrefix(text, []byte("%PDF-"))
}
