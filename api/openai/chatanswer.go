package openai

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A ChatAnswer is a whole chat completion, as codecs that translate give it.
type ChatAnswer struct {
	ID          string
	Created     int64
	Model       string
	Choices     []ChatChoice
	Usage       Usage
	ServiceTier string // left out where empty
}

// A ChatChoice is one of the answers.
type ChatChoice struct {
	// Text is the content. Empty beside calls, a refusal or audio, it is null.
	Text      string
	Refusal   string
	Reasoning string // the extension reasoning_content; left out where empty
	// ThinkingBlocks is the extension thinking_blocks, a JSON array; left out where nil.
	ThinkingBlocks jsontext.Value
	Annotations    jsontext.Value // a JSON array; left out where nil
	Audio          jsontext.Value // a JSON object; left out where nil
	Calls          []AnswerCall
	Logprobs       jsontext.Value // a JSON object; null where nil
	FinishReason   string
}

// An AnswerCall is a call of a tool. Arguments is what the model wrote, JSON in all likelihood.
type AnswerCall struct {
	ID, Name, Arguments string
	ExtraContent        jsontext.Value // left out where nil
}

// AppendJSON appends the chat completion to dst.
func (a *ChatAnswer) AppendJSON(dst []byte) []byte {
	dst = AppendString(append(dst, `{"id":`...), a.ID)
	dst = append(dst, `,"object":"chat.completion","created":`...)
	dst = strconv.AppendInt(dst, a.Created, 10)
	dst = AppendString(append(dst, `,"model":`...), a.Model)
	dst = append(dst, `,"choices":[`...)
	for i := range a.Choices {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, `{"index":`, int64(i))
		dst = a.Choices[i].appendMessage(append(dst, `,"message":`...))
		dst = append(dst, `,"logprobs":`...)
		dst = appendValue(dst, a.Choices[i].Logprobs)
		dst = AppendString(append(dst, `,"finish_reason":`...), a.Choices[i].FinishReason)
		dst = append(dst, '}')
	}
	dst = a.Usage.AppendJSON(append(dst, `],"usage":`...))
	if a.ServiceTier != "" {
		dst = AppendString(append(dst, `,"service_tier":`...), a.ServiceTier)
	}
	return append(dst, '}')
}

func (c *ChatChoice) appendMessage(dst []byte) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	if c.Text == "" && (len(c.Calls) > 0 || c.Refusal != "" || c.Audio != nil) {
		dst = append(dst, "null"...)
	} else {
		dst = AppendString(dst, c.Text)
	}
	dst = appendNullable(append(dst, `,"refusal":`...), c.Refusal)
	if c.Reasoning != "" {
		dst = AppendString(append(dst, `,"reasoning_content":`...), c.Reasoning)
	}
	for _, m := range []struct {
		name  string
		value jsontext.Value
	}{{`,"thinking_blocks":`, c.ThinkingBlocks}, {`,"annotations":`, c.Annotations}, {`,"audio":`, c.Audio}} {
		if m.value != nil {
			dst = append(append(dst, m.name...), m.value...)
		}
	}
	for i, call := range c.Calls {
		if i == 0 {
			dst = append(dst, `,"tool_calls":[`...)
		} else {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `{"id":`...), call.ID)
		dst = AppendString(append(dst, `,"type":"function","function":{"name":`...), call.Name)
		dst = AppendString(append(dst, `,"arguments":`...), call.Arguments)
		dst = append(dst, '}')
		if call.ExtraContent != nil {
			dst = append(append(dst, `,"extra_content":`...), call.ExtraContent...)
		}
		dst = append(dst, '}')
	}
	if len(c.Calls) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func appendValue(dst []byte, v jsontext.Value) []byte {
	if v == nil {
		return append(dst, "null"...)
	}
	return append(dst, v...)
}
