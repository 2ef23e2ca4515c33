package openaicompat

import (
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
)

// readUsage reads a usage object, which is valid JSON. Members that are null or absent count nothing, and some vendors
// send counts with a decimal point.
func readUsage(data []byte) openai.Usage {
	var u openai.Usage
	eachMember(data, func(name, value []byte) {
		switch string(name) {
		case "prompt_tokens":
			u.PromptTokens = count(value)
		case "completion_tokens":
			u.CompletionTokens = count(value)
		case "total_tokens":
			u.TotalTokens = count(value)
		case "prompt_tokens_details":
			eachMember(value, func(name, value []byte) {
				switch string(name) {
				case "cached_tokens":
					u.CachedTokens = count(value)
				case "cache_write_tokens":
					u.CacheWriteTokens = count(value)
				case "audio_tokens":
					u.PromptAudio = count(value)
				}
			})
		case "completion_tokens_details":
			eachMember(value, func(name, value []byte) {
				switch string(name) {
				case "reasoning_tokens":
					u.ReasoningTokens = count(value)
				case "audio_tokens":
					u.CompletionAudio = count(value)
				}
			})
		}
	})
	return u
}

// count reads a count. What is no number, or cannot be a count, counts nothing.
func count(value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f, _ := strconv.ParseFloat(string(value), 64)
		n = int64(min(max(f, 0), openai.MaxTokens))
	}
	return openai.Count(n)
}
