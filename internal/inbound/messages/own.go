package messages

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/kinds"
	"github.com/modelgate/modelgate/internal/provider/private"
	"github.com/modelgate/modelgate/internal/provider/schema"
)

// prompt returns the blocks of a system message without lines that concern Anthropic alone.
func prompt(blocks content) content {
	var kept content
	for _, k := range blocks {
		text := k.Text
		if k.Type == "text" {
			k.Text = private.Prompt(text, "")
		}
		if k.Text != "" || text == "" {
			kept = append(kept, k)
		}
	}
	return kept
}

// cache appends cache_control without what concerns Anthropic alone.
func (b *builder) cache(control jsontext.Value) {
	if bytes.Contains(control, []byte(`"scope"`)) {
		control = schema.AppendObject(nil, slices.DeleteFunc(schema.Members(control), func(m schema.Member) bool {
			return !private.Takes("", private.CacheControl, m.Name)
		}))
	}
	b.Raw("cache_control", control)
}

// other deals with a block that is neither text nor a medium: it leaves it out, or returns the client's error.
func (b *builder) other(place string, k *block, table kinds.Table, expected []string) error {
	switch kind := table[k.Type]; {
	case kind.Decision == kinds.Dropped, k.Type == "compaction":
		b.Drop(place)
		return nil
	case kind.Decision == kinds.Refused:
		return openai.CodeUnsupportedValue.On(place,
			"%s: Blocks of the type '%s' are not supported by the provider of this model: %s.", place, k.Type, kind.Note)
	}
	return unknownTag(place, k.Type, expected...)
}

// told returns the text for the model in place of a block that only Anthropic has.
func (b *builder) told(k *block) string {
	name := k.Tool.named()
	switch k.Type {
	case "tool_reference":
		return "The tool " + k.ToolName + " is loaded and can be used."
	case "browser_state":
		text, err := json.Marshal(struct {
			Tabs    jsontext.Value `json:"tabs,omitzero"`
			Changes jsontext.Value `json:"state_changes,omitzero"`
		}{k.Tabs, k.StateChanges})
		if err != nil { // it was read
			return ""
		}
		return "State of the browser: " + string(text)
	case "tool_removal":
		return "The tool " + name + " can no longer be used."
	default:
		if k.Tool.Definition != nil && !slices.ContainsFunc(slices.Concat(b.Tools, b.added), k.Tool.isDefinedBy) {
			b.added = append(b.added, k.Tool.Definition)
		}
		return "The tool " + name + " can be used now."
	}
}

// named returns the name of a tool or of a server with tools.
func (c *toolChange) named() string {
	name := c.Name
	if c.Definition != nil {
		name = nameOf(c.Definition)
	}
	if c.ServerName != "" {
		name = strings.TrimSpace(name + " of the MCP server " + c.ServerName)
	}
	return name
}

func (c *toolChange) isDefinedBy(t jsontext.Value) bool { return nameOf(t) == nameOf(c.Definition) }

func nameOf(definition jsontext.Value) string {
	var t tool
	if json.Unmarshal(definition, &t) != nil {
		return ""
	}
	return t.Name
}

// compacted writes the summary of the last compaction that can be read as a message of the user, and takes what stands
// before it out of its message. It returns the index of the first message that is left.
func (b *builder) compacted() int {
	for i, m := range slices.Backward(b.Messages) {
		for n, k := range slices.Backward(m.Content) {
			var summary string
			if k.Type != "compaction" || json.Unmarshal(k.Content, &summary) != nil || summary == "" {
				continue
			}
			b.open("user", fmt.Sprintf("messages.%d", i))
			b.String("content", "Summary of the conversation so far:\n\n"+summary)
			b.End("}")
			if n+1 == len(m.Content) {
				return i + 1
			}
			b.Messages[i].Content = m.Content[n+1:]
			return i
		}
	}
	return 0
}

// userAfter reports whether the user speaks after the i-th message.
func (b *builder) userAfter(i int) bool {
	return slices.ContainsFunc(b.Messages[i+1:], func(m message) bool { return m.Role == "user" })
}

// orEmpty puts an empty text into the open list if nothing is in it.
func (b *builder) orEmpty() {
	if b.Dst[len(b.Dst)-1] == '[' {
		b.textPart(&block{})
	}
}

// unknownTag is the error for a type that is not known at a place.
func unknownTag(at, got string, expected ...string) error {
	list := ""
	for i, e := range expected {
		if i > 0 {
			list += ", "
		}
		list += "'" + e + "'"
	}
	return openai.CodeInvalidValue.On(at,
		"%s: Input tag '%s' found using 'type' does not match any of the expected tags: %s.", at, got, list)
}

func (b *builder) textPart(k *block) {
	b.Begin(`{"type":"text"`)
	b.String("text", k.Text)
	b.cache(k.CacheControl)
	b.End("}")
}
