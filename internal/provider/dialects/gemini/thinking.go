package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// budgets are the tokens of thinking for each effort if the catalog does not say: Google's own numbers for OpenAI's
// clients (https://ai.google.dev/gemini-api/docs/openai#thinking).
var budgets = map[string]int64{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576,
	"max": 24576}

// levels are the vendor's levels for each effort, the best first. A model has some of them.
var levels = map[string][]string{
	"none": {"minimal", "low"}, "minimal": {"minimal", "low"}, "low": {"low"}, "medium": {"medium", "high"},
	"high":  {"high"},
	"xhigh": {"high"}, "max": {"high"},
}

// thinking translates how much the model is to think. The vendor's own parameter passes as the client sent it.
func (e *encoder) thinking() error {
	w, err := reasoning.Of(e.body, e.chat)
	if err != nil {
		return err
	}
	e.wish = w
	thinks := e.can.GetThinking()
	if e.ownValue("thinkingConfig") != nil && thinks != configv1.Thinking_NEVER {
		for _, m := range []string{"thinking", "reasoning", "reasoning_effort", "output_config"} {
			if turns.Asked(e.body.Get(m)) {
				e.Drop(m)
			}
		}
		return nil
	}
	for _, param := range w.Ignored {
		e.Drop(param)
	}
	switch {
	case w.Param == "":
	case thinks == configv1.Thinking_NEVER:
		e.own = slices.DeleteFunc(e.own, func(m schema.Member) bool { return m.Name == "thinkingConfig" })
		if !w.Off() {
			return e.Unsupported(w.Param)
		}
	case w.Budget > 0:
		e.think(w.Budget)
	case w.Effort == "":
		e.think(anyBudget)
	case thinks == configv1.Thinking_LEVEL:
		e.level()
	default:
		budget, ok := e.can.GetBudgets()[w.Effort]
		if !ok {
			budget = budgets[w.Effort]
		}
		if w.Off() && budget > 0 { // the least there is
			e.Drop(w.Param)
		}
		e.think(budget)
	}
	return nil
}

// level sets the level that the model has for an effort. It cannot be kept from thinking.
func (e *encoder) level() {
	best := levels[e.wish.Effort]
	level := best[0]
	if has := e.can.GetEfforts(); len(has) > 0 {
		if i := slices.IndexFunc(best, func(l string) bool { return slices.Contains(has, l) }); i >= 0 {
			level = best[i]
		}
	}
	switch {
	case e.wish.Off():
		e.Drop(e.wish.Param)
	case level != e.wish.Effort:
		e.Adjust(e.wish.Param)
	}
	e.setThinking("thinkingLevel", openai.AppendString(nil, strings.ToUpper(level)))
}

// anyBudget leaves it to the model how much it thinks.
const anyBudget = -1

// think sets a budget of thinking.
func (e *encoder) think(budget int64) {
	if budget == anyBudget {
		e.setThinking("", nil)
		return
	}
	e.setThinking("thinkingBudget", strconv.AppendInt(nil, budget, 10))
}

// setThinking sets how much the model thinks, and that its text is wanted, if it is.
func (e *encoder) setThinking(name string, value jsontext.Value) {
	var ms []schema.Member
	if value != nil {
		ms = append(ms, schema.Member{Name: name, Value: value})
	}
	if !e.wish.Off() && e.wish.Hidden == "" {
		ms = append(ms, schema.Member{Name: "includeThoughts", Value: jsontext.Value("true")})
	}
	if len(ms) > 0 {
		e.set("thinkingConfig", schema.AppendObject(nil, ms))
	}
}
