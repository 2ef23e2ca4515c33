package responses

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/jsonwalk"
)

// A response is an answer as the object of the API.
type response struct {
	asked    chat.Asked
	id       string // without its prefix
	items    []*output
	finished string // OpenAI's finish reason of a chat completion
	usage    openai.Usage
	tier     string
	tools    map[string]tool // those that are not plain functions, by the names of the functions that stand for them
}

// A tool is a custom tool, a tool that the client runs, or a function of a namespace.
type tool struct {
	kind            itemKind
	namespace, name string
	client          *clientTool
}

func newResponse(asked chat.Asked) response {
	r := response{asked: asked, tools: map[string]tool{}}
	eachListed(asked.Echo, func(list gjson.Result) {
		eachTool(list, func(namespace string, t gjson.Result) {
			name, custom, client := t.Get("name").Str, t.Get("type").Str == "custom", clientRun(t)
			switch {
			case client != nil:
				r.tools[client.typ] = tool{kind: clientItem, name: client.typ, client: client}
			case custom:
				r.tools[qualified(namespace, name)] = tool{kind: customItem, namespace: namespace, name: name}
			case namespace != "":
				r.tools[qualified(namespace, name)] = tool{kind: callItem, namespace: namespace, name: name}
			}
		})
	})
	return r
}

// qualified returns the name of the function that stands for a function of a namespace.
func qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "__" + name
}

// setID takes the vendor's id of the answer.
func (r *response) setID(id string) { r.id = strings.TrimPrefix(id, "chatcmpl-") }

type itemKind uint8

const (
	textItem itemKind = iota
	refusalItem
	reasoningItem
	callItem
	customItem
	clientItem
	imageItem
)

// prefixes are the prefixes of items' ids.
var prefixes = [...]string{
	textItem: "msg_", refusalItem: "msg_", reasoningItem: "rs_", callItem: "fc_", customItem: "ctc_", clientItem: "",
	imageItem: "ig_",
}

// An output is an item of the answer.
type output struct {
	kind        itemKind
	status      string // once it is complete
	index       int
	id          string
	callID      string // of a call
	client      *clientTool
	namespace   string
	name        string
	text        []byte // or the arguments of a call, or an image in base64
	annotations []jsontext.Value
	logprobs    []byte // of the tokens of a text, with commas between them
}

func (r *response) add(kind itemKind) *output {
	o := &output{kind: kind, index: len(r.items), id: prefixes[kind] + r.id + "_" + strconv.Itoa(len(r.items))}
	r.items = append(r.items, o)
	return o
}

// addImage adds an image that the model has made. An item has the data of an image. Of one with an address there is a
// text with it.
func (r *response) addImage(i compose.Image) *output {
	kind, text := imageItem, i.Data
	if i.URL != "" {
		kind, text = textItem, "![image]("+i.URL+")"
	}
	o := r.add(kind)
	o.text = []byte(text)
	return o
}

func (r *response) addCall(id, name string) *output {
	t, ok := r.tools[name]
	if !ok {
		t = tool{kind: callItem, name: name}
	}
	o := r.add(t.kind)
	o.callID, o.namespace, o.name, o.client = id, t.namespace, t.name, t.client
	if o.client != nil {
		o.id = o.client.prefix + o.id
	}
	return o
}

// addLogprobs adds the log probabilities of a chat completion, and returns the added ones.
func (o *output) addLogprobs(of []byte) []byte {
	list := gjson.GetBytes(of, "content").Raw
	if len(list) <= len("[]") {
		return nil
	}
	if len(o.logprobs) > 0 {
		o.logprobs = append(o.logprobs, ',')
	}
	begun := len(o.logprobs)
	o.logprobs = append(o.logprobs, list[1:len(list)-1]...)
	return o.logprobs[begun:]
}

// customInput returns the input of a custom tool, which is the only string of the arguments. Arguments that have none
// are the input.
func customInput(arguments []byte) string {
	if v := gjson.GetBytes(arguments, "input"); jsonwalk.Strict(arguments) && v.Type == gjson.String {
		return v.Str
	}
	return string(arguments)
}

// status returns the status of a complete answer.
func (r *response) status() string {
	if r.incomplete() != "" {
		return "incomplete"
	}
	return "completed"
}

// ends returns the status of an item when the response is complete: only the last one can be cut.
func (r *response) ends(o *output) string {
	if len(r.items) > 0 && r.items[len(r.items)-1] == o {
		return r.status()
	}
	return "completed"
}

// incomplete returns the reason why the answer is incomplete, or "".
func (r *response) incomplete() string {
	return map[string]string{"length": "max_output_tokens", "content_filter": "content_filter"}[r.finished]
}

// appendJSON appends the response. One that has not ended has no items yet.
func (r *response) appendJSON(dst []byte, status string, failure *openai.Error) []byte {
	dst = openai.AppendString(append(dst, `{"id":`...), "resp_"+r.id)
	dst = strconv.AppendInt(append(dst, `,"object":"response","created_at":`...), r.asked.Created, 10)
	dst = openai.AppendString(append(dst, `,"status":`...), status)
	dst = append(dst, `,"background":false,"error":`...)
	if failure == nil {
		dst = append(dst, "null"...)
	} else {
		dst = openai.AppendString(append(dst, `{"code":`...), string(codeOf(failure)))
		dst = append(openai.AppendString(append(dst, `,"message":`...), failure.Message), '}')
	}
	dst = append(dst, `,"incomplete_details":`...)
	if reason := r.incomplete(); status == "incomplete" {
		dst = append(openai.AppendString(append(dst, `{"reason":`...), reason), '}')
	} else {
		dst = append(dst, "null"...)
	}
	dst = openai.AppendString(append(dst, `,"model":`...), r.asked.Model)
	dst = append(dst, `,"output":[`...)
	if status != "in_progress" {
		for i, o := range r.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = o.appendJSON(dst, cmp.Or(o.status, status))
		}
	}
	dst = r.appendEcho(append(dst, ']'))
	dst = append(dst, `,"usage":`...)
	if status == "in_progress" || r.usage.IsZero() {
		return append(dst, "null}"...)
	}
	return append(appendUsage(dst, r.usage), '}')
}

// codeOf returns the code of a response that has failed: the error's own. Agents tell by it what they may repeat, and
// know an overload by OpenAI's own word for it.
func codeOf(e *openai.Error) openai.Code {
	switch {
	case e.Code == openai.CodeOverloaded:
		return openai.CodeServerIsOverloaded
	case e.Code != "":
		return e.Code
	case e.Type == openai.TypeInvalidRequest:
		return "invalid_prompt"
	}
	return "server_error"
}

// Queued returns the response to a request that is answered later.
func Queued(model string, created int64, request []byte) []byte {
	r := newResponse(chat.Asked{Model: model, Created: created, Echo: request})
	return r.appendJSON(nil, "queued", nil)
}

// echoed are the members that a response repeats, with their values if the request does not have them.
var echoed = []struct{ name, absent string }{
	{"instructions", "null"}, {"max_output_tokens", "null"}, {"max_tool_calls", "null"}, {"metadata", "{}"},
	{"parallel_tool_calls", "true"}, {"previous_response_id", "null"}, {"prompt_cache_key", "null"},
	{"reasoning", `{"effort":null,"summary":null}`}, {"safety_identifier", "null"}, {"temperature", "1.0"},
	{"text", `{"format":{"type":"text"}}`}, {"tool_choice", `"auto"`}, {"tools", "[]"}, {"top_logprobs", "0"},
	{"top_p", "1.0"}, {"truncation", `"disabled"`}, {"user", "null"},
}

// appendEcho appends what a response repeats of its request.
func (r *response) appendEcho(dst []byte) []byte {
	request := gjson.ParseBytes(r.asked.Echo)
	for _, m := range echoed {
		dst = append(append(append(dst, `,"`...), m.name...), `":`...)
		if v := request.Get(m.name); v.Exists() {
			dst = append(dst, v.Raw...)
		} else {
			dst = append(dst, m.absent...)
		}
	}
	dst = append(dst, `,"store":false,"service_tier":`...)
	if r.tier == "" {
		return append(dst, "null"...)
	}
	return openai.AppendString(dst, r.tier)
}

func appendUsage(dst []byte, u openai.Usage) []byte {
	dst = strconv.AppendInt(append(dst, `{"input_tokens":`...), u.PromptTokens, 10)
	dst = strconv.AppendInt(append(dst, `,"input_tokens_details":{"cached_tokens":`...), u.CachedTokens, 10)
	if u.CacheWriteTokens > 0 {
		dst = strconv.AppendInt(append(dst, `,"cache_write_tokens":`...), u.CacheWriteTokens, 10)
	}
	dst = strconv.AppendInt(append(dst, `},"output_tokens":`...), u.CompletionTokens, 10)
	dst = strconv.AppendInt(append(dst, `,"output_tokens_details":{"reasoning_tokens":`...), u.ReasoningTokens, 10)
	total := max(u.TotalTokens, u.PromptTokens+u.CompletionTokens)
	dst = strconv.AppendInt(append(dst, `},"total_tokens":`...), total, 10)
	return append(dst, '}')
}

// appendJSON appends an item. In progress it is still empty.
func (o *output) appendJSON(dst []byte, status string) []byte {
	whole := status != "in_progress"
	if status == "failed" {
		status = "incomplete"
	}
	dst = openai.AppendString(append(dst, `{"id":`...), o.id)
	switch o.kind {
	case reasoningItem:
		dst = append(dst, `,"type":"reasoning","summary":[`...)
		if whole {
			dst = o.appendPart(dst, true)
		}
		return append(dst, "]}"...)
	case callItem:
		dst = append(dst, `,"type":"function_call"`...)
	case customItem:
		dst = append(dst, `,"type":"custom_tool_call"`...)
	case imageItem:
		dst = openai.AppendString(append(dst, `,"type":"image_generation_call","status":`...), status)
		dst = append(dst, `,"result":`...)
		if !whole {
			return append(dst, "null}"...)
		}
		return append(openai.AppendString(dst, string(o.text)), '}')
	case clientItem:
		dst = openai.AppendString(append(dst, `,"type":`...), o.client.call)
	default:
		dst = append(dst, `,"type":"message","role":"assistant","content":[`...)
		if whole {
			dst = o.appendPart(dst, true)
		}
		dst = append(dst, ']')
	}
	dst = openai.AppendString(append(dst, `,"status":`...), status)
	if o.kind < callItem {
		return append(dst, '}')
	}
	dst = openai.AppendString(append(dst, `,"call_id":`...), o.callID)
	if o.kind == clientItem {
		arguments := o.text
		if !whole {
			arguments = []byte(o.client.before)
		}
		return append(o.client.appendCall(dst, arguments), '}')
	}
	dst = openai.AppendString(append(dst, `,"name":`...), o.name)
	if o.namespace != "" {
		dst = openai.AppendString(append(dst, `,"namespace":`...), o.namespace)
	}
	text := ""
	if whole {
		text = string(o.text)
	}
	if o.kind == customItem {
		dst = append(dst, `,"input":`...)
	} else {
		dst = append(dst, `,"arguments":`...)
	}
	return append(openai.AppendString(dst, text), '}')
}

// appendPart appends the only part of an item, whole or still empty.
func (o *output) appendPart(dst []byte, whole bool) []byte {
	text := ""
	if whole {
		text = string(o.text)
	}
	switch o.kind {
	case reasoningItem:
		dst = append(dst, `{"type":"summary_text","text":`...)
	case refusalItem:
		dst = append(dst, `{"type":"refusal","refusal":`...)
	default:
		dst = append(dst, `{"type":"output_text","annotations":[`...)
		for i, a := range o.annotations {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, a...)
		}
		dst = append(dst, `],"logprobs":[`...)
		if whole {
			dst = append(dst, o.logprobs...)
		}
		dst = append(dst, `],"text":`...)
	}
	return append(openai.AppendString(dst, text), '}')
}

// appendAnnotation appends an annotation of a chat completion as responses have it: its members are in it.
func appendAnnotation(dst []byte, a gjson.Result) []byte {
	typ := a.Get("type").Str
	dst = openai.AppendString(append(dst, `{"type":`...), typ)
	a.Get(typ).ForEach(func(name, v gjson.Result) bool {
		dst = append(append(append(append(dst, ','), name.Raw...), ':'), v.Raw...)
		return true
	})
	return append(dst, '}')
}

// appendAnswer appends a complete answer as a response.
func appendAnswer(dst []byte, asked chat.Asked, a *chat.Answer) []byte {
	var c chat.Choice
	if len(a.Choices) > 0 {
		c = a.Choices[0]
	}
	r := newResponse(asked)
	r.setID(a.ID)
	r.finished, r.usage, r.tier = c.FinishReason, a.Usage, a.ServiceTier
	if c.Reasoning != "" {
		r.add(reasoningItem).text = []byte(c.Reasoning)
	}
	if c.Text != "" || len(c.Annotations) > len("[]") {
		o := r.add(textItem)
		o.text = []byte(c.Text)
		o.addLogprobs(c.Logprobs)
		for _, a := range gjson.ParseBytes(c.Annotations).Array() {
			o.annotations = append(o.annotations, appendAnnotation(nil, a))
		}
	}
	for _, image := range compose.Images(c.Images) {
		r.addImage(image)
	}
	if c.Refusal != "" {
		r.add(refusalItem).text = []byte(c.Refusal)
	}
	for i := range c.Calls {
		o := r.addCall(c.Calls[i].ID, c.Calls[i].Name)
		if o.text = []byte(c.Calls[i].Arguments); o.kind == customItem {
			o.text = []byte(customInput(o.text))
		}
	}
	for _, o := range r.items {
		o.status = r.ends(o)
	}
	return r.appendJSON(dst, r.status(), nil)
}
