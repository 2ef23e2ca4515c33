package mistral

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

type chatCodec struct{}

// Encode implements provider.ChatCodec.
func (chatCodec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	chat, err := r.ChatFor(openai.Unnamed, "tool_choice:any", "image_url", "input_audio")
	if err != nil {
		return provider.Request{}, nil, err
	}
	e := &encoder{request: r, body: &r.Object, chat: chat, target: t,
		Omitted: turns.Omitted{Vendor: name, Drops: t.Drops(), Translated: r.Translated, Last: t.Last},
		out:     make([]byte, 0, len(r.Body)+256)}
	e.out = openai.AppendString(append(e.out, `{"model":`...), t.Model)
	e.out = strconv.AppendBool(e.member("stream"), r.Stream)
	for _, step := range []func() error{e.refuse, e.messages, e.tools, e.parameters, e.reasoning} {
		if err := step(); err != nil {
			return provider.Request{}, nil, err
		}
	}
	e.Ignored(e.body.Body, knownInChat)
	return provider.Request{
		Path: "/chat/completions", Header: http.Header{"Content-Type": {"application/json"}}, Body: append(e.out, '}'),
		Dropped: e.Names, Adjusted: e.Adjusted,
	}, &answer{own: e.own, names: &e.names}, nil
}

// An encoder builds one chat request.
type encoder struct {
	request *openai.ChatRequest
	body    *openai.Object
	chat    *openai.Chat
	target  provider.Target
	turns.Omitted
	names turns.Names
	out   []byte           // the body so far, an object that is not closed
	raw   [][]gjson.Result // see rawPart
	own   []string         // see answer.own
}

// member begins a member of the body, whose value the caller appends.
func (e *encoder) member(name string) []byte { return appendName(e.out, name) }

// appendName begins a member of the object that dst ends with. Names need no escaping.
func appendName(dst []byte, name string) []byte {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	return append(append(append(dst, '"'), name...), `":`...)
}

// passed are members that the vendor knows by OpenAI's name or that are its own.
var passed = []string{
	"top_p", "stop", "presence_penalty", "frequency_penalty", "n", "metadata", "random_seed", "prompt_mode",
	"prompt_cache_key", "safe_prompt", "guardrails",
}

// knownInChat are the members that some step of the encoder reads.
var knownInChat = append([]string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "seed",
	"tools", "tool_choice",
	"parallel_tool_calls", "response_format", "reasoning_effort", "thinking", "service_tier", "logprobs", "top_logprobs",
	"logit_bias",
	"modalities", "audio", "prediction", "web_search_options", "functions", "function_call", "verbosity",
}, passed...)

// refuse refuses what the vendor cannot express unless it asks for nothing.
func (e *encoder) refuse() error {
	return e.Lacking(e.chat, "logprobs", "logit_bias", "modalities", "audio", "web_search_options", "functions",
		"function_call", "verbosity", "service_tier")
}

// maxTemperature is the highest that the vendor takes.
const maxTemperature = 1.5

// parameters sets what maps one to one.
func (e *encoder) parameters() error {
	c := e.chat
	if limit := c.OutputLimit(); limit > 0 {
		e.out = strconv.AppendInt(e.member("max_tokens"), limit, 10)
	}
	greedy := false
	if v := e.native("temperature"); v != nil {
		greedy = *c.Temperature == 0
		if *c.Temperature > maxTemperature {
			v = strconv.AppendFloat(nil, maxTemperature, 'g', -1, 64)
		}
		e.out = append(e.member("temperature"), v...)
	}
	for _, member := range passed {
		// without a temperature there is nothing to choose from, and the vendor says so with a 400
		if greedy && member == "top_p" {
			if c.TopP != nil && *c.TopP != 1 {
				e.Drop(member)
			}
			continue
		}
		if v := e.native(member); turns.Asked(v) {
			e.out = append(e.member(member), v...)
		}
	}
	if v := e.native("seed"); v != nil && e.native("random_seed") == nil {
		e.out = append(e.member("random_seed"), v...)
	}
	if f := c.ResponseFormat; f != nil && f.Type != "text" {
		format := e.native("response_format")
		if e.body.HasDeviation(openai.Unnamed) {
			format = openai.NameSchema(format)
		}
		e.out = append(e.member("response_format"), format...)
	}
	return e.prediction()
}

// prediction is OpenAI's but for its content, which is one string.
func (e *encoder) prediction() error {
	v := e.native("prediction")
	if !turns.Asked(v) {
		return nil
	}
	var text strings.Builder
	switch content := gjson.GetBytes(v, "content"); {
	case content.Type == gjson.String:
		text.WriteString(content.Str)
	case content.IsArray():
		content.ForEach(func(_, p gjson.Result) bool {
			text.WriteString(p.Get("text").String())
			return true
		})
	default:
		return openai.CodeInvalidType.On("prediction.content",
			"Invalid type for 'prediction.content': expected a string or an array of text parts.")
	}
	e.out = openai.AppendString(append(e.member("prediction"), `{"type":"content","content":`...), text.String())
	e.out = append(e.out, '}')
	return nil
}

// native returns a member that is not null, or nil.
func (e *encoder) native(member string) jsontext.Value {
	if v := e.body.Get(member); v != nil && v.Kind() != 'n' {
		return v
	}
	return nil
}
