package gemini

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// budgets are the tokens of thinking for each effort where the catalog does not say: Google's own numbers for OpenAI's
// clients (https://ai.google.dev/gemini-api/docs/openai#thinking).
var budgets = map[string]int64{"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

// levels are the vendor's levels for each effort, the best first. A model has some of them.
var levels = map[string][]string{
	"none": {"minimal", "low"}, "minimal": {"minimal", "low"}, "low": {"low"}, "medium": {"medium", "high"}, "high": {"high"},
	"xhigh": {"high"}, "max": {"high"},
}

// thinking translates how much the model is to think: the vendor's own parameter as the client sent it, or Anthropic's, or
// OpenAI's.
func (e *encoder) thinking() error {
	effort := e.chat.ReasoningEffort
	if own := turns.Asked(e.chat.Thinking); e.ownValue("thinkingConfig") != nil {
		if effort != "" {
			e.dropped("reasoning_effort")
		}
		if own {
			e.dropped("thinking")
		}
		return nil
	} else if own {
		if effort != "" {
			e.dropped("reasoning_effort")
		}
		return e.budgeted()
	}
	if effort == "" {
		return nil
	}
	if _, ok := budgets[effort]; !ok {
		return badValue("reasoning_effort", "Invalid value: '%s'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' and 'max'.", effort)
	}
	switch e.can.GetThinking() {
	case configv1.Thinking_NEVER:
		if effort != "none" {
			return e.unsupported("reasoning_effort")
		}
	case configv1.Thinking_LEVEL:
		e.level(effort)
	default:
		budget, ok := e.can.GetBudgets()[effort]
		if !ok {
			budget = budgets[effort]
		}
		if effort == "none" && budget > 0 { // the least there is
			e.dropped("reasoning_effort")
		}
		e.think(budget, effort != "none")
	}
	return nil
}

// level sets the level that the model has for an effort. It cannot be kept from thinking.
func (e *encoder) level(effort string) {
	level := levels[effort][0]
	if has := e.can.GetEfforts(); len(has) > 0 {
		if i := slices.IndexFunc(levels[effort], func(l string) bool { return slices.Contains(has, l) }); i >= 0 {
			level = levels[effort][i]
		}
	}
	if effort == "none" {
		e.dropped("reasoning_effort")
	}
	v := openai.AppendString([]byte(`{"thinkingLevel":`), strings.ToUpper(level))
	if effort != "none" {
		v = append(v, `,"includeThoughts":true`...)
	}
	e.set("thinkingConfig", append(v, '}'))
}

// budgeted translates Anthropic's parameter, with which clients set a budget.
func (e *encoder) budgeted() error {
	t := gjson.ParseBytes(e.chat.Thinking)
	switch typ := t.Get("type").String(); {
	case e.can.GetThinking() == configv1.Thinking_NEVER && typ != "disabled":
		return e.unsupported("thinking")
	case typ == "enabled" && t.Get("budget_tokens").Int() > 0:
		e.think(t.Get("budget_tokens").Int(), true)
	case typ == "enabled", typ == "adaptive":
		e.set("thinkingConfig", jsontext.Value(`{"includeThoughts":true}`))
	case typ == "disabled" && e.can.GetThinking() == configv1.Thinking_LEVEL:
		e.level("none")
	case typ == "disabled" && e.can.GetThinking() != configv1.Thinking_NEVER:
		e.think(e.can.GetBudgets()["none"], false)
	case typ != "disabled":
		return openai.BadRequest("thinking", "invalid_value", "Invalid 'thinking': expected an object with 'type', and 'budget_tokens' where the type is 'enabled'.")
	}
	return nil
}

// think sets a budget of thinking, and whether its text is wanted.
func (e *encoder) think(budget int64, shown bool) {
	v := strconv.AppendInt([]byte(`{"thinkingBudget":`), budget, 10)
	if shown {
		v = append(v, `,"includeThoughts":true`...)
	}
	e.set("thinkingConfig", append(v, '}'))
}
