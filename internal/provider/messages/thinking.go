package messages

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// minBudget is the least budget of thinking that the vendor takes, and what is left for the answer at least.
const minBudget = 1024

// efforts are OpenAI's levels of reasoning_effort.
var efforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// thinking is the vendor's parameter, as far as the codec acts on it.
type thinking struct {
	Type         string `json:"type"`
	BudgetTokens int64  `json:"budget_tokens"`

	display    string
	dropsBlock bool // thoughts that do not fit are passed over
	// asSent, where it is set, is the client's own parameter, to which nothing had to be changed.
	asSent jsontext.Value
}

// off reports whether thinking is turned off.
func (t *thinking) off() bool { return t != nil && t.Type == "disabled" }

func (t *thinking) appendJSON(dst []byte) []byte {
	if t.asSent != nil {
		return append(dst, t.asSent...)
	}
	dst = text(append(dst, '{'), "type", t.Type)
	if t.BudgetTokens > 0 {
		dst = strconv.AppendInt(member(dst, "budget_tokens"), t.BudgetTokens, 10)
	}
	dst = text(dst, "display", t.display)
	if t.dropsBlock {
		dst = append(member(dst, "block_binding"), `{"prefix_mismatch_behavior":"drop_block"}`...)
	}
	return append(dst, '}')
}

// remembers reports whether the model takes thinking of earlier answers back.
func (e *encoder) remembers() bool { return e.can.GetThinking() != configv1.Thinking_NEVER }

// thinking sets how the model thinks, and what becomes of the thoughts that go back to it.
func (e *encoder) thinking() error {
	if err := e.effort(); err != nil {
		return err
	}
	if e.can.GetBoundThinking() && e.hasThoughts() {
		e.unbind()
	}
	return nil
}

// hasThoughts reports whether signed thinking goes back to the model.
func (e *encoder) hasThoughts() bool {
	return slices.ContainsFunc(e.out.Messages, func(t turn) bool { return slices.ContainsFunc(t.content, isThought) })
}

func isThought(b block) bool { return b.signed != nil }

// forget takes signed thinking out of the conversation.
func (e *encoder) forget() {
	for i := range e.out.Messages {
		t := &e.out.Messages[i]
		t.content = slices.DeleteFunc(t.content, isThought)
	}
}

// unbind asks the vendor to pass over thoughts that do not fit what stands before them, which it would refuse. In what
// stock clients send back the thoughts of answers without calls are missing, so that later ones may not fit.
// https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
func (e *encoder) unbind() {
	switch t := e.out.Thinking; {
	case t.off():
		e.forget()
	case t != nil && t.asSent != nil: // the client says how
	case !e.beta("thinking-binding-controls-2026-08-01"):
		e.forget()
	default:
		if t == nil {
			t = &thinking{Type: "adaptive"} // as it is anyway
		}
		t.dropsBlock = true
		e.out.Thinking = t
	}
}

// effort translates reasoning_effort, or takes the vendor's own parameter as the client sent it, and sets max_tokens,
// which the vendor requires and which thinking is a part of.
func (e *encoder) effort() error {
	e.out.MaxTokens = cmp.Or(e.chat.OutputLimit(), e.maxOutput())
	if turns.Asked(e.chat.Thinking) {
		return e.ownThinking()
	}
	effort := e.chat.ReasoningEffort
	switch {
	case effort == "":
		return nil
	case !slices.Contains(efforts, effort):
		return badValue("reasoning_effort", "Invalid value: '%s'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' and 'max'.", effort)
	}
	switch e.can.GetThinking() {
	case configv1.Thinking_BUDGET:
		if budget := e.can.GetBudgets()[effort]; budget > 0 {
			e.budget(thinking{Type: "enabled", BudgetTokens: budget}, "reasoning_effort")
		}
	case configv1.Thinking_ALWAYS:
		if effort == "none" { // the least there is
			e.dropped("reasoning_effort")
		}
		e.adaptive(effort)
	case configv1.Thinking_ADAPTIVE:
		if effort == "none" {
			e.out.Thinking = &thinking{Type: "disabled"}
			return nil
		}
		e.adaptive(effort)
	default:
		if effort != "none" {
			return e.unsupported("reasoning_effort")
		}
	}
	return nil
}

// maxOutput is the most that the model may be asked for. Models that nobody knows are older ones.
func (e *encoder) maxOutput() int64 { return cmp.Or(e.can.GetMaxOutputTokens(), 4096) }

// adaptive lets the model decide how much to think, at an effort.
func (e *encoder) adaptive(effort string) {
	if out := e.output(); out.has("effort") {
		e.dropped("reasoning_effort")
	} else {
		out.effort = e.level(effort)
	}
	e.out.Thinking = &thinking{Type: "adaptive"}
	if e.can.GetShowThinking() {
		e.out.Thinking.display = "summarized"
	}
}

// level returns the model's level that is nearest to OpenAI's.
func (e *encoder) level(effort string) string {
	nearest := map[string][]string{
		"none": {"low"}, "minimal": {"low"}, "xhigh": {"xhigh", "max", "high"}, "max": {"max", "xhigh", "high"},
	}
	for _, level := range nearest[effort] {
		if slices.Contains(e.can.GetEfforts(), level) {
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
		e.out.MaxTokens = min(e.out.MaxTokens+t.BudgetTokens, max(e.maxOutput(), e.out.MaxTokens))
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
	return e.out.Thinking != nil && !e.out.Thinking.off()
}

// lacksThinking reports whether the assistant's last turn would have to begin with thinking but does not: where it
// called tools, or where it is the beginning of the answer.
func (e *encoder) lacksThinking() bool {
	turns := e.out.Messages
	i := len(turns) - 1
	for i >= 0 && turns[i].role != "assistant" {
		i--
	}
	if i < 0 || turns[i].content[0].signed != nil {
		return false
	}
	calls := slices.ContainsFunc(turns[i].content, func(b block) bool { return b.kind == "tool_use" })
	return calls || i == len(turns)-1
}
