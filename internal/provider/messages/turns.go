package messages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// noResult answers a tool call that the client left without an answer: the vendor refuses such a conversation.
const noResult = "The tool call was not executed."

// A conversation builds the turns. The user's turn stays open while messages are added to it, and is closed by the
// assistant's next one, or by the end.
type conversation struct {
	turns   []turn
	calls   []call         // of the assistant's last turn, in order, each to be answered by the user's turn
	waiting map[string]int // where in calls the one stands that waits for a result, by the client's id
	rest    []block        // of the user's turn, what comes after the results
	open    bool           // the user's turn has begun
	ids     map[string]int // how often the client used an id for a call
}

// A call is a tool call, and its result once it has one.
type call struct {
	id, sent string // the client's id, and the one that is sent
	result   *block
}

// turns builds the conversation and the system blocks.
func (e *encoder) turns() error {
	c := &conversation{ids: map[string]int{}}
	messages := e.chat.Messages
	for i := range messages {
		m, param := &messages[i], fmt.Sprintf("messages[%d]", i)
		var err error
		switch m.Role {
		case "system", "developer":
			err = e.systemMessage(c, m, param, c.open && (i+1 == len(messages) || messages[i+1].Role == "assistant"))
		case "user":
			var blocks []block
			blocks, err = parts(m, param)
			c.open, c.rest = true, append(c.rest, cacheLast(blocks, m.CacheControl)...)
		case "tool", "function":
			err = c.result(m, param)
		case "assistant":
			err = e.assistantMessage(c, m, param)
		}
		if err != nil {
			return err
		}
	}
	if c.open || len(c.calls) > 0 {
		c.close()
	}
	e.out.Messages = e.ending(c.turns)
	return nil
}

// systemMessage takes in a system or developer message. Wherever it stands it is hoisted to the system blocks, but for
// models that take one in the middle, where it follows the user's turn and the assistant's is next: that keeps its place
// and the cached prefix before it.
func (e *encoder) systemMessage(c *conversation, m *openai.Message, param string, between bool) error {
	blocks, err := texts(m, param)
	if err != nil || len(blocks) == 0 {
		return err
	}
	if e.can.InlineSystem && between {
		c.close()
		c.turns = append(c.turns, turn{Role: "system", Content: blocks})
		return nil
	}
	e.out.System = append(e.out.System, blocks...)
	return nil
}

func (e *encoder) assistantMessage(c *conversation, m *openai.Message, param string) error {
	blocks, err := texts(m, param)
	if err != nil {
		return err
	}
	if m.Refusal != "" {
		blocks = appendText(blocks, m.Refusal, nil)
	}
	if e.can.Thinking != thinkingNone {
		blocks = append(signedThinking(m.ThinkingBlocks), blocks...)
	}
	toolCalls := m.ToolCalls
	if m.FunctionCall != nil {
		toolCalls = append(slices.Clone(toolCalls), openai.ToolCall{ID: legacyID(m.FunctionCall.Name), Function: *m.FunctionCall})
	}
	var calls []call
	for i, t := range toolCalls {
		if t.Type != "" && t.Type != "function" {
			return badValue(fmt.Sprintf("%s.tool_calls[%d].type", param, i), "Tool calls of type '%s' are not supported by this model's provider.", t.Type)
		}
		calls = append(calls, call{id: t.ID, sent: c.newID(t.ID)})
		blocks = append(blocks, block{Type: "tool_use", ID: calls[i].sent, Name: e.names.use(t.Function.Name), Input: arguments(t.Function.Arguments)})
	}
	if len(calls) > 0 {
		blocks = cacheLast(blocks, m.CacheControl)
	}
	c.assistant(blocks, calls)
	return nil
}

// assistant begins the assistant's turn, or adds to it. Without blocks there is no turn, for none may be empty.
func (c *conversation) assistant(blocks []block, calls []call) {
	if len(blocks) == 0 {
		return
	}
	if c.open {
		c.close()
	}
	if c.waiting == nil && len(calls) > 0 {
		c.waiting = make(map[string]int, len(calls))
	}
	for _, w := range calls {
		c.waiting[w.id] = len(c.calls)
		c.calls = append(c.calls, w)
	}
	if n := len(c.turns); n > 0 && c.turns[n-1].Role == "assistant" {
		c.turns[n-1].Content = append(c.turns[n-1].Content, blocks...)
		return
	}
	c.turns = append(c.turns, turn{Role: "assistant", Content: blocks})
}

// result takes in a tool's result. One that answers no call of the assistant's last turn becomes text.
func (c *conversation) result(m *openai.Message, param string) error {
	blocks, err := parts(m, param)
	if err != nil {
		return err
	}
	id := m.ToolCallID
	if m.Role == "function" {
		id = legacyID(m.Name)
	}
	c.open = true
	i, ok := c.waiting[id]
	if !ok {
		c.rest = append(append(c.rest, block{Type: "text", Text: "Tool result (" + id + "):"}), blocks...)
		return nil
	}
	delete(c.waiting, id)
	cache := m.CacheControl
	for j := range blocks {
		// A breakpoint belongs on the result: within it the vendor takes none.
		if blocks[j].CacheControl != nil {
			cache, blocks[j].CacheControl = blocks[j].CacheControl, nil
		}
	}
	c.calls[i].result = &block{Type: "tool_result", Content: blocks, CacheControl: cache}
	return nil
}

// close ends the user's turn: the results in the order of the calls, then everything else.
func (c *conversation) close() {
	content := make([]block, 0, len(c.calls)+len(c.rest))
	for _, w := range c.calls {
		b := block{Type: "tool_result", Content: resultContent{{Type: "text", Text: noResult}}, IsError: true}
		if w.result != nil {
			b = *w.result
		}
		b.ToolUseID = w.sent
		content = append(content, b)
	}
	content = append(content, c.rest...)
	if len(content) == 0 {
		content = append(content, block{Type: "text", Text: "."}) // a turn must not be empty
	}
	c.turns = append(c.turns, turn{Role: "user", Content: content})
	c.calls, c.waiting, c.rest, c.open = nil, nil, nil, false
}

// ending makes the conversation end, and be, as the model demands.
func (e *encoder) ending(turns []turn) []turn {
	n := len(turns)
	if n == 0 {
		return []turn{{Role: "user", Content: []block{{Type: "text", Text: "."}}}}
	}
	if last := &turns[n-1]; last.Role == "assistant" {
		if !e.can.Prefill {
			return append(turns, turn{Role: "user", Content: []block{{Type: "text", Text: "Continue."}}})
		}
		// The vendor refuses a beginning of the answer that ends in white space.
		if b := &last.Content[len(last.Content)-1]; b.Type == "text" {
			b.Text = strings.TrimRight(b.Text, " \t\r\n")
		}
	}
	return turns
}
