package messages

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/kinds"
)

// A clientTool is a tool of Anthropic's that the client runs. The model knows its parameters. For other vendors a
// function with the same name stands for it.
type clientTool struct{ description, parameters string }

// clientTools are those tools by type, without the date.
var clientTools = map[string]clientTool{
	"bash": {"Runs a command in a bash shell on the user's machine that keeps its state between calls, and returns its output.",
		`{"type":"object","properties":{"command":{"type":"string","description":"The command, unless restart is true"},` +
			`"restart":{"type":"boolean","description":"Starts the shell again"}}}`},
	"text_editor": {"Views, creates and edits files on the user's machine.",
		`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert"]},` + editing +
			`"required":["command","path"]}`},
	"memory": {"Reads and writes files below /memories, which last longer than this conversation. Look there before you begin.",
		`{"type":"object","properties":{"command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},` +
			`"old_path":{"type":"string","description":"For rename"},"new_path":{"type":"string","description":"For rename"},` + editing +
			`"required":["command"]}`},
}

// editing ends the properties of a tool that edits files.
const editing = `"path":{"type":"string"},"file_text":{"type":"string","description":"For create: the whole text"},` +
	`"old_str":{"type":"string","description":"For str_replace: a text that occurs once"},` +
	`"new_str":{"type":"string","description":"For str_replace: what takes its place"},` +
	`"insert_line":{"type":"integer","description":"For insert: the line after which the text goes, 0 for the beginning"},` +
	`"insert_text":{"type":"string","description":"For insert: the text"},` +
	`"view_range":{"type":"array","items":{"type":"integer"},"description":"For view: the first and the last line, -1 for the end"}},`

// tools appends the tools and the choice among them.
func (b *builder) tools() error {
	begun := false
	for i, raw := range slices.Concat(b.Tools, b.added) {
		var t tool
		if err := json.Unmarshal(raw, &t); err != nil {
			return openai.CodeInvalidType.On(fmt.Sprintf("tools.%d", i), "tools.%d: It is not a valid tool.", i)
		}
		place, typ := fmt.Sprintf("tools.%d", i), kinds.Undated(t.Type)
		switch kind := kinds.MessageTools[typ]; kind.Decision {
		case kinds.Dropped:
			b.Drop(place)
			continue
		case kinds.Refused:
			return openai.CodeUnsupportedValue.On(place,
				"%s: Tools of the type '%s' are not supported by the provider of this model: %s.", place, t.Type, kind.Note)
		}
		if !begun {
			begun = true
			b.Member("tools", "[")
		}
		if err := b.tool(place, typ, &t, raw); err != nil {
			return err
		}
	}
	if begun {
		b.End("]")
	}
	c := b.ToolChoice
	if c == nil {
		return nil
	}
	switch c.Type {
	case "auto", "none":
		b.Text("tool_choice", c.Type)
	case "any":
		b.Text("tool_choice", "required")
	case "tool":
		if slices.ContainsFunc(b.Tools, func(raw jsontext.Value) bool { return nameOf(raw) == c.Name && isSearch(raw) }) {
			b.Drop("tool_choice") // it is no function
			break
		}
		b.Member("tool_choice", `{"type":"function","function":{`)
		b.String("name", c.Name)
		b.End("}}")
	default:
		return unknownTag("tool_choice", c.Type, "auto", "any", "tool", "none")
	}
	if c.DisableParallel {
		b.Raw("parallel_tool_calls", jsontext.Value("false"))
	}
	return nil
}

func isSearch(definition jsontext.Value) bool {
	return kinds.Undated(gjson.GetBytes(definition, "type").Str) == "web_search"
}

// tool appends a tool. One of an unknown type passes as it is: codecs refuse it by name.
func (b *builder) tool(place, typ string, t *tool, raw jsontext.Value) error {
	client, runs := clientTools[typ]
	switch {
	case runs:
		t.Description, t.InputSchema = client.description, jsontext.Value(client.parameters)
	case typ != "" && typ != "custom":
		b.Begin(string(raw))
		return nil
	}
	if t.Name == "" {
		return required(place + ".name")
	}
	if t.InputSchema.Kind() != '{' {
		return required(place + ".input_schema")
	}
	b.Begin(`{"type":"function","function":{`)
	b.Text("name", t.Name)
	b.Text("description", t.Description)
	b.Raw("parameters", t.InputSchema)
	if t.Strict {
		b.Raw("strict", jsontext.Value("true"))
	}
	b.End("}")
	b.cache(t.CacheControl)
	b.End("}")
	return nil
}
