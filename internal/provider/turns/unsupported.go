package turns

import (
	"slices"

	"github.com/modelgate/modelgate/api/openai"
)

// Members of messages that are not in turns, with the names that a codec reports if it does not support them.
const (
	UnsupportedName    = "messages.name"                     // of a participant
	UnsupportedAudio   = "messages.audio"                    // audio of the assistant
	UnsupportedDetail  = "messages.content.image_url.detail" // the detail of an image
	UnsupportedCache   = "cache_control"                     // of a message, a part or a tool
	UnsupportedReason  = "messages.reasoning_content"        // without a signature
	UnsupportedThought = "messages.content.thinking"         // Claude's, as a part
)

// Unsupported returns which of these members a request has, each once.
func Unsupported(c *openai.Chat) []string {
	var name, audio, detail, cache, reason, thought bool
	for i := range c.Messages {
		m := &c.Messages[i]
		name = name || m.Name != "" && m.Role != "function" && m.Role != "tool"
		audio = audio || Asked(m.Audio)
		reason = reason || m.ReasoningContent != "" && !signed(m)
		cache = cache || Asked(m.CacheControl)
		for j := range m.Content {
			p := &m.Content[j]
			detail = detail || p.ImageURL != nil && p.ImageURL.Detail != "" && p.ImageURL.Detail != "auto"
			cache = cache || Asked(p.CacheControl)
			thought = thought || p.Thought != nil && m.Role == "assistant"
		}
	}
	for i := range c.Tools {
		cache = cache || Asked(c.Tools[i].CacheControl)
	}
	var found []string
	for _, u := range []struct {
		has  bool
		name string
	}{{name, UnsupportedName}, {audio, UnsupportedAudio}, {detail, UnsupportedDetail}, {cache, UnsupportedCache},
		{reason, UnsupportedReason},
		{thought, UnsupportedThought}} {
		if u.has {
			found = append(found, u.name)
		}
	}
	return found
}

// signed reports whether a message also has its reasoning in a form with the vendor's signature.
func signed(m *openai.Message) bool {
	return Asked(m.ThinkingBlocks) || slices.ContainsFunc(m.Content,
		func(p openai.Part) bool { return p.Thought != nil }) ||
		slices.ContainsFunc(m.ToolCalls, func(t openai.ToolCall) bool {
			return len(t.Carried) > 0 || Asked(t.ExtraContent)
		})
}
