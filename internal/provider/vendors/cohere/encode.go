package cohere

import (
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

type chatCodec struct{}

// Encode implements provider.ChatCodec.
func (chatCodec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	chat, err := r.ChatFor(openai.Unnamed)
	if err != nil {
		return provider.Request{}, nil, err
	}
	e := &encoder{request: r, body: &r.Object, chat: chat, target: t,
		Omitted: turns.Omitted{Vendor: name, Drops: t.Drops(), Translated: r.Translated, Last: t.Last}}
	e.out.Model, e.out.Stream = t.Model, r.Stream
	// The order matters: files may become documents, and tools and documents leave no room for a response format.
	for _, step := range []func() error{e.parameters, e.sampling, e.messages, e.tools, e.format, e.thinking} {
		if err := step(); err != nil {
			return provider.Request{}, nil, err
		}
	}
	if t.Unsent {
		return provider.Request{}, nil, nil
	}
	e.Ignored(e.body.Body, knownInChat)
	req, err := request("/chat", &e.out)
	req.Dropped, req.Adjusted = e.Names, e.Adjusted
	return req, answer{&e.names}, err
}

// request returns the request with a body, which can be marshalled but for a defect of this package.
func request(path string, body any) (provider.Request, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return provider.Request{}, &openai.Error{Status: http.StatusInternalServerError, Type: openai.TypeServer,
			Message: "The request could not be translated: " + err.Error()}
	}
	return provider.Request{Path: path, Header: http.Header{"Content-Type": {"application/json"}}, Body: data}, nil
}

// An encoder builds one chat request.
type encoder struct {
	request *openai.ChatRequest
	body    *openai.Object
	chat    *openai.Chat
	target  provider.Target
	names   turns.Names
	turns.Omitted
	out chatRequest
}

// knownInChat are the members that some step of the encoder reads.
var knownInChat = []string{
	"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p",
	"top_k",
	"stop", "seed", "tools", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort", "thinking",
	"service_tier", "n", "logprobs", "top_logprobs", "frequency_penalty", "presence_penalty", "logit_bias", "modalities",
	"audio", "prediction", "web_search_options", "functions", "function_call", "verbosity",
	"documents", "strict_tools", "citation_options", "safety_mode", "priority", "raw_prompting", "k", "p",
	"stop_sequences",
}

// parameters sets what maps one to one, and refuses what the vendor cannot express unless it asks for nothing.
func (e *encoder) parameters() error {
	c := e.chat
	e.out.MaxTokens, e.out.Seed = c.OutputLimit(), c.Seed
	e.out.Logprobs = c.Logprobs != nil && *c.Logprobs
	e.out.CitationOptions, e.out.SafetyMode = e.native("citation_options"), e.native("safety_mode")
	e.out.Priority, e.out.RawPrompting = e.native("priority"), e.native("raw_prompting")
	stop := []string(c.Stop)
	gjson.ParseBytes(e.body.Get("stop_sequences")).ForEach(func(_, s gjson.Result) bool {
		stop = append(stop, s.String())
		return true
	})
	e.out.StopSequences = slices.DeleteFunc(slices.Clone(stop), func(s string) bool { return s == "" })
	return e.Lacking(c, "n", "top_logprobs", "logit_bias", "modalities", "audio", "prediction", "web_search_options",
		"functions", "function_call", "verbosity", "service_tier", "parallel_tool_calls")
}

// native returns a member of the vendor's own, or nil if the client does not send it.
func (e *encoder) native(member string) jsontext.Value {
	if v := e.body.Get(member); v != nil && v.Kind() != 'n' {
		return v
	}
	return nil
}

// sampling brings temperature, penalties, p and k into the vendor's ranges.
func (e *encoder) sampling() error {
	c := e.chat
	if c.Temperature != nil {
		limited := min(*c.Temperature, 1)
		if e.out.Temperature = &limited; limited != *c.Temperature {
			e.Adjust("temperature")
		}
	}
	for _, p := range []struct {
		name string
		from *float64
		to   *float64
	}{{"frequency_penalty", c.FrequencyPenalty, &e.out.FrequencyPenalty},
		{"presence_penalty", c.PresencePenalty, &e.out.PresencePenalty}} {
		switch {
		case p.from == nil:
		case *p.from < 0:
			if err := e.Unsupported(p.name); err != nil {
				return err
			}
		default:
			if *p.to = min(*p.from, 1); *p.to != *p.from {
				e.Adjust(p.name)
			}
		}
	}
	e.out.P, e.out.K = e.native("p"), e.native("k")
	if c.TopP != nil && *c.TopP < 1 { // 1 is OpenAI's default; the vendor takes 0.01 to 0.99
		limited := min(max(*c.TopP, 0.01), 0.99)
		if e.out.P, _ = json.Marshal(limited); limited != *c.TopP {
			e.Adjust("top_p")
		}
	}
	if v := e.native("top_k"); v != nil {
		e.out.K = v
	}
	return nil
}
