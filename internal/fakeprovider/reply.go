package fakeprovider

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/modelgate/modelgate/api/openai"
)

// An answer is the fake's answer to one request, the same in every choice.
type answer struct {
	id      string
	created int64
	model   string
	choices int
	words   []string // the text, each word with the white space before it
	calls   []call   // instead of a text
	finish  string
	prompt  int // words of the prompt
}

// A call is a tool call.
type call struct{ id, name, arguments string }

// reply decides what to say: what say makes of the user's text.
func reply(model string, chat *openai.Chat, say func(string) string) answer {
	a := answer{id: "chatcmpl-" + rand.Text(), created: time.Now().Unix(), model: model, choices: 1, finish: "stop"}
	if chat.N != nil {
		a.choices = int(*chat.N)
	}
	for _, m := range chat.Messages {
		a.prompt += len(strings.Fields(m.Content.Text()))
	}
	text := lastUserText(chat.Messages)
	if a.calls = calls(chat, text); len(a.calls) > 0 {
		a.finish = "tool_calls"
		return a
	}
	text = say(text)
	if f := chat.ResponseFormat; f != nil && f.Type != "text" {
		text = structured(f, text)
	}
	for _, stop := range chat.Stop {
		if before, _, found := strings.Cut(text, stop); found && stop != "" {
			text = before
		}
	}
	a.words = splitWords(text)
	if limit := chat.OutputLimit(); limit > 0 && limit < int64(len(a.words)) {
		a.words, a.finish = a.words[:limit], "length"
	}
	return a
}

// lastUserText returns the text of the last message of the user, or of the last message if there is none.
func lastUserText(messages []openai.Message) string {
	for _, m := range slices.Backward(messages) {
		if m.Role == "user" {
			return m.Content.Text()
		}
	}
	if len(messages) == 0 {
		return ""
	}
	return messages[len(messages)-1].Content.Text()
}

// calls returns the tool calls that the request forces, or that the user asks for: "call" and names of tools, in a
// last message that is the user's.
func calls(chat *openai.Chat, text string) []call {
	choice := openai.ToolChoice{Mode: "auto"}
	if chat.ToolChoice != nil {
		choice = *chat.ToolChoice
	}
	if choice.Mode == "none" {
		return nil
	}
	var tools []openai.Tool
	for _, t := range chat.Tools {
		name := t.Function.Name
		if t.Type == "function" && (choice.Name == "" || choice.Name == name) &&
			(choice.Allowed == nil || slices.Contains(choice.Allowed, name)) {
			tools = append(tools, t)
		}
	}
	forced := choice.Mode == "required" || choice.Name != ""
	var named []openai.Tool
	if forced || chat.Messages[len(chat.Messages)-1].Role == "user" {
		named = namedTools(tools, text)
	}
	if forced && len(named) == 0 && len(tools) > 0 {
		named = tools[:1]
	}
	if len(named) > 1 && chat.ParallelToolCalls != nil && !*chat.ParallelToolCalls {
		named = named[:1]
	}
	var calls []call
	for _, t := range named {
		arguments := encode(example(t.Function.Parameters))
		calls = append(calls, call{id: "call_" + rand.Text(), name: t.Function.Name, arguments: arguments})
	}
	return calls
}

// namedTools returns the tools that a text names after the word call, in the text's order.
func namedTools(tools []openai.Tool, text string) []openai.Tool {
	words := strings.FieldsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' && r != '-'
	})
	at := slices.IndexFunc(words, func(w string) bool { return strings.EqualFold(w, "call") })
	if at < 0 {
		return nil
	}
	var named []openai.Tool
	for _, w := range words[at+1:] {
		if i := slices.IndexFunc(tools, func(t openai.Tool) bool { return t.Function.Name == w }); i >= 0 {
			named = append(named, tools[i])
		}
	}
	return named
}

// structured returns a JSON object: an example of the schema, or the text as its one member.
func structured(f *openai.ResponseFormat, text string) string {
	if f.JSONSchema != nil && len(f.JSONSchema.Schema) > 0 {
		return encode(example(f.JSONSchema.Schema))
	}
	return encode(map[string]any{"text": text})
}

// encode returns the JSON of a value made of maps, slices, strings, numbers and booleans.
func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return "{}" // no such value exists
	}
	return string(data)
}

// splitWords splits a text so that its parts, one after another, are the text again.
func splitWords(text string) []string {
	var words []string
	start, inWord := 0, false
	for i, r := range text {
		space := unicode.IsSpace(r)
		if space && inWord {
			words, start = append(words, text[start:i]), i
		}
		inWord = !space
	}
	switch {
	case start == len(text):
	case !inWord && len(words) > 0: // white space at the end is no word
		words[len(words)-1] += text[start:]
	default:
		words = append(words, text[start:])
	}
	return words
}
