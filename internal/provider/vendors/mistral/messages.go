package mistral

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/forms"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// ownParts are the vendor's own types of parts, which pass as they are.
var ownParts = []string{"document_url", "thinking", "reference", "tool_reference"}

// Texts that stand where the vendor wants some and the client has none.
const (
	filler  = "."
	between = "OK" // what the assistant says between the results of tools and the user
)

// messages writes the conversation. The vendor has OpenAI's roles, but demands an order of them: system messages come
// first, results in the turn after their calls and one for each, the user not directly after results, and the
// assistant not last.
func (e *encoder) messages() error {
	for _, member := range turns.Unsupported(e.chat) {
		if member != turns.UnsupportedDetail && (member != turns.UnsupportedReason || !e.remembers()) {
			e.Drop(member)
		}
	}
	c, err := turns.Build(e.chat.Messages, turns.Options{ID: sentID, Name: e.names.Use, Own: ownParts})
	if err != nil {
		return err
	}
	e.out = append(e.member("messages"), '[')
	if len(c.System) > 0 {
		if err := e.say("system", c.System); err != nil {
			return err
		}
	}
	if len(c.Turns) == 0 {
		c.Turns = []turns.Turn{{Role: turns.User}}
	}
	for i := range c.Turns {
		t := &c.Turns[i]
		if t.Role == turns.Assistant {
			err = e.assistant(t, i == len(c.Turns)-1)
		} else {
			err = e.user(t)
		}
		if err != nil {
			return err
		}
	}
	e.out = append(e.out, ']')
	return nil
}

// begin begins a message, which its author ends.
func (e *encoder) begin(role string) {
	if e.out[len(e.out)-1] == '}' {
		e.out = append(e.out, ',')
	}
	e.out = openai.AppendString(append(e.out, `{"role":`...), role)
}

// say writes a message that has nothing but content.
func (e *encoder) say(role string, parts []turns.Part) error {
	e.begin(role)
	e.out = e.member("content")
	err := e.content(parts, "")
	e.out = append(e.out, '}')
	return err
}

// user writes the results of calls, each a message, and what the user says.
func (e *encoder) user(t *turns.Turn) error {
	for i := range t.Results {
		r := &t.Results[i]
		e.begin("tool")
		e.out = openai.AppendString(e.member("tool_call_id"), r.Call.ID)
		e.out = openai.AppendString(e.member("name"), r.Call.Name)
		e.out = e.member("content")
		if r.NotExecuted {
			e.out = openai.AppendString(e.out, turns.NotExecuted)
		} else if err := e.content(r.Parts, ""); err != nil {
			return err
		}
		e.out = append(e.out, '}')
	}
	parts := t.Parts
	switch {
	case len(parts) == 0 && len(t.Results) > 0:
		return nil
	case len(parts) == 0:
		parts = []turns.Part{{Part: openai.Part{Type: "text", Text: filler}}}
		e.Adjust("messages")
	case len(t.Results) > 0:
		e.out = append(e.out, `,{"role":"assistant","content":"`+between+`"}`...)
	}
	return e.say("user", parts)
}

// assistant writes the assistant's turn as one message.
func (e *encoder) assistant(t *turns.Turn, last bool) error {
	var reasoning string
	var parts []turns.Part
	for i := range t.Said {
		if e.remembers() {
			reasoning += t.Said[i].Message.ReasoningContent
		}
		parts = append(parts, t.Said[i].Parts...)
	}
	e.begin("assistant")
	if reasoning != "" || len(parts) > 0 {
		e.out = e.member("content")
		if err := e.content(parts, reasoning); err != nil {
			return err
		}
	}
	calls := t.Calls()
	for i, c := range calls {
		if i == 0 {
			e.out = append(e.member("tool_calls"), '[')
		} else {
			e.out = append(e.out, ',')
		}
		e.out = openai.AppendString(append(e.out, `{"id":`...), c.ID)
		e.out = openai.AppendString(append(e.out, `,"type":"function","function":{"name":`...), c.Name)
		e.out = openai.AppendString(append(e.out, `,"arguments":`...), string(c.Arguments))
		e.out = append(e.out, `}}`...)
	}
	if len(calls) > 0 {
		e.out = append(e.out, ']')
	} else if last {
		// an answer that is begun, without which the vendor wants another to speak last
		e.out = append(e.member("prefix"), "true"...)
	}
	e.out = append(e.out, '}')
	return nil
}

// remembers reports whether the model takes its thinking back. Those that do not think have no place for it.
func (e *encoder) remembers() bool {
	thinks := e.target.Can().GetThinking()
	return thinks == configv1.Thinking_ALWAYS || thinks == configv1.Thinking_ADAPTIVE
}

// content writes a message's content: a string if it is one text, and else a list.
func (e *encoder) content(parts []turns.Part, reasoning string) error {
	switch {
	case reasoning != "":
	case len(parts) == 0:
		e.out = append(e.out, `""`...)
		return nil
	case len(parts) == 1 && parts[0].Type == "text":
		e.out = openai.AppendString(e.out, parts[0].Text)
		return nil
	}
	e.out = append(e.out, '[')
	if reasoning != "" {
		e.out = openai.AppendString(append(e.out, `{"type":"thinking","thinking":[{"type":"text","text":`...), reasoning)
		e.out = append(e.out, `}],"closed":true}`...)
	}
	for i := range parts {
		if e.out[len(e.out)-1] == '}' {
			e.out = append(e.out, ',')
		}
		if err := e.part(&parts[i]); err != nil {
			return err
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *encoder) text(s string) {
	e.out = append(openai.AppendString(append(e.out, `{"type":"text","text":`...), s), '}')
}

// part writes one part of a message's content.
func (e *encoder) part(p *turns.Part) error {
	switch {
	case p.Type == "text":
		e.text(p.Text)
	case p.Type == "image_url" && p.ImageURL != nil:
		address, ok := turns.Address(p.ImageURL.URL)
		if !ok {
			return openai.CodeInvalidImageURL.On(p.Param+".image_url.url",
				"Invalid '%s.image_url.url': expected an http(s) URL or a base64 data URI.", p.Param)
		}
		e.out = openai.AppendString(append(e.out, `{"type":"image_url","image_url":{"url":`...), address)
		if p.ImageURL.Detail != "" {
			e.out = openai.AppendString(append(e.out, `,"detail":`...), p.ImageURL.Detail)
		}
		e.out = append(e.out, "}}"...)
	case p.Type == "input_audio" && p.InputAudio != nil && p.InputAudio.Format == "": // the vendor's own form
		e.out = append(openai.AppendString(append(e.out, `{"type":"input_audio","input_audio":`...), p.InputAudio.Data), '}')
	case p.Type == "input_audio" && p.InputAudio != nil:
		e.out = openai.AppendString(append(e.out, `{"type":"input_audio","input_audio":{"data":`...), p.InputAudio.Data)
		e.out = openai.AppendString(append(e.out, `,"format":`...), p.InputAudio.Format)
		e.out = append(e.out, "}}"...)
	case p.Type == "file" && p.File != nil:
		return e.file(p.File, p.Param+".file")
	case slices.Contains(ownParts, p.Type):
		e.out = append(e.out, e.rawPart(p.Param)...)
	default:
		return openai.BadValue(p.Param+".type", "Content of type '%s' is not supported by the provider '%s'.", p.Type, name)
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
		return openai.CodeMissingRequiredParameter.On(at+".file_data",
			"Missing required parameter: '%s.file_data'.", at)
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

// rawPart returns a part of a message's content as the client sent it, by where it stands: messages[2].content[0].
func (e *encoder) rawPart(param string) jsontext.Value {
	if e.raw == nil {
		gjson.ParseBytes(e.body.Get("messages")).ForEach(func(_, m gjson.Result) bool {
			e.raw = append(e.raw, m.Get("content").Array())
			return true
		})
	}
	var n, i int
	if _, err := fmt.Sscanf(param, "messages[%d].content[%d]", &n, &i); err != nil {
		return jsontext.Value("null") // only parts that stand somewhere are the vendor's own
	}
	return jsontext.Value(e.raw[n][i].Raw)
}

// sentID returns the id to send for one of the client's, which clients use again.
func sentID(id string, occurrence int) string {
	if occurrence > 1 {
		id += " again " + strconv.Itoa(occurrence)
	}
	return forms.Of(name).Call.Fit(id)
}
