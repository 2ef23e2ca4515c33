package llamacpp

import (
	"strconv"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// rewrite makes a client's request the server's.
func rewrite(r *openai.ChatRequest, _ provider.Target, c *openaicompat.Changes) error {
	think(r, c)
	choice := c.Get("tool_choice")
	if choice.Kind() != '{' {
		return nil
	}
	if !c.OnlyTools(gjson.GetBytes(choice, "function.name").Str) {
		return c.Refuse("tool_choice")
	}
	c.Set("tool_choice", []byte(`"required"`))
	return nil
}

// think gives reasoning_effort to the model's chat template, which decides what it means. What the client says there
// itself stays.
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
