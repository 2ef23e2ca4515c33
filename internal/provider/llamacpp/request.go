package llamacpp

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// rewrite makes a client's request the server's.
func rewrite(r *openai.ChatRequest, _ provider.Target, c *openaicompat.Changes) error {
	think(r, c)
	if c.Get("tool_choice").Kind() != '{' {
		return nil
	}
	chat, err := r.Chat()
	if err != nil {
		return err
	}
	choice := chat.ToolChoice
	names, mode := choice.Allowed, choice.Mode
	if choice.Mode == "function" {
		names, mode = []string{choice.Name}, "required"
	}
	tools := slices.DeleteFunc(schema.Elements(c.Get("tools")), func(tool jsontext.Value) bool {
		return !slices.Contains(names, gjson.GetBytes(tool, "function.name").Str)
	})
	if len(tools) == 0 || mode != "required" && mode != "auto" {
		return c.Refuse("tool_choice")
	}
	c.Set("tools", schema.AppendArray(nil, tools))
	c.Set("tool_choice", openai.AppendString(nil, mode))
	return nil
}

// think gives reasoning_effort to the model's chat template, which decides what it means. What the client says there itself
// stays.
func think(r *openai.ChatRequest, c *openaicompat.Changes) {
	effort := r.Get("reasoning_effort")
	if effort.Kind() != '"' {
		return
	}
	on := gjson.ParseBytes(effort).Str != "none"
	arguments := schema.Members(c.Get("chat_template_kwargs"))
	if schema.Find(arguments, "enable_thinking") == nil {
		arguments = append(arguments, schema.Member{Name: "enable_thinking", Value: strconv.AppendBool(nil, on)})
	}
	if on && schema.Find(arguments, "reasoning_effort") == nil {
		arguments = append(arguments, schema.Member{Name: "reasoning_effort", Value: effort})
	}
	c.Set("chat_template_kwargs", schema.AppendObject(nil, arguments))
	c.Remove("reasoning_effort")
}
