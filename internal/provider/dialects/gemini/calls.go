package gemini

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/private"
)

// What must come back with a call is its thought signature: as Google's own member of a call, and within the call's id
// for clients that keep no more than that.

// call takes in a call of a tool, which is whole unless its arguments are streamed: then the name comes first, the
// arguments in pieces, and an empty call ends it.
func (c *collector) call(index int, p *answerPart) {
	ch, f := &c.choices[index], p.FunctionCall
	if f.Name != "" {
		c.endCall(index)
		ch.open = &openCall{id: f.ID, name: f.Name, signature: p.ThoughtSignature, whole: f.Args}
	}
	if ch.open == nil {
		return
	}
	ch.open.add(f.PartialArgs)
	if !f.WillContinue {
		c.endCall(index)
	}
}

// endCall gives the client the call that is open.
func (c *collector) endCall(index int) {
	ch := &c.choices[index]
	open := ch.open
	if ch.open = nil; open == nil || c.answer.oneCall && len(ch.ids) > 0 {
		return
	}
	n := len(ch.ids)
	ch.ids = append(ch.ids, c.callID(index, open.id))
	if ch.known == nil {
		ch.known = make(map[string]bool)
	}
	ch.known[ch.ids[n]] = true
	call := chat.Call{
		ID:        c.carrier.Carry(ch.ids[n], carried(c.answer.vendor, open.signature)),
		Name:      c.answer.names.Client(open.name),
		Arguments: string(open.arguments()),
	}
	if open.signature != "" {
		call.ExtraContent = append(openai.AppendString([]byte(`{"google":{"thought_signature":`), open.signature), "}}"...)
	}
	if c.out == nil {
		ch.calls = append(ch.calls, call)
		return
	}
	begin := chat.ToolCall(index, n, call.ID, call.Name)
	begin.JSON = call.ExtraContent
	c.out.Put(begin)
	c.out.Put(chat.Arguments(index, n, call.Arguments))
}

// callID returns the vendor's id of a call, or else one that follows from its place in the answer.
func (c *collector) callID(index int, id string) string {
	ch := &c.choices[index]
	if id != "" && !ch.known[id] {
		return id
	}
	return madeID + digest(c.id, strconv.Itoa(index), strconv.Itoa(len(ch.ids)))
}

// madeID begins the ids of calls that the vendor gave none; it does not want them back. OpenAI's ids begin so, too.
const madeID = "call_"

// carried returns what travels in the id of a call: the signature, and whose it is. AI Studio and Vertex AI refuse
// each other's.
func carried(vendor, signature string) []byte {
	if signature == "" {
		return nil
	}
	dst := openai.AppendString([]byte(`{"gemini":{"of":`), vendor)
	return append(openai.AppendString(append(dst, `,"thought_signature":`...), signature), "}}"...)
}

// signature returns the thought signature of a call that the client sends back, or nothing.
func (e *encoder) signature(t *openai.ToolCall) string {
	if t == nil {
		return ""
	}
	if of := gjson.GetBytes(t.Carried, "gemini.of").Str; of != "" && of != e.service.Vendor {
		return private.Unsigned
	}
	if s := gjson.GetBytes(t.ExtraContent, "google.thought_signature"); s.Type == gjson.String && s.Str != "" {
		return s.Str
	}
	if len(t.Carried) == 0 {
		return ""
	}
	return gjson.GetBytes(t.Carried, "gemini.thought_signature").Str
}

// An openCall is a call that may not be complete.
type openCall struct {
	id, name, signature string
	whole               jsontext.Value
	pieces              []leaf
}

// add takes in pieces of the arguments.
func (o *openCall) add(args []partialArg) {
	for i := range args {
		a := &args[i]
		if n := len(o.pieces); a.String != nil && n > 0 && o.pieces[n-1].open && o.pieces[n-1].at == a.Path {
			o.pieces[n-1].text = append(o.pieces[n-1].text, *a.String...)
			o.pieces[n-1].open = a.WillContinue
			continue
		}
		l := leaf{at: a.Path, path: splitPath(a.Path), open: a.WillContinue}
		switch {
		case a.String != nil:
			l.text = []byte(*a.String)
		case a.Number != nil:
			l.value = a.Number
		case a.Bool != nil:
			l.value = a.Bool
		default:
			l.value = jsontext.Value("null")
		}
		o.pieces = append(o.pieces, l)
	}
}

// arguments returns the arguments as JSON, in the vendor's order and without white space.
func (o *openCall) arguments() jsontext.Value {
	if len(o.pieces) > 0 {
		return appendLeaves(nil, o.pieces, 0)
	}
	if len(o.whole) == 0 || o.whole.Kind() == 'n' {
		return jsontext.Value("{}")
	}
	if err := o.whole.Compact(provider.Lenient, jsontext.PreserveRawStrings(true)); err != nil {
		return jsontext.Value("{}") // it was read as JSON before
	}
	return o.whole
}
