package alibaba

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// rewrite makes a client's request the vendor's.
func rewrite(r *openai.ChatRequest, t provider.Target, c *openaicompat.Changes) error {
	if bytes.Contains(r.Body, []byte(`"input_audio"`)) {
		err := c.EachMessage(func(_ int, message jsontext.Value) ([]byte, error) { return rewriteAudio(message), nil })
		if err != nil {
			return err
		}
	}
	return think(r, t, c)
}

// think turns reasoning_effort into the vendor's switch and budget. The client's own settings stay.
func think(r *openai.ChatRequest, t provider.Target, c *openaicompat.Changes) error {
	effort := gjson.ParseBytes(r.Get("reasoning_effort")).Str
	kind := t.Can().GetThinking()
	always, never := kind == configv1.Thinking_ALWAYS, kind == configv1.Thinking_NEVER
	on := effort != "none"
	switch {
	case effort == "" && kind == configv1.Thinking_ADAPTIVE &&
		openaicompat.ForcesTool(r): // refused while thinking, which nobody asked for
		on = false
	case effort == "":
		return nil
	case on && never, !on && always:
		return c.Refuse("reasoning_effort")
	}
	c.Remove("reasoning_effort")
	if !always && !never && c.Get("enable_thinking") == nil {
		c.Set("enable_thinking", strconv.AppendBool(nil, on))
	}
	if budget := t.Can().GetBudgets()[effort]; budget > 0 && c.Get("thinking_budget") == nil {
		c.Set("thinking_budget", strconv.AppendInt(nil, budget, 10))
	}
	return nil
}

// rewriteAudio gives audio as the vendor takes it: not base64 alone, but in a data URI.
func rewriteAudio(message jsontext.Value) []byte {
	ms, changed := schema.Members(message), false
	for i := range ms {
		if ms[i].Name != "content" {
			continue
		}
		parts := schema.Elements(ms[i].Value)
		for k, part := range parts {
			if text, ok := audioPart(part); ok {
				parts[k], changed = text, true
			}
		}
		if changed {
			ms[i].Value = schema.AppendArray(nil, parts)
		}
	}
	if !changed {
		return nil
	}
	return schema.AppendObject(nil, ms)
}

func audioPart(part jsontext.Value) (jsontext.Value, bool) {
	data := gjson.GetBytes(part, "input_audio.data")
	if data.Str == "" || strings.HasPrefix(data.Str, "data:") || strings.HasPrefix(data.Str, "http") {
		return nil, false
	}
	at := data.Index + len(`"`)
	return append(append(part[:at:at], "data:;base64,"...), part[at:]...), true
}
