package openaicompat

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// A shape is how answers of an operation name themselves.
type shape struct {
	id     string // prefix of ids that the vendor did not give
	whole  string // JSON: object of a whole answer
	chunk  string // JSON: object of a chunk
	legacy bool   // choices have text, not messages
}

var (
	chatShape       = shape{id: "chatcmpl-", whole: `"chat.completion"`, chunk: `"chat.completion.chunk"`}
	completionShape = shape{id: "cmpl-", whole: `"text_completion"`, chunk: `"text_completion"`, legacy: true}
)

// answer implements provider.Answer for chat and legacy completions.
type answer struct {
	dialect    *Dialect
	shape      *shape
	choices    int  // how many the client asked for
	asReceived bool // nothing is corrected
	mended     bool // but for what OpenAI's SDKs would fail on
	renamed    bool // the client knows the model by another name than the provider does
	forced     bool // the gateway asked for usage, not the client
	provider   string
	names      *turns.Names // the client's names of tools that were renamed, or nil
}

// Decode implements provider.Answer. White space before the object is no part of it: DeepSeek and OpenRouter keep
// connections alive with it.
func (a *answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	object := a.text(body)
	n := normaliser{answer: a, reading: reading{data: object}, by: asked.Carrier}
	var ok bool
	if a.asReceived {
		n.members, ok = scan(object)
	} else {
		ok = n.read(object, "message")
	}
	if err := a.failure(object, &n.members, ok); err != nil {
		return err
	}
	if kind := kindOf(n.members.choices.value(object)); kind != '[' && kind != 'n' {
		return fmt.Errorf("%w: the body has no choices", provider.ErrNotAnAnswer)
	}
	usage := readUsage(n.reported())
	n.tells = asked.Plain || usage.CompletionTokens == 0
	var answer []byte
	if a.asReceived {
		answer = a.pass(body, object, &n.members, asked.Model)
		n.tells = n.tells && n.read(object, "message")
	} else {
		var err error
		answer, err = n.appendAnswer(make([]byte, 0, len(object)+len(object)/8+256), asked.Model, asked.Created)
		if err != nil {
			return err
		}
	}
	if t := n.tier.value(object); kindOf(t) == '"' {
		out.Put(covered(chat.Tier(string(t[1 : len(t)-1]))))
	}
	n.tell(usage, answer, out)
	return nil
}

// text returns what is to be read of a body or an event. What is to be put right becomes UTF-8, as JSON must be.
func (a *answer) text(data []byte) []byte {
	data = bytes.TrimSpace(data)
	if !a.asReceived && !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	return data
}

// pass returns a body as it came, except for repairs and the name of the model.
func (a *answer) pass(body, object []byte, m *members, model string) []byte {
	p := patch{data: object}
	if a.mended {
		p.mend(m.choices, "message", noMessage)
	}
	if len(p.edits) == 0 {
		return a.rename(body, object, m.model, model)
	}
	if a.renamed && m.model.found() {
		p.set(m.model, 0, "", quote(model))
	}
	return p.appendTo(make([]byte, 0, len(object)+len(noMessage)+len(model)+16))
}

// rename gives a body as it came but for the name of the model, where the client knows it by another.
func (a *answer) rename(body, object []byte, named span, model string) []byte {
	if !a.renamed || !named.found() {
		return body
	}
	lead := len(body) - len(bytes.TrimLeft(body, " \t\r\n"))
	at := span{start: lead + named.start, end: lead + named.end}
	out := make([]byte, 0, len(body)+len(model))
	out = append(out, body[:at.start]...)
	out = openai.AppendString(out, model)
	return append(out, body[at.end:]...)
}

// failure returns what is wrong with a body: that it is no JSON object, which ok says, or says that something failed.
func (a *answer) failure(object []byte, m *members, ok bool) error {
	switch {
	case ok && a.isError(object, m), !ok && a.dialect.readError(object).message != "":
		return a.dialect.inBand(object)
	case !ok:
		return fmt.Errorf("%w: the body is not a JSON object", provider.ErrNotAnAnswer)
	}
	return nil
}

// isError reports whether an object says that something failed: as OpenAI does, as vLLM once did, or as FastAPI does.
func (a *answer) isError(data []byte, m *members) bool {
	switch string(m.fault.value(data)) {
	case "", "null", "false", `""`, "{}":
		return string(m.object.value(data)) == `"error"` ||
			!m.choices.found() && !m.usage.found() && !m.data.found() && a.dialect.readError(data).message != ""
	}
	return true
}

// Stream implements provider.Answer.
func (a *answer) Stream(asked chat.Asked) provider.Stream { return &stream{answer: a, asked: asked} }

// newID is for vendors that name their answers nothing.
func newID(prefix string) string { return prefix + rand.Text() }

func quote(s string) string { return string(openai.AppendString(nil, s)) }

// kindOf returns the first byte of a JSON value, which tells its kind, or 0 if there is none.
func kindOf(value []byte) byte {
	if len(value) == 0 {
		return 0
	}
	return value[0]
}

// isText reports whether a JSON value is a string that is not empty.
func isText(value []byte) bool { return kindOf(value) == '"' && len(value) > 2 }

// isInteger reports whether a JSON value is an integer above 0.
func isInteger(value []byte) bool {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return err == nil && n > 0
}
