package messages

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"
)

// Values of capability.Thinking.
const (
	thinkingNone     = "none"
	thinkingBudget   = "budget"
	thinkingAdaptive = "adaptive"
	thinkingAlways   = "always"
)

// Values of capability.Sampling.
const (
	samplingBoth = "both"
	samplingOne  = "one"
	samplingNone = "none"
)

//go:embed capabilities.yaml
var capabilitiesYAML []byte

// A capability is what the models that match a pattern can do. The data file says what each member means.
type capability struct {
	Pattern          string   `json:"pattern"`
	MaxOutputTokens  int64    `json:"max_output_tokens"`
	Thinking         string   `json:"thinking"`
	ShowThinking     bool     `json:"show_thinking"`
	Efforts          []string `json:"efforts"`
	StructuredOutput bool     `json:"structured_output"`
	Sampling         string   `json:"sampling"`
	Prefill          bool     `json:"prefill"`
	NoForcedTools    bool     `json:"no_forced_tools"`
	InlineSystem     bool     `json:"inline_system"`

	re *regexp.Regexp
}

// A capabilityTable finds the capability of a model. It is immutable.
type capabilityTable struct {
	Budgets map[string]int64 `json:"budgets"`
	Models  []capability     `json:"models"`
}

// builtIn is the table of the data file.
var builtIn = sync.OnceValue(func() *capabilityTable {
	t, err := parseCapabilities(capabilitiesYAML)
	if err != nil {
		panic(err) // the file is a part of the program, and a test reads it
	}
	return t
})

func parseCapabilities(data []byte) (*capabilityTable, error) {
	t := new(capabilityTable)
	if err := yaml.UnmarshalStrict(data, t); err != nil {
		return nil, fmt.Errorf("reading model capabilities: %w", err)
	}
	for i := range t.Models {
		m := &t.Models[i]
		re, err := regexp.Compile(m.Pattern)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading model capabilities: %w", err)
		case m.MaxOutputTokens <= 0:
			return nil, fmt.Errorf("model capabilities of %q: max_output_tokens is missing", m.Pattern)
		case !slices.Contains([]string{thinkingNone, thinkingBudget, thinkingAdaptive, thinkingAlways}, m.Thinking):
			return nil, fmt.Errorf("model capabilities of %q: thinking %q is unknown", m.Pattern, m.Thinking)
		case !slices.Contains([]string{samplingBoth, samplingOne, samplingNone}, m.Sampling):
			return nil, fmt.Errorf("model capabilities of %q: sampling %q is unknown", m.Pattern, m.Sampling)
		}
		m.re = re
	}
	if len(t.Models) == 0 || t.Models[len(t.Models)-1].Pattern != "" {
		return nil, fmt.Errorf("model capabilities: the last pattern must be empty, which matches every model")
	}
	return t, nil
}

// find returns the first capability whose pattern matches. It must not be modified.
func (t *capabilityTable) find(model string) *capability {
	i := slices.IndexFunc(t.Models, func(c capability) bool { return c.re.MatchString(model) })
	return &t.Models[i]
}
