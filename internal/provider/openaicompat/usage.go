package openaicompat

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
)

// readUsage reads a usage object. Members that are null or absent count nothing.
func readUsage(data []byte) openai.Usage {
	var u openai.Usage
	gjson.Parse(view(data)).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "prompt_tokens":
			u.PromptTokens = value.Int()
		case "completion_tokens":
			u.CompletionTokens = value.Int()
		case "total_tokens":
			u.TotalTokens = value.Int()
		case "prompt_tokens_details":
			u.CachedTokens = value.Get("cached_tokens").Int()
			u.CacheWriteTokens = value.Get("cache_write_tokens").Int()
			u.PromptAudio = value.Get("audio_tokens").Int()
		case "completion_tokens_details":
			u.ReasoningTokens = value.Get("reasoning_tokens").Int()
			u.CompletionAudio = value.Get("audio_tokens").Int()
		}
		return true
	})
	return u
}
