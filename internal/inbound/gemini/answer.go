package gemini

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/compose"
)

// appendAnswer appends a complete answer.
func appendAnswer(dst []byte, asked chat.Asked, a *chat.Answer) []byte {
	thoughts := wantsThoughts(asked.Echo)
	dst = append(dst, `{"candidates":[`...)
	for i := range a.Choices {
		c := &a.Choices[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"content":{"parts":[`...)
		if thoughts && c.Reasoning != "" {
			dst = append(openai.AppendString(append(dst, `{"thought":true,"text":`...), c.Reasoning), '}')
		}
		for _, text := range []string{c.Text, c.Refusal} {
			if text != "" {
				dst = append(openai.AppendString(append(next(dst), `{"text":`...), text), '}')
			}
		}
		dst = appendImages(dst, c.Images)
		for n := range c.Calls {
			call := &c.Calls[n]
			dst = appendCall(next(dst), call.ID, call.Name, call.Arguments, call.ExtraContent)
		}
		dst = openai.AppendString(append(dst, `],"role":"model"},"finishReason":`...), finishReason(c.FinishReason,
			c.Refusal != ""))
		dst = appendGrounding(dst, c.Annotations)
		dst = appendLogprobs(dst, c.Logprobs)
		dst = append(strconv.AppendInt(append(dst, `,"index":`...), int64(i), 10), '}')
	}
	dst = append(dst, `],"usageMetadata":`...)
	return appendTail(appendUsage(dst, &a.Usage), asked.Model, a.ID)
}

// next appends the comma before a further element of a list.
func next(dst []byte) []byte {
	if dst[len(dst)-1] != '[' {
		dst = append(dst, ',')
	}
	return dst
}

// appendTail appends the last members of an answer or a chunk.
func appendTail(dst []byte, model, id string) []byte {
	dst = openai.AppendString(append(dst, `,"modelVersion":`...), model)
	dst = openai.AppendString(append(dst, `,"responseId":`...), id)
	return append(dst, '}')
}

// appendCall appends a call. If it has a thought signature of Google's, that is a member of the part.
func appendCall(dst []byte, id, name, arguments string, extra jsontext.Value) []byte {
	dst = openai.AppendString(append(dst, `{"functionCall":{"id":`...), id)
	dst = openai.AppendString(append(dst, `,"name":`...), name)
	dst = append(dst, `,"args":`...)
	switch v := jsontext.Value(arguments); {
	case arguments == "":
		dst = append(dst, "{}"...)
	case v.Kind() == '{' && v.Compact() == nil: // an event is one line
		dst = append(dst, v...)
	default: // text of the model that is no object is kept in one
		dst = append(openai.AppendString(append(dst, `{"arguments":`...), arguments), '}')
	}
	dst = append(dst, '}')
	if s := gjson.GetBytes(extra, "google.thought_signature").Str; s != "" {
		dst = openai.AppendString(append(dst, `,"thoughtSignature":`...), s)
	}
	return append(dst, '}')
}

// appendImages appends images that the model has made.
func appendImages(dst []byte, images jsontext.Value) []byte {
	for _, image := range compose.Images(images) {
		if image.URL != "" {
			dst = openai.AppendString(append(next(dst), `{"fileData":{"mimeType":"image/*","fileUri":`...), image.URL)
			dst = append(dst, "}}"...)
			continue
		}
		dst = openai.AppendString(append(next(dst), `{"inlineData":{"mimeType":`...), image.Type)
		dst = append(openai.AppendString(append(dst, `,"data":`...), image.Data), "}}"...)
	}
	return dst
}

// appendGrounding appends the pages that a text cites.
func appendGrounding(dst []byte, annotations jsontext.Value) []byte {
	pages := compose.Citations(annotations)
	if len(pages) == 0 {
		return dst
	}
	dst = append(dst, `,"groundingMetadata":{"groundingChunks":[`...)
	for _, page := range pages {
		dst = openai.AppendString(append(next(dst), `{"web":{"uri":`...), page.URL)
		dst = append(openai.AppendString(append(dst, `,"title":`...), page.Title), "}}"...)
	}
	return append(dst, "]}"...)
}

// appendLogprobs appends the log probabilities of a chat completion.
func appendLogprobs(dst []byte, logprobs jsontext.Value) []byte {
	tokens := gjson.GetBytes(logprobs, "content").Array()
	if len(tokens) == 0 {
		return dst
	}
	token := func(t gjson.Result) {
		dst = append(append(next(dst), `{"token":`...), t.Get("token").Raw...)
		dst = append(append(append(dst, `,"logProbability":`...), t.Get("logprob").Raw...), '}')
	}
	dst = append(dst, `,"logprobsResult":{"topCandidates":[`...)
	for _, t := range tokens {
		dst = append(next(dst), `{"candidates":[`...)
		for _, top := range t.Get("top_logprobs").Array() {
			token(top)
		}
		dst = append(dst, "]}"...)
	}
	dst = append(dst, `],"chosenCandidates":[`...)
	for _, t := range tokens {
		token(t)
	}
	return append(dst, "]}"...)
}

// finishReason returns Google's reason for OpenAI's.
func finishReason(finished string, refused bool) string {
	switch {
	case finished == "length":
		return "MAX_TOKENS"
	case finished == "content_filter", refused:
		return "SAFETY"
	}
	return "STOP"
}

// appendUsage appends the usage as Google counts it: thoughts are not among the candidates' tokens.
func appendUsage(dst []byte, u *openai.Usage) []byte {
	thoughts := min(u.ReasoningTokens, u.CompletionTokens)
	dst = strconv.AppendInt(append(dst, `{"promptTokenCount":`...), u.PromptTokens, 10)
	dst = strconv.AppendInt(append(dst, `,"candidatesTokenCount":`...), u.CompletionTokens-thoughts, 10)
	if thoughts > 0 {
		dst = strconv.AppendInt(append(dst, `,"thoughtsTokenCount":`...), thoughts, 10)
	}
	if u.CachedTokens > 0 {
		dst = strconv.AppendInt(append(dst, `,"cachedContentTokenCount":`...), u.CachedTokens, 10)
	}
	total := max(u.TotalTokens, u.PromptTokens+u.CompletionTokens)
	return append(strconv.AppendInt(append(dst, `,"totalTokenCount":`...), total, 10), '}')
}
