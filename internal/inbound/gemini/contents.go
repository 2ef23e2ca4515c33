package gemini

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/private"
)

// conversation appends the messages of a request.
func (b *builder) conversation() error {
	if s := b.SystemInstruction; s != nil && len(s.Parts) > 0 {
		if err := b.system(s.Parts); err != nil {
			return err
		}
	}
	for i := range b.Contents {
		c := &b.Contents[i]
		place := fmt.Sprintf("contents[%d]", i)
		var err error
		switch c.Role {
		case "", "user", "function":
			err = b.user(place, c.Parts)
		case "model":
			err = b.assistant(place, c.Parts)
		default:
			err = openai.CodeInvalidValue.On(place+".role", "%s.role: Expected 'user' or 'model'.", place)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// system appends the system's message. Several parts stay apart, so that none runs on into the next.
func (b *builder) system(parts []part) error {
	b.message("system", "systemInstruction")
	for i := range parts {
		if parts[i].Text == nil {
			return unknownPart(fmt.Sprintf("systemInstruction.parts[%d]", i), &parts[i], "text")
		}
	}
	if len(parts) == 1 {
		b.String("content", *parts[0].Text)
		b.End("}")
		return nil
	}
	b.Member("content", "[")
	for i := range parts {
		b.textPart(*parts[i].Text)
	}
	b.End("]}")
	return nil
}

// message begins a message of the chat completion, which comes from a place of the client's request.
func (b *builder) message(role, place string) {
	b.Begin("{")
	b.Text("role", role)
	b.Places = append(b.Places, place)
}

// user appends the results of calls, each a message of its own, and then everything else as one message. OpenAI takes
// only text as a result, so that the images of results go into that message.
func (b *builder) user(place string, parts []part) error {
	var shown []part
	others := 0
	for i := range parts {
		f := parts[i].FunctionResponse
		if f == nil {
			others++
			continue
		}
		if err := b.result(fmt.Sprintf("%s.parts[%d]", place, i), f); err != nil {
			return err
		}
		shown = append(shown, f.Parts...)
	}
	if others+len(shown) == 0 {
		return nil
	}
	b.message("user", place)
	if len(parts) == 1 && parts[0].Text != nil {
		b.String("content", *parts[0].Text)
		b.End("}")
		return nil
	}
	b.Member("content", "[")
	if len(shown) > 0 {
		b.textPart("From the results of the tools:")
	}
	for i := range shown {
		if err := b.part(place, &shown[i]); err != nil {
			return err
		}
	}
	for i := range parts {
		if parts[i].FunctionResponse != nil {
			continue
		}
		if err := b.part(fmt.Sprintf("%s.parts[%d]", place, i), &parts[i]); err != nil {
			return err
		}
	}
	b.End("]}")
	return nil
}

// result appends the result of a call. Clients may leave out its id: then it belongs to the first call with that
// name and without a result.
func (b *builder) result(place string, f *functionResult) error {
	id := f.ID
	i := slices.Index(b.open, id)
	if id == "" {
		i = slices.Index(b.names, f.Name)
	}
	if i >= 0 {
		id = b.open[i]
		b.open, b.names = slices.Delete(b.open, i, i+1), slices.Delete(b.names, i, i+1)
	}
	if id == "" {
		return openai.CodeInvalidValue.On(place+".functionResponse",
			"%s.functionResponse: No call of '%s' waits for a result.", place, f.Name)
	}
	b.message("tool", place)
	b.String("tool_call_id", id)
	b.String("content", string(f.Response))
	b.End("}")
	return nil
}

func (b *builder) textPart(text string) {
	b.Begin(`{"type":"text"`)
	b.String("text", text)
	b.End("}")
}

// part appends a part of the user.
func (b *builder) part(place string, p *part) error {
	switch {
	case p.Text != nil:
		b.textPart(*p.Text)
	case p.InlineData != nil:
		d := p.InlineData
		return b.media(place+".inlineData", d.MIMEType, "data:"+d.MIMEType+";base64,"+standard(d.Data), d.DisplayName)
	case p.FileData != nil:
		if !strings.HasPrefix(p.FileData.URI, "https://") && !strings.HasPrefix(p.FileData.URI, "http://") ||
			strings.HasPrefix(p.FileData.URI, "https://generativelanguage.googleapis.com/") {
			return openai.CodeUnsupportedValue.On(place+".fileData.fileUri",
				"%s.fileData.fileUri: The provider of this model does not read Google's files. Send the content.", place)
		}
		return b.media(place+".fileData", p.FileData.MIMEType, p.FileData.URI, "")
	default:
		return unknownPart(place, p, "text", "inlineData", "fileData", "functionResponse")
	}
	return nil
}

// standard returns base64 in the standard alphabet: clients may use the other one.
func standard(data string) string {
	if !strings.ContainsAny(data, "-_") {
		return data
	}
	return strings.NewReplacer("-", "+", "_", "/").Replace(data)
}

// sounds are the formats of OpenAI's input_audio.
var sounds = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}

// texts are the types of documents that are text, besides text/*.
var texts = []string{"application/json", "application/xml", "application/yaml", "application/x-yaml",
	"application/javascript", "application/x-javascript", "application/x-typescript", "application/x-python-code"}

// isText reports whether documents of a type are text. It may have parameters, such as a charset.
func isText(mime string) bool {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	mime = strings.TrimSpace(mime)
	return strings.HasPrefix(mime, "text/") && mime != "text/rtf" || slices.Contains(texts, mime)
}

// document appends a document of text as a part of text, with its name before it.
func (b *builder) document(place, data, name string) error {
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		text, err = base64.RawStdEncoding.DecodeString(data)
	}
	if err != nil || !utf8.Valid(text) {
		return openai.CodeInvalidValue.On(place+".data", "%s.data: It must be base64 of text in UTF-8.",
			place)
	}
	if name != "" {
		name += "\n\n"
	}
	b.textPart(name + string(text))
	return nil
}

// media appends an image, a sound or a document. The URL may have the data.
func (b *builder) media(place, mime, url, name string) error {
	_, data, inline := strings.Cut(url, ";base64,")
	switch format := sounds[mime]; {
	case strings.HasPrefix(mime, "image/"):
		b.Begin(`{"type":"image_url","image_url":{`)
		b.String("url", url)
		b.End("}}")
	case format != "" && inline:
		b.Begin(`{"type":"input_audio","input_audio":{`)
		b.String("data", data)
		b.String("format", format)
		b.End("}}")
	case isText(mime) && inline:
		return b.document(place, data, name)
	case mime == "application/pdf":
		if name == "" {
			name = "document.pdf"
		}
		b.Begin(`{"type":"file","file":{`)
		b.String("filename", name)
		b.String("file_data", url)
		b.End("}}")
	default:
		return openai.CodeUnsupportedValue.On(place+".mimeType",
			"%s.mimeType: The provider of this model takes images, wav, mp3, PDF and, as inlineData, text.",
			place)
	}
	return nil
}

// unknownPart is the error for a part of a kind that a place does not have.
func unknownPart(place string, p *part, expected ...string) error {
	kind := "nothing that is known"
	set := map[string]bool{"inlineData": p.InlineData != nil, "fileData": p.FileData != nil,
		"functionCall": p.FunctionCall != nil, "functionResponse": p.FunctionResponse != nil}
	for name := range p.Others {
		set[name] = true
	}
	for name, is := range set {
		if is {
			kind = "'" + name + "'"
		}
	}
	return openai.CodeInvalidValue.On(place, "%s: The part has %s. The provider of this model takes %s.",
		place, kind, strings.Join(expected, ", "))
}

// ranByGoogle are the parts about tools that Google runs. They mean nothing to other vendors.
var ranByGoogle = []string{"executableCode", "executable_code", "codeExecutionResult", "code_execution_result",
	"toolCall", "tool_call", "toolResponse", "tool_response"}

// assistant appends a turn of the model.
func (b *builder) assistant(place string, parts []part) error {
	var said, thought strings.Builder
	var calls []*functionCall
	for i := range parts {
		p, at := &parts[i], fmt.Sprintf("%s.parts[%d]", place, i)
		switch {
		case p.FunctionCall != nil:
			if p.FunctionCall.Name == "" {
				return required(at + ".functionCall.name")
			}
			p.FunctionCall.signature = p.ThoughtSignature
			calls = append(calls, p.FunctionCall)
		case p.Thought && p.Text != nil:
			thought.WriteString(*p.Text)
		case p.Text != nil:
			said.WriteString(*p.Text)
		case p.InlineData != nil, p.isGoogles():
			b.Drop(at)
		case p.ThoughtSignature == "":
			return unknownPart(at, p, "text", "functionCall")
		}
	}
	if len(parts) == 0 {
		return nil
	}
	b.message("assistant", place)
	b.Text("reasoning_content", thought.String())
	if said.Len() > 0 || len(calls) == 0 {
		b.String("content", said.String())
	}
	b.calls(calls)
	b.End("}")
	return nil
}

func (p *part) isGoogles() bool {
	for name := range p.Others {
		if slices.Contains(ranByGoogle, name) {
			return true
		}
	}
	return false
}

// calls appends the calls of a turn, and remembers them for their results. A call without an id gets one from its
// place.
func (b *builder) calls(calls []*functionCall) {
	b.open, b.names = nil, nil
	if len(calls) == 0 {
		return
	}
	b.Member("tool_calls", "[")
	for i, f := range calls {
		id, args := f.ID, f.Args
		if id == "" {
			id = fmt.Sprintf("call_%d_%d", len(b.Places), i)
		}
		if args.Kind() != '{' {
			args = jsontext.Value("{}")
		}
		b.Call(id, f.Name, string(args))
		b.signed(f.signature)
		b.open, b.names = append(b.open, id), append(b.names, f.Name)
	}
	b.End("]")
}

// signed adds Google's signature to the call that was written last, for the vendors that take it.
func (b *builder) signed(signature string) {
	if signature == "" {
		return
	}
	signature, own := private.Unmarked(signature, "gemini") // which also speaks OpenAI's dialect
	if !own {
		signature = private.Unsigned
	}
	b.Dst = b.Dst[:len(b.Dst)-1]
	b.Member("extra_content", `{"google":{`)
	b.String("thought_signature", signature)
	b.End("}}}")
}
