package messages

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// MinBudget is the least budget of thinking that the vendor takes, and what is left for the answer at least.
const MinBudget = 1024

// thinking is the vendor's parameter, as far as the codec acts on it.
type thinking struct {
	Type         string
	BudgetTokens int64

	display    string
	dropsBlock bool // thoughts that do not fit are passed over
	// asSent is the client's own parameter, if it needed no change.
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

// A thinker is the part of the encoder that says how much the model is to think.
type thinker struct{ *encoder }

// thinking sets how the model thinks, and what becomes of the thoughts that go back to it.
func (e thinker) thinking() error {
	if err := e.effort(); err != nil {
		return err
	}
	if e.can.GetBoundThinking() && e.hasThoughts() {
		e.unbind()
	}
	return nil
}

// hasThoughts reports whether signed thinking goes back to the model.
func (e thinker) hasThoughts() bool {
	return slices.ContainsFunc(e.out.Messages, func(t turn) bool { return slices.ContainsFunc(t.content, isThought) })
}

func isThought(b block) bool { return b.signed != nil }

// forget takes signed thinking out of the conversation.
func (e thinker) forget() {
	for i := range e.out.Messages {
		t := &e.out.Messages[i]
		t.content = slices.DeleteFunc(t.content, isThought)
	}
}

// unbind asks the vendor to pass over thoughts that do not fit what stands before them, which it would refuse. In what
// stock clients send back the thoughts of answers without calls are missing, so that later ones may not fit.
// https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
func (e thinker) unbind() {
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

// effort sets how much the model thinks, and max_tokens, which the vendor requires and which thinking is a part of.
func (e thinker) effort() error {
	e.out.MaxTokens = cmp.Or(e.chat.OutputLimit(), e.maxOutput())
	var err error
	if e.wish, err = reasoning.Of(e.body, e.chat); err != nil {
		return err
	}
	e.wish.Report(&e.Omitted, "output_config", e.can.GetShowThinking()) // the rest of output_config passes
	switch {
	case e.wish.Param == "":
		return nil
	case !e.takesEffort():
		e.withoutEffort()
	case e.wish.Param == "output_config":
		return nil // it passes as it is
	}
	if e.wish.Param == "thinking" && e.takesOwn() {
		e.ownThinking()
		return nil
	}
	return e.think()
}

// takesEffort reports whether the model takes the effort of output_config.
func (e thinker) takesEffort() bool {
	thinks := e.can.GetThinking()
	return len(e.can.GetEfforts()) > 0 || thinks != configv1.Thinking_BUDGET && thinks != configv1.Thinking_NEVER
}

// withoutEffort takes the client's own effort out, which the model would refuse.
func (e thinker) withoutEffort() {
	out := e.out.OutputConfig
	if out == nil || !out.has("effort") {
		return
	}
	if by := e.wish.Param; by != "output_config" && (by != "thinking" || e.wish.Effort == "") {
		e.Drop("output_config")
	}
	out.own = schema.Without(out.own, "effort")
	if len(out.own) == 0 && out.schema == nil {
		e.out.OutputConfig = nil
	}
}

// takesOwn reports whether the model takes the vendor's parameter as the client sent it: models differ in its types.
func (e thinker) takesOwn() bool {
	off, budget := e.wish.Off(), e.wish.Budget > 0
	other := !off && gjson.GetBytes(e.chat.Thinking, "type").Str != "enabled"
	switch e.can.GetThinking() {
	case configv1.Thinking_NEVER:
		return false
	case configv1.Thinking_BUDGET:
		return off || budget
	case configv1.Thinking_ADAPTIVE:
		return off || budget && e.takesBudget() || other
	case configv1.Thinking_ALWAYS:
		return other
	}
	return true
}

// takesBudget reports whether a model that decides itself how much to think also takes a budget, for this request.
func (e thinker) takesBudget() bool {
	return !slices.Contains(e.can.GetUnsupportedParameters(), "thinking.budget_tokens") && !e.rulesOutBudget()
}

// rulesOutBudget reports whether the request rules out thinking by a budget: it forces a tool, or its conversation
// lacks the thinking that led to its last calls.
func (e thinker) rulesOutBudget() bool { return e.out.ToolChoice.forces() || e.lacksThinking() }

// ownThinking takes the client's thinking parameter as it is.
func (e thinker) ownThinking() {
	t := thinking{Type: "adaptive", display: gjson.GetBytes(e.chat.Thinking, "display").Str, asSent: e.chat.Thinking}
	switch {
	case e.wish.Budget > 0:
		t.Type, t.BudgetTokens = "enabled", e.wish.Budget
		e.budget(t)
		return
	case e.wish.Off():
		t.Type = "disabled"
	}
	e.out.Thinking = &t
}

// think sets how the model thinks, as the client wants.
func (e thinker) think() error {
	w := &e.wish
	switch e.can.GetThinking() {
	case configv1.Thinking_BUDGET:
		if budget := cmp.Or(w.Budget, e.can.GetBudgets()[w.Level()]); budget > 0 && !w.Off() {
			e.budget(thinking{Type: "enabled", BudgetTokens: budget})
		}
	case configv1.Thinking_ALWAYS:
		if w.Off() { // the least there is
			e.Drop(w.Param)
		}
		e.adaptive()
	case configv1.Thinking_ADAPTIVE:
		switch {
		case w.Off():
			e.out.Thinking = &thinking{Type: "disabled"}
		case w.Budget > 0 && e.takesBudget():
			e.budget(thinking{Type: "enabled", BudgetTokens: w.Budget})
		default:
			e.adaptive()
		}
	default:
		if !w.Off() {
			return e.Unsupported(w.Param)
		}
	}
	return nil
}

// maxOutput is the most that the model may be asked for. Models that nobody knows are older ones.
func (e *encoder) maxOutput() int64 { return cmp.Or(e.can.GetMaxOutputTokens(), 4096) }

// adaptive lets the model decide how much to think, at an effort where the client wants one.
func (e thinker) adaptive() {
	w := &e.wish
	if w.Effort != "" || w.Budget > 0 {
		if out := e.output(); !out.has("effort") {
			if out.effort = e.level(w.Level()); w.Effort != "" && out.effort != w.Effort {
				e.Adjust(w.Param)
			}
		} else if w.Param != "thinking" { // the effort goes with it
			e.Drop(w.Param)
		}
	}
	e.out.Thinking = &thinking{Type: "adaptive"}
	if e.can.GetShowThinking() && w.Hidden == "" && !w.Off() {
		e.out.Thinking.display = "summarized"
	}
}

// level returns the model's level that is nearest to OpenAI's.
func (e thinker) level(effort string) string {
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

// budget turns on thinking with a budget. A request that rules it out goes without.
func (e thinker) budget(t thinking) {
	if e.rulesOutBudget() {
		e.Drop(e.wish.Param)
		return
	}
	budget, limit := FitBudget(t.BudgetTokens, e.out.MaxTokens, e.maxOutput(), e.wish.Budget > 0)
	if budget < MinBudget {
		e.Drop(e.wish.Param)
		return
	}
	if budget != t.BudgetTokens {
		if e.wish.Budget > 0 {
			e.Adjust(e.wish.Param)
		}
		t.BudgetTokens, t.asSent = budget, nil
	}
	if limit != e.out.MaxTokens && e.chat.OutputLimit() > 0 {
		e.Adjust(e.chat.LimitParam())
	}
	e.out.MaxTokens, e.out.Thinking = limit, &t
}

// FitBudget makes a budget of thinking fit into a limit of tokens. As OpenAI's, the limit covers the thinking and
// the answer. A budget that only stands for an effort is made smaller. If there is no room for the least one, or
// the client itself set the budget, the limit is raised as far as the model goes.
func FitBudget(budget, limit, most int64, fixed bool) (fitting, raised int64) {
	budget = max(budget, MinBudget)
	if !fixed {
		budget = min(budget, max(limit-MinBudget, MinBudget))
	}
	if budget >= limit {
		limit = max(limit, min(limit+budget, most))
	}
	if budget >= limit {
		budget = limit - MinBudget
	}
	return budget, limit
}

// thinks reports whether thinking is on, as far as the request says.
func (e *encoder) thinks() bool {
	return e.out.Thinking != nil && !e.out.Thinking.off()
}

// lacksThinking reports whether the assistant's last turn would have to begin with thinking but does not: because
// it called tools, or because it is the beginning of the answer.
func (e thinker) lacksThinking() bool {
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
