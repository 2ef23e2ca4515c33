package deepseek

import (
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
)

// codec names what has no effect while the model thinks.
type codec struct{ provider.ChatCodec }

// Encode implements provider.ChatCodec.
func (c codec) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	req, answer, err := c.ChatCodec.Encode(r, t)
	if err == nil && think(r, t).on {
		req.Dropped = append(req.Dropped, withoutEffect(r)...)
	}
	return req, answer, err
}

// thinking is whether the model is going to think, and the setting to send where the client's own is not the vendor's.
type thinking struct {
	on  bool
	set string
}

func think(r *openai.ChatRequest, t provider.Target) thinking {
	if kind := gjson.GetBytes(r.Get("thinking"), "type").Str; kind != "" {
		return thinking{on: kind != "disabled"}
	}
	switch gjson.ParseBytes(r.Get("reasoning_effort")).Str {
	case "none":
		return thinking{set: "disabled"}
	default:
		return thinking{on: true, set: "enabled"}
	case "":
	}
	switch kind := t.Can().GetThinking(); {
	case kind == configv1.Thinking_ADAPTIVE && forcesTool(r): // refused while thinking, which the client did not ask for
		return thinking{set: "disabled"}
	default:
		return thinking{on: kind == configv1.Thinking_ADAPTIVE || kind == configv1.Thinking_ALWAYS}
	}
}

// forcesTool reports whether the model must call a tool.
func forcesTool(r *openai.ChatRequest) bool {
	choice := gjson.ParseBytes(r.Get("tool_choice"))
	return choice.Str == "required" || choice.Get("type").Str == "function"
}

// withoutEffect returns the parameters of the request that the vendor ignores while the model thinks.
func withoutEffect(r *openai.ChatRequest) (names []string) {
	for _, p := range []struct {
		name    string
		neutral float64
	}{{"temperature", 1}, {"frequency_penalty", 0}, {"presence_penalty", 0}} {
		if v := gjson.ParseBytes(r.Get(p.name)); v.Type == gjson.Number && v.Num != p.neutral {
			names = append(names, p.name)
		}
	}
	return names
}

// rewrite makes a client's request the vendor's.
func rewrite(r *openai.ChatRequest, t provider.Target, c *openaicompat.Changes) error {
	thinking := think(r, t)
	if thinking.set != "" {
		c.Set("thinking", []byte(`{"type":"`+thinking.set+`"}`))
	}
	if thinking.set == "disabled" {
		c.Remove("reasoning_effort")
	}
	if thinking.on {
		for _, name := range withoutEffect(r) {
			c.Remove(name)
		}
	}
	rewriteMessages(c, thinking.on)
	if format := gjson.ParseBytes(r.Get("response_format")); format.Get("type").Str == "json_schema" {
		instruct(c, "Answer with nothing but a JSON object that conforms to this JSON Schema: "+format.Get("json_schema.schema").Raw)
		c.Set("response_format", []byte(`{"type":"json_object"}`))
	}
	return nil
}
