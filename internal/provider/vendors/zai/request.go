package zai

import (
	"slices"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
)

// rewrite makes a client's request the vendor's.
func rewrite(r *openai.ChatRequest, t provider.Target, c *openaicompat.Changes) error {
	if err := think(r, t, c); err != nil {
		return err
	}
	if stop := c.Get("stop"); stop.Kind() == '"' {
		c.Set("stop", slices.Concat([]byte("["), stop, []byte("]")))
	}
	user := c.Get("user")
	// others are refused, and have become others: see package forms
	if n := utf8.RuneCountInString(gjson.ParseBytes(user).Str); n >= 6 && n <= 128 && c.Get("user_id") == nil {
		c.Set("user_id", user)
		c.Remove("user")
	}
	return nil
}

// nearest are the efforts that models without the others have in their place.
var nearest = map[string]string{"minimal": "low", "medium": "high", "xhigh": "max"}

// think turns reasoning_effort into the switch that most models have and the effort that a few have besides. The
// client's own switch stays.
func think(r *openai.ChatRequest, t provider.Target, c *openaicompat.Changes) error {
	effort := gjson.ParseBytes(r.Get("reasoning_effort")).Str
	kind, efforts := t.Can().GetThinking(), t.Can().GetEfforts()
	set := "enabled"
	switch {
	case effort == "":
		return nil
	case effort == "none" && kind == configv1.Thinking_NEVER:
		c.Remove("reasoning_effort")
		return nil
	case kind == configv1.Thinking_NEVER, effort == "none" && kind == configv1.Thinking_ALWAYS:
		return c.Refuse("reasoning_effort")
	case effort == "none":
		set = "disabled"
		c.Remove("reasoning_effort")
	case kind == configv1.Thinking_THINKING_UNSPECIFIED || slices.Contains(efforts, effort):
	case slices.Contains(efforts, nearest[effort]):
		c.Set("reasoning_effort", openai.AppendString(nil, nearest[effort]))
	default:
		c.Remove("reasoning_effort")
	}
	if c.Get("thinking") == nil {
		c.Set("thinking", []byte(`{"type":"`+set+`"}`))
	}
	return nil
}
