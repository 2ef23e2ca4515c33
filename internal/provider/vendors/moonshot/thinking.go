package moonshot

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

// nearest are the efforts that models without the others have in their place.
var nearest = map[string]string{"minimal": "low", "medium": "high", "xhigh": "max"}

// thinking is what becomes of a request's settings.
type thinking struct {
	on      bool   // the model is going to think
	set     string // the type of thinking to ask for; empty: as it is
	effort  string // the effort to ask for; empty: none
	refused bool   // the model has no such effort
}

// think decides by the catalog's facts about the model: whether it thinks always, never, or by default, and which
// efforts it has.
func think(r *openai.ChatRequest, t provider.Target) thinking {
	kind, efforts := t.Can().GetThinking(), t.Can().GetEfforts()
	always, never := kind == configv1.Thinking_ALWAYS, kind == configv1.Thinking_NEVER
	own := gjson.GetBytes(r.Get("thinking"), "type").Str
	effort := gjson.ParseBytes(r.Get("reasoning_effort")).Str
	switch {
	case own != "":
		return thinking{on: own != "disabled", effort: effort}
	case effort == "" && kind == configv1.Thinking_ADAPTIVE &&
		openaicompat.ForcesTool(r): // refused while the model thinks
		return thinking{set: "disabled"}
	case effort == "":
		return thinking{on: always || kind == configv1.Thinking_ADAPTIVE}
	case effort == "none" && never:
		return thinking{}
	case effort == "none" && !always:
		return thinking{set: "disabled"}
	case never, effort == "none":
		return thinking{on: always, refused: true}
	case len(efforts) == 0 && always:
		return thinking{on: true, refused: true}
	case len(efforts) == 0:
		return thinking{on: true, set: "enabled"}
	}
	if near, ok := nearest[effort]; ok && !slices.Contains(efforts, effort) {
		effort = near
	}
	return thinking{on: true, effort: effort, refused: !slices.Contains(efforts, effort)}
}

// rewrite makes a client's request the vendor's.
func rewrite(r *openai.ChatRequest, t provider.Target, c *openaicompat.Changes) error {
	thinking := think(r, t)
	if thinking.set != "" {
		c.Set("thinking", []byte(`{"type":"`+thinking.set+`"}`))
	}
	switch {
	case thinking.refused:
		if err := c.Refuse("reasoning_effort"); err != nil {
			return err
		}
	case thinking.effort == "":
		c.Remove("reasoning_effort")
	default:
		c.Set("reasoning_effort", openai.AppendString(nil, thinking.effort))
	}
	if !thinking.on {
		return nil
	}
	return c.EachMessage(func(_ int, message jsontext.Value) ([]byte, error) { return withReasoning(message), nil })
}

// withReasoning returns a message whose calls come without reasoning with the least that is accepted, a blank, or else
// nil.
func withReasoning(message jsontext.Value) []byte {
	if !gjson.GetBytes(message, "tool_calls.0").Exists() || gjson.GetBytes(message, "reasoning_content").Str != "" {
		return nil
	}
	ms := schema.Without(schema.Members(message), "reasoning_content")
	return schema.AppendObject(nil, append(ms, schema.Member{Name: "reasoning_content", Value: jsontext.Value(`" "`)}))
}
