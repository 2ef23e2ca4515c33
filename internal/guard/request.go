package guard

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/scan"
)

// A Request is a request that was looked at.
type Request struct {
	Body     []byte // with placeholders, if something was masked
	Masks    *Masks
	Findings Findings
	Blocked  string // the rule that refuses it, or ""
	// Texts are those for the model, with placeholders, if there are Checks.
	Texts []string
}

// ErrUnread means that a body cannot be looked at. It must not pass then.
var ErrUnread = openai.BadRequest("", openai.CodeInvalidJSON,
	"The request body is not valid JSON, so that guardrails cannot look at it.")

// notText are members whose values are no texts for the model: names, ids, data and the definitions of tools. All
// others are looked at, in every dialect, so a member that is not known here is not missed.
var notText = map[string]bool{
	"model": true, "role": true, "type": true, "id": true, "call_id": true, "tool_call_id": true, "tool_use_id": true,
	"item_id": true, "name": true, "object": true, "status": true, "previous_response_id": true, "conversation": true,
	"file_id": true, "file_data": true, "data": true, "image_url": true, "video_url": true, "url": true, "file_url": true,
	"fileUri": true, "file_uri": true, "encrypted_content": true, "signature": true, "thoughtSignature": true,
	"thought_signature": true, "mimeType": true, "mime_type": true, "media_type": true, "tools": true, "functions": true,
	"tool_choice": true, "toolConfig": true, "tool_config": true, "response_format": true, "responseSchema": true,
	"response_schema": true, "responseJsonSchema": true, "generationConfig": true, "generation_config": true,
	"output_config": true, "output_format": true, "format": true, "cache_control": true, "encoding_format": true,
	"service_tier": true, "include": true, "prompt_cache_key": true, "logit_bias": true, "stream_options": true,
}

// wholly are members that, if they are objects, are the arguments or the result of a call: every text in them is
// looked at, whatever its member is called.
var wholly = map[string]bool{"input": true, "args": true, "response": true, "arguments": true}

// Request looks at the texts of a request, whose body is JSON in the dialect of any client.
// The error is that of ctx or of work, an *Unjudged, or one for the client.
func (s *Set) Request(ctx context.Context, work *Work, body []byte) (Request, error) {
	return s.request(ctx, work, body, &Masks{}, s.judges(configv1.GuardSide_REQUESTS))
}

// request looks at a request in which something may be masked already, and gathers its texts.
func (s *Set) request(ctx context.Context, work *Work, body []byte, masks *Masks, gathers bool) (Request, error) {
	w := &walk{set: s, work: work, body: body, gathers: gathers, again: !masks.IsEmpty(),
		dec: jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true),
			jsontext.AllowInvalidUTF8(true)), result: Request{Body: body, Masks: masks, Findings: Findings{}}}
	if err := w.value(ctx, "", true, false); err != nil && !errors.Is(err, errBlocked) {
		if w.ended {
			return Request{}, err
		}
		return Request{}, ErrUnread
	}
	work.note(w.result.Findings, SideRequest)
	w.bounds()
	w.result.Texts = w.texts
	if w.result.Blocked == "" && w.masked {
		w.result.Body = append(w.out, body[w.copied:]...)
	}
	return w.result, nil
}

// A walk goes through a body once.
type walk struct {
	set        *Set
	work       *Work
	ended      bool // by work
	body       []byte
	dec        *jsontext.Decoder
	out        []byte // the body so far, if something was masked
	copied     int    // how much of the body is in out
	masked     bool
	characters uint64
	messages   uint32
	gathers    bool // texts are gathered, for checkers
	again      bool // there are placeholders already
	texts      []string
	result     Request
}

var errBlocked = errors.New("a rule refuses the request")

// value reads a value. IsText says that it is one for the model, and all that every text in it is.
func (w *walk) value(ctx context.Context, name string, isText, all bool) error {
	switch kind := w.dec.PeekKind(); {
	case kind == '{' && isText && (all || !isOptions(name)):
		return w.object(ctx, all || wholly[name])
	case kind == '[' && isText:
		counts := w.dec.StackDepth() == 1 && isMessages(name)
		if _, err := w.dec.ReadToken(); err != nil {
			return err
		}
		for w.dec.PeekKind() != ']' {
			if counts {
				w.messages++
			}
			if err := w.value(ctx, "", isText, all); err != nil {
				return err
			}
		}
		_, err := w.dec.ReadToken()
		return err
	case kind == '"' && (isText || mayBeText[name]), kind == '0' && all:
		raw, err := w.dec.ReadValue()
		if err != nil || !isText && isData(raw) {
			return err
		}
		return w.text(ctx, raw, int(w.dec.InputOffset())-len(raw))
	}
	return w.dec.SkipValue()
}

// mayBeText are members that have data in base64, or the text of a document.
var mayBeText = map[string]bool{"data": true, "file_data": true}

// isData reports whether a JSON string is base64, or a data URI with it.
func isData(raw []byte) bool {
	if head, _, ok := bytes.Cut(raw, []byte(";base64,")); ok && bytes.HasPrefix(head, []byte(`"data:`)) {
		return true
	}
	return !bytes.ContainsFunc(raw[1:len(raw)-1], func(r rune) bool {
		return (r >= utf8.RuneSelf || !scan.IsWord(byte(r))) && !strings.ContainsRune("+/=-\\", r)
	})
}

// isOptions reports whether an object of this name has options and no texts: the member text of the Responses API.
func isOptions(name string) bool { return name == "text" }

// isMessages reports whether a list of this name has the messages of a request, in the dialect of any client.
func isMessages(name string) bool { return name == "messages" || name == "contents" || name == "input" }

func (w *walk) object(ctx context.Context, all bool) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for w.dec.PeekKind() != '}' {
		token, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		if err := w.value(ctx, name, all || !notText[name], all); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// text looks at one text, which is at an offset of the body.
func (w *walk) text(ctx context.Context, raw []byte, at int) error {
	text := string(raw) // of a number
	if raw[0] == '"' {
		text = openai.Unquote(raw)
	}
	w.characters += uint64(utf8.RuneCountInString(text))
	found, err := w.set.spans(ctx, w.work, text, configv1.GuardSide_REQUESTS)
	if err != nil {
		w.ended = true
		return err
	}
	if w.again {
		found = slices.DeleteFunc(found, func(f span) bool {
			return w.result.Masks.cuts(text, f.from) || w.result.Masks.cuts(text, f.to)
		})
	}
	from, replaced := 0, []byte(nil)
	for _, f := range found {
		w.result.Findings.add(f.rule, SideRequest)
		switch f.rule.config.GetMode() {
		case configv1.GuardMode_BLOCK:
			w.result.Blocked = f.rule.name
			return errBlocked
		case configv1.GuardMode_MASK:
			w.result.Masks.take(w.body)
			replaced = append(replaced, text[from:f.from]...)
			replaced = append(replaced, w.result.Masks.mask(text[f.from:f.to], f.label)...)
			from = f.to
		}
	}
	if replaced == nil {
		w.gather(text)
		return nil
	}
	replaced = append(replaced, text[from:]...)
	w.gather(string(replaced))
	w.out = append(w.out, w.body[w.copied:at]...)
	w.out = openai.AppendString(w.out, string(replaced))
	w.copied, w.masked = at+len(raw), true
	return nil
}

func (w *walk) gather(text string) {
	if w.gathers && text != "" {
		w.texts = append(w.texts, text)
	}
}

// found notes a finding that is no text. It is true if the rule refuses the request.
func (w *walk) found(r *rule) bool {
	w.result.Findings.add(r, SideRequest)
	if r.config.GetMode() == configv1.GuardMode_BLOCK && w.result.Blocked == "" {
		w.result.Blocked = r.name
	}
	return w.result.Blocked != ""
}

// bounds looks at the size of the request.
func (w *walk) bounds() {
	for _, r := range w.set.rules {
		characters, messages := r.config.GetMaxCharacters(), r.config.GetMaxMessages()
		exceeds := characters > 0 && w.characters > characters || messages > 0 && w.messages > messages
		if exceeds && w.result.Blocked == "" {
			w.found(r)
		}
	}
}
