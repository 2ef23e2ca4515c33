package converse

import (
	"cmp"
	"math"
	"slices"

	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/dialects/messages"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

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

// A thinker is the part of the encoder that says how much the model is to think.
type thinker struct{ *encoder }

// wantsReasoning reports whether the client asks for reasoning.
func (e *encoder) wantsReasoning() bool { return e.wish.Param != "" && !e.wish.Off() }

// readWish finds out how much the client wants the model to think.
func (e thinker) readWish() error {
	var err error
	e.wish, err = reasoning.Of(e.body, e.chat)
	e.Read = e.wish.Read
	return err
}

// thinking says how much the model is to think.
func (e thinker) thinking() error {
	w := &e.wish
	if e.family.effort == effortThinking {
		w.Report(&e.Omitted, "output_config", e.can.GetShowThinking()) // the rest of output_config passes
		return e.claude()
	}
	w.Report(&e.Omitted, "", false)
	thinks, level := e.can.GetThinking(), e.level(w.Level())
	always := thinks == configv1.Thinking_ALWAYS
	switch {
	case w.Param == "", w.Off() && !always: // these think only when asked
		return nil
	case w.Off():
		e.Drop(w.Param) // the least there is
		if level == "" {
			return nil
		}
	case always && w.Effort == "" && w.Budget == 0 && level == "":
		return nil
	case thinks == configv1.Thinking_NEVER, level == "":
		return e.Unsupported(w.Param)
	}
	e.sayEffort(level)
	return nil
}

// sayEffort writes a level in the form of the family, which has one.
func (e thinker) sayEffort(level string) {
	param := e.wish.Param
	e.levelled(level)
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
func (e thinker) withoutLimits() {
	if e.chat.MaxTokens != nil {
		e.Drop("max_tokens")
	}
	if e.chat.MaxCompletionTokens != nil {
		e.Drop("max_completion_tokens")
	}
	if e.out.InferenceConfig != nil {
		e.out.InferenceConfig.MaxTokens = 0
	}
	for _, p := range []struct {
		name  string
		value **float64
	}{{"temperature", &e.temperature}, {"top_p", &e.topP}} {
		if *p.value != nil && **p.value != 1 {
			e.Drop(p.name)
		}
		*p.value = nil
	}
}

// levelled notes that the effort is not the one that the client named.
func (e thinker) levelled(level string) {
	if w := &e.wish; w.Effort != "" && !w.Off() && level != w.Effort {
		e.Adjust(w.Param)
	}
}

// level returns the model's level that is nearest to OpenAI's, or "" if it has none.
func (e thinker) level(effort string) string {
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

// claude says how much the model thinks in Anthropic's ways. The client's own output_config passes, but for an effort
// where the model takes none.
func (e thinker) claude() error {
	w := &e.wish
	config := schema.Members(e.body.Get("output_config"))
	if thinks := e.can.GetThinking(); len(e.can.GetEfforts()) == 0 &&
		(thinks == configv1.Thinking_BUDGET || thinks == configv1.Thinking_NEVER) {
		given := len(config)
		config = slices.DeleteFunc(config, func(m schema.Member) bool { return m.Name == "effort" })
		if len(config) < given && w.Param != "output_config" && (w.Param != "thinking" || w.Effort == "") {
			e.Drop("output_config")
		}
	} else if w.Param == "output_config" {
		e.addField(w.Param, w.Param, e.body.Get("output_config"))
		return nil
	}
	var err error
	if w.Param != "" {
		config, err = e.claudeThinks(config)
	}
	if len(config) > 0 {
		e.addField("output_config", "output_config", schema.AppendObject(nil, config))
	}
	return err
}

// claudeThinks sets how the model thinks, as the client wants, and returns the members of output_config.
func (e thinker) claudeThinks(config []schema.Member) ([]schema.Member, error) {
	w := &e.wish
	typ := gjson.GetBytes(e.chat.Thinking, "type").Str
	if w.Param != "thinking" {
		typ = ""
	}
	asBudget := w.Budget > 0 && !e.rulesOutBudget() && !slices.Contains(e.can.GetUnsupportedParameters(),
		"thinking.budget_tokens")
	thinks := e.can.GetThinking()
	switch {
	case thinks == configv1.Thinking_BUDGET:
		if budget := cmp.Or(w.Budget, e.can.GetBudgets()[w.Level()]); budget > 0 && !w.Off() {
			e.budget(budget)
		} else if typ != "" {
			e.addField(w.Param, "thinking", e.chat.Thinking)
		}
		return config, nil
	case thinks == configv1.Thinking_THINKING_UNSPECIFIED && typ != "":
		e.addField(w.Param, "thinking", e.chat.Thinking)
		return config, nil
	case thinks != configv1.Thinking_ADAPTIVE && thinks != configv1.Thinking_ALWAYS:
		if w.Off() {
			return config, nil
		}
		return config, e.Unsupported(w.Param)
	case w.Off() && thinks == configv1.Thinking_ADAPTIVE:
		e.addField(w.Param, "thinking", thinkingField{Type: "disabled"})
		return config, nil
	case asBudget && thinks == configv1.Thinking_ADAPTIVE:
		e.budget(w.Budget)
		return config, nil
	case e.force != "":
		e.Drop(w.Param) // a model that thinks cannot be forced to call
		return config, nil
	case w.Off():
		e.Drop(w.Param) // the least there is
	}
	return e.adaptive(config, typ != "" && typ != "enabled"), nil
}

// adaptive lets the model decide how much to think, at an effort where the client wants one.
func (e thinker) adaptive(config []schema.Member, asSent bool) []schema.Member {
	w := &e.wish
	t := thinkingField{Type: "adaptive"}
	if e.can.GetShowThinking() && w.Hidden == "" && !w.Off() {
		t.Display = "summarized"
	}
	if asSent {
		e.addField(w.Param, "thinking", e.chat.Thinking)
	} else {
		e.addField(w.Param, "thinking", t)
	}
	level := e.level(w.Level())
	if w.Effort == "" && w.Budget == 0 || level == "" {
		return config
	}
	if schema.Find(config, "effort") != nil {
		if w.Param != "thinking" { // the effort goes with it
			e.Drop(w.Param)
		}
		return config
	}
	e.levelled(level)
	return append(config, schema.Member{Name: "effort", Value: openai.AppendString(nil, level)})
}

// rulesOutBudget reports whether the request rules out thinking by a budget: it forces a tool, or its conversation
// lacks the thinking that led to its last calls.
func (e thinker) rulesOutBudget() bool { return e.force != "" || e.lacksThinking() }

// budget turns on thinking with a budget. A request that rules it out goes without.
func (e thinker) budget(budget int64) {
	param := e.wish.Param
	if e.rulesOutBudget() {
		e.Drop(param)
		return
	}
	t := thinkingField{Type: "enabled", BudgetTokens: max(budget, messages.MinBudget)}
	if limit := e.chat.OutputLimit(); limit > 0 {
		most := cmp.Or(e.can.GetMaxOutputTokens(), math.MaxInt64)
		t.BudgetTokens, limit = messages.FitBudget(budget, limit, most, e.wish.Budget > 0)
		if t.BudgetTokens < messages.MinBudget {
			e.Drop(param)
			return
		}
		if limit != e.chat.OutputLimit() {
			e.Adjust(e.chat.LimitParam())
		}
		e.inference().MaxTokens = limit
	}
	if e.wish.Budget > 0 && t.BudgetTokens != e.wish.Budget {
		e.Adjust(param)
	}
	if param == "thinking" && t.BudgetTokens == e.wish.Budget {
		e.addField(param, "thinking", e.chat.Thinking)
		return
	}
	e.addField(param, "thinking", t)
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

// lacksThinking reports whether the assistant's last turn would have to begin with thinking but does not: because
// it called tools, or because it is the beginning of the answer.
func (e thinker) lacksThinking() bool {
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
