package gemini

import (
	"bytes"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/private"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// EncodeNative builds a vendor's request for one of the dialect, at the path of a model.
func EncodeNative(vendor, resource string, r provider.NativeRequest) (provider.Request, provider.Answer) {
	body := withoutPrivate(returned(r.Body, r.Carrier))
	sent := provider.Request{Path: resource + Method(r.Stream), Body: withoutMarks(body, vendor),
		Header: http.Header{"Content-Type": {"application/json"}}}
	if r.Count {
		sent.Path = resource + ":countTokens"
		return sent, nil
	}
	return sent, &NativeAnswer{Answer{names: &turns.Names{}, vendor: vendor}}
}

// returned takes out of a conversation what the gateway added to answers of other vendors: data in the ids of calls.
func returned(body []byte, by openai.Carrier) []byte {
	if !openai.HasCarried(body) {
		return body
	}
	s := openai.Stripper{By: by, Body: body}
	gjson.GetBytes(body, "contents").ForEach(func(_, content gjson.Result) bool {
		content.Get("parts").ForEach(func(_, part gjson.Result) bool {
			for _, path := range [...]string{"functionCall.id", "function_call.id", "functionResponse.id",
				"function_response.id"} {
				id := part.Get(path)
				s.Strip(id.Index, id.Raw, id.Str)
			}
			return true
		})
		return true
	})
	return s.Stripped()
}

// withoutPrivate returns a request without lines of the system's prompt that concern another vendor alone.
func withoutPrivate(body []byte) []byte {
	if !private.Mentioned(body) {
		return body
	}
	for _, path := range [...]string{"systemInstruction.parts", "system_instruction.parts"} {
		parts := gjson.GetBytes(body, path)
		var kept []jsontext.Value
		for _, p := range parts.Array() {
			text := p.Get("text")
			part, rest := jsontext.Value(p.Raw), private.Prompt(text.Str, "")
			if rest != text.Str {
				at := text.Index - p.Index
				part = slices.Concat(part[:at], openai.AppendString(nil, rest), part[at+len(text.Raw):])
			}
			if rest != "" || text.Str == "" {
				kept = append(kept, part)
			}
		}
		if len(kept) > 0 {
			body = slices.Concat(body[:parts.Index], schema.AppendArray(nil, kept), body[parts.Index+len(parts.Raw):])
		}
	}
	return body
}

// A NativeAnswer reads answers for clients of the dialect. It implements provider.Answer. Beside the events it gives
// the vendor's own form, which the client gets with its own name of the model.
type NativeAnswer struct{ Answer }

// Decode implements provider.Answer.
func (a *NativeAnswer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	out.Put(chat.Event{Kind: chat.KindNative})
	if err := a.Answer.Decode(body, asked, &chat.Covered{Out: out}); err != nil {
		return err
	}
	object := withMarks(bytes.TrimSpace(body), a.vendor)
	out.Put(chat.Event{Kind: chat.KindNative, JSON: withModel(object, asked.Model)})
	return nil
}

// Stream implements provider.Answer.
func (a *NativeAnswer) Stream(asked chat.Asked) provider.Stream {
	s := &nativeStream{model: asked.Model, inner: stream{collector: collector{answer: &a.Answer, created: asked.Created,
		carrier: asked.Carrier}}}
	s.inner.taken = s.pass
	return s
}

// A nativeStream implements provider.Stream.
type nativeStream struct {
	inner stream
	out   chat.Covered // kept so that none is allocated for a piece
	model string
	begun bool
}

// Decode implements provider.Stream.
func (s *nativeStream) Decode(piece []byte, out chat.Sink) error {
	s.begin(out)
	return s.inner.Decode(piece, &s.out)
}

// Close implements provider.Stream.
func (s *nativeStream) Close(out chat.Sink) error {
	s.begin(out)
	return s.inner.Close(&s.out)
}

func (s *nativeStream) begin(out chat.Sink) {
	if s.out.Out = out; !s.begun {
		s.begun = true
		out.Put(chat.Event{Kind: chat.KindNative})
	}
}

// pass gives the vendor's form of an object whose events were given.
func (s *nativeStream) pass(object []byte) {
	object = withMarks(object, s.inner.answer.vendor)
	s.out.Out.Put(chat.Event{Kind: chat.KindNative, JSON: withModel(object, s.model)})
}

// withModel returns an answer with the client's name of the model.
func withModel(answer []byte, model string) []byte {
	m := gjson.GetBytes(answer, "modelVersion")
	if m.Index == 0 || m.Str == model {
		return answer
	}
	out := append(make([]byte, 0, len(answer)+len(model)), answer[:m.Index]...)
	return append(append(out, openai.AppendString(nil, model)...), answer[m.Index+len(m.Raw):]...)
}
