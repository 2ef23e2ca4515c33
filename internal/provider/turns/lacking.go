package turns

import (
	"fmt"
	"slices"

	"github.com/modelgate/modelgate/api/openai"
)

// Lacking refuses those of the parameters, which the vendor cannot express, that the client sets to more than their
// default, or records that they were dropped.
func (o *Omitted) Lacking(c *openai.Chat, params ...string) error {
	for _, p := range params {
		if sets(c, p) {
			if err := o.Unsupported(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// sets reports whether the client asks for something by a parameter.
func sets(c *openai.Chat, param string) bool {
	set := func(v *float64) bool { return v != nil && *v != 0 }
	switch param {
	case "n":
		return c.N != nil && *c.N != 1
	case "logprobs":
		return c.Logprobs != nil && *c.Logprobs
	case "top_logprobs":
		return c.TopLogprobs != nil && *c.TopLogprobs > 0
	case "temperature":
		return c.Temperature != nil
	case "top_p":
		return c.TopP != nil
	case "seed":
		return c.Seed != nil
	case "frequency_penalty":
		return set(c.FrequencyPenalty)
	case "presence_penalty":
		return set(c.PresencePenalty)
	case "logit_bias":
		return Asked(c.LogitBias)
	case "modalities":
		return slices.ContainsFunc(c.Modalities, func(s string) bool { return s != "text" })
	case "audio":
		return Asked(c.Audio) && slices.Contains(c.Modalities, "audio")
	case "prediction":
		return Asked(c.Prediction)
	case "web_search_options":
		return c.WebSearchOptions != nil && c.WebSearchOptions.Kind() != 'n' // {} asks for a search
	case "functions":
		return Asked(c.Functions)
	case "function_call":
		return Asked(c.FunctionCall) && string(c.FunctionCall) != `"none"` && string(c.FunctionCall) != `"auto"`
	case "verbosity":
		return c.Verbosity != "" && c.Verbosity != "medium"
	case "service_tier":
		return c.ServiceTier != "" && c.ServiceTier != "auto" && c.ServiceTier != "default"
	case "parallel_tool_calls":
		return c.ParallelToolCalls != nil && !*c.ParallelToolCalls && len(c.Tools) > 0
	}
	panic("no such parameter: " + param)
}

// CheckFunction checks the function of the i-th tool: it has a name, and its parameters are an object.
func CheckFunction(f *openai.Function, i int) error {
	if f.Name == "" {
		return openai.CodeMissingRequiredParameter.On(fmt.Sprintf("tools[%d].function.name", i),
			"Missing required parameter: 'tools[%d].function.name'.", i)
	}
	if Asked(f.Parameters) && f.Parameters.Kind() != '{' {
		return openai.CodeInvalidType.On(fmt.Sprintf("tools[%d].function.parameters", i),
			"Invalid type for 'tools[%d].function.parameters': expected a JSON Schema object.", i)
	}
	return nil
}

// Allow leaves of the tools those that the client allows, by the names that the vendor gets.
func Allow[T any](tools []T, nameOf func(T) string, allowed []string) ([]T, error) {
	names := make(map[string]bool, len(allowed))
	for _, n := range allowed {
		names[Identifier(n)] = true
	}
	kept := slices.DeleteFunc(tools, func(t T) bool { return !names[nameOf(t)] })
	if len(kept) == 0 {
		return nil, openai.CodeInvalidValue.On("tool_choice",
			"None of the allowed tools of 'tool_choice' is in the 'tools' parameter.")
	}
	return kept, nil
}
