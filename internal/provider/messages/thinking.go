package messages

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// minBudget is the least budget of thinking that the vendor takes, and what is left for the answer at least.
const minBudget = 1024

// thinking is the vendor's parameter, as far as the codec acts on it.
type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int64  `json:"budget_tokens,omitzero"`
	Display      string `json:"display,omitzero"`

	// asSent, where it is set, is the client's own parameter, to which nothing had to be changed.
	asSent jsontext.Value
}

// MarshalJSONTo writes the client's own parameter as it came and any other by its members.
func (t thinking) MarshalJSONTo(enc *jsontext.Encoder) error {
	if t.asSent != nil {
		return enc.WriteValue(t.asSent)
	}
	type members thinking // without this method
	return json.MarshalEncode(enc, members(t))
}

// thinking translates reasoning_effort, or takes the vendor's own parameter as the client sent it, and sets max_tokens,
// which the vendor requires and which thinking is a part of.
func (e *encoder) thinking() error {
	e.out.MaxTokens = e.chat.OutputLimit()
	if e.out.MaxTokens == 0 {
		e.out.MaxTokens = e.can.MaxOutputTokens
	}
	if asked(e.chat.Thinking) {
		return e.ownThinking()
	}
	effort := e.chat.ReasoningEffort
	switch {
	case effort == "":
		return nil
	case effort != "none" && e.table.Budgets[effort] == 0:
		return badValue("reasoning_effort", "Invalid value: '%s'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' and 'max'.", effort)
	}
	switch e.can.Thinking {
	case thinkingNone:
		if effort != "none" {
			return e.unsupported("reasoning_effort")
		}
	case thinkingBudget:
		if effort != "none" {
			e.budget(thinking{Type: "enabled", BudgetTokens: e.table.Budgets[effort]}, "reasoning_effort")
		}
	case thinkingAlways:
		if effort == "none" { // the least there is
			e.dropped("reasoning_effort")
		}
		e.adaptive(effort)
	default:
		if effort == "none" {
			e.out.Thinking = &thinking{Type: "disabled"}
			return nil
		}
		e.adaptive(effort)
	}
	return nil
}

// adaptive lets the model decide how much to think, at an effort.
func (e *encoder) adaptive(effort string) {
	if e.out.OutputConfig == nil {
		e.out.OutputConfig = &outputConfig{}
	}
	e.out.OutputConfig.Effort = e.effort(effort)
	e.out.Thinking = &thinking{Type: "adaptive"}
	if e.can.ShowThinking {
		e.out.Thinking.Display = "summarized"
	}
}

// effort returns the model's level that is nearest to OpenAI's.
func (e *encoder) effort(effort string) string {
	nearest := map[string][]string{
		"none": {"low"}, "minimal": {"low"}, "xhigh": {"xhigh", "max", "high"}, "max": {"max", "xhigh", "high"},
	}
	for _, level := range nearest[effort] {
		if slices.Contains(e.can.Efforts, level) {
			return level
		}
	}
	return effort
}

// ownThinking takes the client's thinking parameter as it is, but for what the vendor would refuse.
func (e *encoder) ownThinking() error {
	var t thinking
	if err := json.Unmarshal(e.chat.Thinking, &t); err != nil || t.Type == "" {
		return openai.BadRequest("thinking", "invalid_value", "Invalid 'thinking': expected an object with 'type', and 'budget_tokens' where the type is 'enabled'.")
	}
	if e.chat.ReasoningEffort != "" {
		e.dropped("reasoning_effort")
	}
	t.asSent = e.chat.Thinking
	if t.Type == "enabled" {
		e.budget(t, "thinking")
		return nil
	}
	e.out.Thinking = &t
	return nil
}

// budget turns on thinking with a budget, which a forced tool and a conversation without the thinking that led to its
// last calls rule out: the request then goes without. param is what asked for it.
func (e *encoder) budget(t thinking, param string) {
	if e.out.ToolChoice.forces() || e.lacksThinking() {
		e.dropped(param)
		return
	}
	if t.BudgetTokens >= e.out.MaxTokens || param == "reasoning_effort" && e.chat.OutputLimit() > 0 {
		// OpenAI's limit is for what the client sees and the reasoning; here the budget must fit in as well.
		e.out.MaxTokens = min(e.out.MaxTokens+t.BudgetTokens, max(e.can.MaxOutputTokens, e.out.MaxTokens))
	}
	if t.BudgetTokens >= e.out.MaxTokens {
		t.BudgetTokens, t.asSent = e.out.MaxTokens-minBudget, nil
	}
	if t.BudgetTokens < minBudget {
		e.dropped(param)
		return
	}
	e.out.Thinking = &t
}

// thinks reports whether thinking is on, as far as the request says.
func (e *encoder) thinks() bool {
	return e.out.Thinking != nil && e.out.Thinking.Type != "disabled"
}

// lacksThinking reports whether the assistant's last turn would have to begin with thinking but does not: where it
// called tools, or where it is the beginning of the answer.
func (e *encoder) lacksThinking() bool {
	turns := e.out.Messages
	i := len(turns) - 1
	for i >= 0 && turns[i].Role != "assistant" {
		i--
	}
	if i < 0 || turns[i].Content[0].signed != nil {
		return false
	}
	calls := slices.ContainsFunc(turns[i].Content, func(b block) bool { return b.Type == "tool_use" })
	return calls || i == len(turns)-1
}

// signedThinking returns the thinking of an earlier answer that the client echoes, each block as it was: the vendor
// refuses one without its signature, and one that was changed.
func signedThinking(echoed jsontext.Value) []block {
	if echoed.Kind() != '[' {
		return nil
	}
	var blocks []block
	for _, v := range elements(echoed) {
		var b struct {
			Type      string `json:"type"`
			Signature string `json:"signature"`
			Data      string `json:"data"`
		}
		if json.Unmarshal(v, &b) != nil {
			continue
		}
		if b.Type == "thinking" && b.Signature != "" || b.Type == "redacted_thinking" && b.Data != "" {
			blocks = append(blocks, block{Type: b.Type, signed: v})
		}
	}
	return blocks
}
