package bedrock

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// minBudget is the least budget of thinking that Claude takes, and what is left for the answer at least.
const minBudget = 1024

// nearest are the levels of effort to try for each of OpenAI's, the best first.
var nearest = map[string][]string{
	"none":    {"none", "minimal", "low"},
	"minimal": {"minimal", "low"},
	"low":     {"low", "medium"},
	"medium":  {"medium", "high"},
	"high":    {"high", "max"},
	"xhigh":   {"xhigh", "max", "high"},
	"max":     {"max", "xhigh", "high"},
}

// wantsReasoning reports whether the client asks for reasoning.
func (e *encoder) wantsReasoning() bool {
	return e.chat.ReasoningEffort != "" && e.chat.ReasoningEffort != "none" || turns.Asked(e.chat.Thinking)
}

// thinking translates reasoning_effort, or takes Anthropic's own parameter as the client sent it.
func (e *encoder) thinking() error {
	if turns.Asked(e.chat.Thinking) {
		return e.ownThinking()
	}
	effort := e.chat.ReasoningEffort
	switch {
	case effort == "":
		return nil
	case nearest[effort] == nil:
		return badValue("reasoning_effort", "Invalid value: '%s'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' and 'max'.", effort)
	case e.family.effort == effortThinking:
		return e.claude(effort)
	}
	thinks := e.can.GetThinking()
	level := e.level(effort)
	switch {
	case effort == "none" && thinks != configv1.Thinking_ALWAYS:
		return nil // these think only when asked
	case effort == "none":
		e.drops("reasoning_effort") // the least there is
		if level == "" {
			return nil
		}
	case thinks == configv1.Thinking_NEVER, level == "":
		return e.unsupported("reasoning_effort")
	}
	e.sayEffort(level)
	return nil
}

// sayEffort writes a level in the form of the family, which has one.
func (e *encoder) sayEffort(level string) {
	const param = "reasoning_effort"
	switch e.family.effort {
	case effortFlat:
		e.addField(param, "reasoning_effort", level)
	case effortQwen:
		e.addField(param, "reasoning_config", level)
	case effortNova:
		e.addField(param, "reasoningConfig", struct {
			Type               string `json:"type"`
			MaxReasoningEffort string `json:"maxReasoningEffort"`
		}{"enabled", level})
		if level == "high" {
			e.withoutLimits()
		}
	}
}

// withoutLimits takes out what Nova refuses at its highest effort.
func (e *encoder) withoutLimits() {
	if e.chat.MaxTokens != nil {
		e.drops("max_tokens")
	}
	if e.chat.MaxCompletionTokens != nil {
		e.drops("max_completion_tokens")
	}
	if e.out.InferenceConfig != nil {
		e.out.InferenceConfig.MaxTokens = 0
	}
	for _, p := range []struct {
		name  string
		value **float64
	}{{"temperature", &e.temperature}, {"top_p", &e.topP}} {
		if *p.value != nil && **p.value != 1 {
			e.drops(p.name)
		}
		*p.value = nil
	}
}

// level returns the model's level that is nearest to OpenAI's, or "" where it has none.
func (e *encoder) level(effort string) string {
	if e.family.effort == effortNone {
		return ""
	}
	for _, l := range nearest[effort] {
		if slices.Contains(e.can.GetEfforts(), l) {
			return l
		}
	}
	return ""
}

// thinkingField is Anthropic's parameter.
type thinkingField struct {
	Type         string `json:"type"`
	BudgetTokens int64  `json:"budget_tokens,omitzero"`
	Display      string `json:"display,omitzero"`
}

// claude translates an effort for the models that think in Anthropic's ways.
func (e *encoder) claude(effort string) error {
	const param = "reasoning_effort"
	always := e.can.GetThinking() == configv1.Thinking_ALWAYS
	switch e.can.GetThinking() {
	case configv1.Thinking_BUDGET:
		if budget := e.can.GetBudgets()[effort]; effort != "none" && budget > 0 {
			e.budget(thinkingField{Type: "enabled", BudgetTokens: budget}, nil, param)
		}
		return nil
	case configv1.Thinking_ADAPTIVE, configv1.Thinking_ALWAYS:
	default:
		if effort != "none" {
			return e.unsupported(param)
		}
		return nil
	}
	switch {
	case effort == "none" && !always:
		e.addField(param, "thinking", thinkingField{Type: "disabled"})
		return nil
	case e.force != "":
		e.drops(param) // a model that thinks cannot be forced to call
		return nil
	case effort == "none":
		e.drops(param) // the least there is
	}
	t := thinkingField{Type: "adaptive"}
	if e.can.GetShowThinking() {
		t.Display = "summarized"
	}
	e.addField(param, "thinking", t)
	if level := e.level(effort); level != "" {
		e.addField(param, "output_config", struct {
			Effort string `json:"effort"`
		}{level})
	}
	return nil
}

// ownThinking takes the client's thinking parameter as it is, but for what Claude would refuse. It means nothing to others.
func (e *encoder) ownThinking() error {
	if e.family.effort != effortThinking {
		e.drops("thinking")
		return nil
	}
	var t thinkingField
	if err := json.Unmarshal(e.chat.Thinking, &t); err != nil || t.Type == "" {
		return openai.BadRequest("thinking", "invalid_value", "Invalid 'thinking': expected an object with 'type', and 'budget_tokens' where the type is 'enabled'.")
	}
	if e.chat.ReasoningEffort != "" {
		e.drops("reasoning_effort")
	}
	if t.Type == "enabled" {
		e.budget(t, e.chat.Thinking, "thinking")
		return nil
	}
	e.addField("thinking", "thinking", e.chat.Thinking)
	return nil
}

// budget turns on thinking with a budget, which a forced tool and a conversation without the thinking that led to its last
// calls rule out: the request then goes without. asSent is the client's own parameter; param is what asked for it.
func (e *encoder) budget(t thinkingField, asSent jsontext.Value, param string) {
	if e.force != "" || e.lacksThinking() {
		e.drops(param)
		return
	}
	if limit := e.chat.OutputLimit(); limit > 0 {
		if t.BudgetTokens >= limit || param == "reasoning_effort" {
			// OpenAI's limit is for what the client sees and the reasoning; here the budget must fit in as well.
			limit += t.BudgetTokens
			if most := e.can.GetMaxOutputTokens(); most > 0 {
				limit = max(e.chat.OutputLimit(), min(limit, most))
			}
		}
		e.inference().MaxTokens = limit
		if t.BudgetTokens >= limit {
			t.BudgetTokens, asSent = limit-minBudget, nil
		}
	}
	switch {
	case t.BudgetTokens < minBudget:
		e.drops(param)
		e.inference().MaxTokens = e.chat.OutputLimit()
	case asSent != nil:
		e.addField(param, "thinking", asSent)
	default:
		e.addField(param, "thinking", t)
	}
}

// thinks reports whether the model thinks in Anthropic's ways, as far as the request says.
func (e *encoder) thinks() bool {
	if e.family.effort != effortThinking {
		return false
	}
	own := gjson.GetBytes(e.body.Get("additionalModelRequestFields"), "thinking.type")
	for _, f := range e.fields {
		if f.Name == "thinking" && !own.Exists() {
			own = gjson.GetBytes(f.Value, "type")
		}
	}
	return own.Exists() && own.Str != "disabled"
}

// lacksThinking reports whether the assistant's last turn would have to begin with thinking but does not: where it called
// tools, or where it is the beginning of the answer.
func (e *encoder) lacksThinking() bool {
	messages := e.out.Messages
	i := len(messages) - 1
	for i >= 0 && messages[i].Role != string(turns.Assistant) {
		i--
	}
	if i < 0 || messages[i].Content[0].ReasoningContent != nil {
		return false
	}
	calls := slices.ContainsFunc(messages[i].Content, func(b block) bool { return b.ToolUse != nil })
	return calls || i == len(messages)-1
}
