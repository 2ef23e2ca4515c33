// Package reasoning reads how much a client wants the model to think, for codecs that translate. Clients use OpenAI's
// members, or those of the vendor that they were written for.
//
// The members are not equivalent: some set a level, some a number of tokens, and some only enable thinking. A codec
// uses its vendor's nearest setting, and never ignores a member that it did not understand.
package reasoning

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/schema"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

// None is the effort without thinking.
const None = "none"

// efforts are OpenAI's levels of reasoning_effort.
var efforts = []string{None, "minimal", "low", "medium", "high", "xhigh", "max"}

// A Wish is the client's setting. Without an effort and a budget, the model decides how much it thinks.
type Wish struct {
	Param  string // the member with the setting, or its path; empty if there is none
	Effort string // one of OpenAI's, or empty
	Budget int64  // in tokens, or 0
	Hidden string // the member that hides the text of the thinking, or empty

	// Read is a member, not OpenAI's, that has only this setting; a codec need not report it as omitted.
	Read string
	// Ignored are members with other or weaker settings.
	Ignored []string
}

// Report records the members that the setting leaves out, but for one that passes. Hiding the thinking is left out if
// the vendor cannot hide it.
func (w *Wish) Report(o *turns.Omitted, passes string, canHide bool) {
	for _, param := range w.Ignored {
		if param != passes {
			o.Drop(param)
		}
	}
	if w.Hidden != "" && !canHide {
		o.Drop(w.Hidden)
	}
}

// Off reports whether the model should not think.
func (w *Wish) Off() bool { return w.Effort == None }

// Level returns the effort, or the nearest one to the budget.
func (w *Wish) Level() string {
	switch {
	case w.Effort != "":
		return w.Effort
	case w.Budget == 0:
		return "medium"
	case w.Budget <= 2048:
		return "low"
	case w.Budget <= 10000:
		return "medium"
	case w.Budget <= 32000:
		return "high"
	}
	return "xhigh"
}

// Of returns the client's setting. If several members have one, the most specific one is used. An error is an
// *openai.Error.
func Of(r *openai.ChatRequest, c *openai.Chat) (Wish, error) {
	var found Wish
	for _, read := range []func(*openai.ChatRequest, *openai.Chat) (Wish, error){anthropic, openRouter, google, openAI} {
		w, err := read(r, c)
		switch {
		case err != nil:
			return Wish{}, err
		case w.Param == "":
		case found.Param == "":
			w.Ignored = append(found.Ignored, w.Ignored...)
			found = w
		default:
			found.Ignored = append(found.Ignored, w.Param)
		}
	}
	if len(schema.Members(r.Get("output_config"))) > 1 {
		found.Ignored = append(found.Ignored, "output_config")
	}
	return found, nil
}

// anthropic reads thinking, and the effort in output_config, which may also occur alone.
func anthropic(r *openai.ChatRequest, c *openai.Chat) (Wish, error) {
	effort := gjson.GetBytes(r.Get("output_config"), "effort").String()
	if !turns.Asked(c.Thinking) {
		if effort == "" || c.ReasoningEffort != "" {
			return Wish{}, nil
		}
		return Wish{Param: "output_config", Effort: effort, Read: "output_config"}, check("output_config.effort", effort)
	}
	var t struct {
		Type         string `json:"type"`
		BudgetTokens int64  `json:"budget_tokens"`
		TokenBudget  int64  `json:"token_budget"` // Cohere's name
	}
	err := json.Unmarshal(c.Thinking, &t)
	if err != nil || t.Type == "" {
		return Wish{}, openai.CodeInvalidValue.On("thinking",
			"Invalid 'thinking': expected an object with 'type', and 'budget_tokens' where the type is 'enabled'.")
	}
	w := Wish{Param: "thinking", Budget: max(t.BudgetTokens, t.TokenBudget, 0), Read: "output_config"}
	if t.Type == "disabled" {
		w.Effort, w.Budget = None, 0
	} else if w.Budget == 0 {
		w.Effort = effort
	}
	return w, check("output_config.effort", w.Effort)
}

// openRouter reads reasoning.
func openRouter(r *openai.ChatRequest, _ *openai.Chat) (Wish, error) {
	v := r.Get("reasoning")
	if !turns.Asked(v) {
		return Wish{}, nil
	}
	if v.Kind() != '{' {
		return Wish{}, openai.CodeInvalidType.On("reasoning",
			"Invalid type for 'reasoning': expected an object such as {\"effort\":\"medium\"}.")
	}
	w := Wish{Param: "reasoning", Read: "reasoning"}
	said := false
	for _, m := range schema.Members(v) {
		value := gjson.ParseBytes(m.Value)
		if value.Type == gjson.Null {
			continue
		}
		switch m.Name {
		case "effort":
			w.Effort, said = value.String(), true
		case "max_tokens":
			w.Budget, said = max(value.Int(), 0), true
		case "enabled":
			said = true
			if !value.Bool() {
				return Wish{Param: w.Param, Effort: None, Read: w.Read}, nil
			}
		case "exclude":
			if value.Bool() {
				w.Hidden, said = "reasoning.exclude", true
			}
		default:
			w.Ignored = append(w.Ignored, "reasoning."+turns.Identifier(m.Name))
		}
	}
	if !said {
		return Wish{}, nil // it has no known setting
	}
	return w, check("reasoning.effort", w.Effort)
}

// googlePaths are the paths at which Google's clients put its parameter.
var googlePaths = [][]string{
	{"extra_body", "google", "thinking_config"}, {"extra_body", "google", "thinkingConfig"},
	{"google", "thinking_config"},
	{"google", "thinkingConfig"}, {"thinking_config"}, {"thinkingConfig"}, {"generationConfig", "thinkingConfig"},
	{"generation_config", "thinking_config"},
}

func google(r *openai.ChatRequest, _ *openai.Chat) (Wish, error) {
	for _, path := range googlePaths {
		v, alone := r.Get(path[0]), true
		for _, name := range path[1:] {
			ms := schema.Members(v)
			v, alone = schema.Find(ms, name), alone && len(ms) == 1
		}
		if v.Kind() != '{' || !turns.Asked(v) {
			continue
		}
		w := Wish{Param: strings.Join(path, ".")}
		if alone {
			w.Read = path[0]
		}
		for _, m := range schema.Members(v) {
			value := gjson.ParseBytes(m.Value)
			switch m.Name {
			case "thinking_budget", "thinkingBudget":
				if w.Budget = max(value.Int(), 0); value.Int() == 0 && value.Type == gjson.Number {
					w.Effort = None
				}
			case "thinking_level", "thinkingLevel":
				w.Effort = strings.ToLower(value.String())
			case "include_thoughts", "includeThoughts":
				if !value.Bool() {
					w.Hidden = w.Param + "." + m.Name
				}
			}
		}
		return w, check(w.Param, w.Effort)
	}
	return Wish{}, nil
}

func openAI(_ *openai.ChatRequest, c *openai.Chat) (Wish, error) {
	if c.ReasoningEffort == "" {
		return Wish{}, nil
	}
	return Wish{Param: "reasoning_effort", Effort: c.ReasoningEffort}, check("reasoning_effort", c.ReasoningEffort)
}

func check(param, effort string) error {
	if effort == "" || slices.Contains(efforts, effort) {
		return nil
	}
	return openai.CodeUnsupportedValue.On(param,
		"Invalid value: '%s'. Supported values are: 'none', 'minimal', 'low', 'medium', 'high', 'xhigh' and 'max'.", effort)
}

// Fit returns the nearest effort that a model has, or "", and whether the model reasons. An effort stays as it is if
// nothing is known of the model.
func Fit(asked string, can *configv1.Capabilities) (effort string, reasons bool) {
	if can.GetThinking() == configv1.Thinking_NEVER {
		return "", false
	}
	if len(can.GetEfforts()) == 0 {
		return asked, true
	}
	return Nearest(asked, can.GetEfforts()), true
}

// Nearest returns the effort of a model that is nearest to the one that is asked for, and rather more than less. It
// returns "" if the model has nothing near it, such as only high for none: its default then counts.
func Nearest(asked string, has []string) string {
	want := slices.Index(efforts, asked)
	if want < 0 || slices.Contains(has, asked) {
		return asked
	}
	best, distance := "", len(efforts)
	for _, e := range has {
		at := slices.Index(efforts, e)
		if d := max(at-want, want-at); at >= 0 && (d < distance || d == distance && at > want) {
			best, distance = e, d
		}
	}
	low := slices.Index(efforts, "low")
	if asked == None && distance > low || best == None && want >= low {
		return ""
	}
	return best
}
