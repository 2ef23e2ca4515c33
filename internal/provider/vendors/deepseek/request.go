package deepseek

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

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
	case "":
	case "none":
		return thinking{set: "disabled"}
	default:
		return thinking{on: true, set: "enabled"}
	}
	switch kind := t.Can().GetThinking(); {
	case kind == configv1.Thinking_ADAPTIVE &&
		openaicompat.ForcesTool(r): // refused while thinking, which the client did not ask for
		return thinking{set: "disabled"}
	default:
		return thinking{on: kind == configv1.Thinking_ADAPTIVE || kind == configv1.Thinking_ALWAYS}
	}
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
		dropWithoutEffect(c)
	}
	calls := gjson.GetBytes(c.Get("messages"), "#.tool_calls.0").Get("0").Exists()
	return c.EachMessage(func(_ int, message jsontext.Value) ([]byte, error) {
		return rewriteMessage(message, thinking.on, calls), nil
	})
}

// dropWithoutEffect leaves out what the vendor ignores while the model thinks.
func dropWithoutEffect(c *openaicompat.Changes) {
	for _, p := range []struct {
		name    string
		neutral float64
	}{{"temperature", 1}, {"frequency_penalty", 0}, {"presence_penalty", 0}} {
		if v := gjson.ParseBytes(c.Get(p.name)); v.Type == gjson.Number && v.Num != p.neutral {
			c.Drop(p.name)
		}
	}
}

// rewriteMessage rewrites a message, or returns nil. With calls in the conversation the vendor refuses a thinking
// model's messages that lack reasoning, and is content with empty one. Without calls it ignores the reasoning of
// earlier turns, and its first reasoning model refused it.
func rewriteMessage(message jsontext.Value, thinks, calls bool) []byte {
	if gjson.GetBytes(message, "role").Str != "assistant" || calls && !thinks {
		return nil
	}
	ms := schema.Members(message)
	i := slices.IndexFunc(ms, func(m schema.Member) bool { return m.Name == "reasoning_content" })
	none := schema.Member{Name: "reasoning_content", Value: jsontext.Value(`""`)}
	switch {
	case !calls && i >= 0:
		ms = slices.Delete(ms, i, i+1)
	case calls && i < 0:
		ms = append(ms, none)
	case calls && ms[i].Value.Kind() == 'n':
		ms[i] = none
	default:
		return nil
	}
	return schema.AppendObject(nil, ms)
}
