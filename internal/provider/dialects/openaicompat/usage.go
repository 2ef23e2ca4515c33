package openaicompat

import (
	"bytes"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
)

// readUsage reads a usage object, which is valid JSON. Members that are null or absent count nothing, and some vendors
// send counts with a decimal point. Vendors have places of their own for cached tokens (DeepSeek's
// prompt_cache_hit_tokens, Moonshot's cached_tokens), those written to a cache (Anthropic's, which proxies keep), and
// reasoning tokens (Perplexity).
func readUsage(data []byte) openai.Usage {
	var u openai.Usage
	var cached, reasoning int64
	eachMember(data, func(name, value []byte) {
		switch string(name) {
		case "prompt_tokens":
			u.PromptTokens = tokens(value)
		case "completion_tokens":
			u.CompletionTokens = tokens(value)
		case "total_tokens":
			u.TotalTokens = tokens(value)
		case "prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", "cache_read_input_tokens":
			cached = max(cached, tokens(value))
		case "cache_creation_input_tokens":
			u.CacheWriteTokens = max(u.CacheWriteTokens, tokens(value))
		case "cache_creation":
			readWritten(&u, value)
		case "reasoning_tokens":
			reasoning = tokens(value)
		case "server_tool_use": // OpenRouter's
			eachMember(value, func(name, value []byte) {
				if string(name) == "web_search_requests" {
					u.Searches, u.SearchesKnown = tokens(value), tokens(value) > 0
				}
			})
		case "prompt_tokens_details":
			readPromptDetails(&u, value)
		case "completion_tokens_details":
			readCompletionDetails(&u, value)
		}
	})
	if u.CachedTokens == 0 {
		u.CachedTokens = cached
	}
	if u.ReasoningTokens == 0 {
		u.ReasoningTokens = reasoning
	}
	// xAI counts the reasoning apart: only the total includes it.
	if u.ReasoningTokens > 0 && u.TotalTokens == u.PromptTokens+u.CompletionTokens+u.ReasoningTokens {
		u.CompletionTokens += u.ReasoningTokens
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	}
	return u
}

func readPromptDetails(u *openai.Usage, details []byte) {
	eachMember(details, func(name, value []byte) {
		switch string(name) {
		case "cached_tokens":
			u.CachedTokens = tokens(value)
		case "cache_write_tokens", "cache_creation_input_tokens", "cache_creation_tokens":
			u.CacheWriteTokens = max(u.CacheWriteTokens, tokens(value))
		case "cache_creation_token_details":
			readWritten(u, value)
		case "audio_tokens":
			u.PromptAudio = tokens(value)
		}
	})
}

// readWritten reads how long what was written to a cache is kept.
func readWritten(u *openai.Usage, details []byte) {
	eachMember(details, func(name, value []byte) {
		switch n := tokens(value); string(name) {
		case "ephemeral_1h_input_tokens":
			u.HourWriteTokens, u.WritesSplit = n, u.WritesSplit || n > 0
		case "ephemeral_5m_input_tokens":
			u.WritesSplit = u.WritesSplit || n > 0
		}
	})
}

func readCompletionDetails(u *openai.Usage, details []byte) {
	eachMember(details, func(name, value []byte) {
		switch string(name) {
		case "reasoning_tokens":
			u.ReasoningTokens = tokens(value)
		case "audio_tokens":
			u.CompletionAudio = tokens(value)
		}
	})
}

// appendUsage appends a vendor's usage as OpenAI has it, and what else the vendor says there, such as OpenRouter's
// cost.
func appendUsage(dst, data []byte) []byte {
	u := readUsage(data)
	var prompt, completion []byte
	eachMember(data, func(name, value []byte) {
		switch string(name) {
		case "prompt_tokens_details":
			prompt = value
		case "completion_tokens_details":
			completion = value
		}
	})
	dst = appendCount(append(dst, '{'), `"prompt_tokens":`, u.PromptTokens)
	dst = appendCount(dst, `,"completion_tokens":`, u.CompletionTokens)
	dst = appendCount(dst, `,"total_tokens":`, u.TotalTokens)
	dst = appendCount(dst, `,"prompt_tokens_details":{"cached_tokens":`, u.CachedTokens)
	dst = appendCount(dst, `,"audio_tokens":`, u.PromptAudio)
	if u.CacheWriteTokens > 0 && !bytes.Contains(prompt, []byte(`"cache_write_tokens"`)) {
		dst = appendCount(dst, `,"cache_write_tokens":`, u.CacheWriteTokens)
	}
	dst = appendOthers(dst, prompt, "cached_tokens", "audio_tokens")
	dst = appendCount(dst, `},"completion_tokens_details":{"reasoning_tokens":`, u.ReasoningTokens)
	dst = appendCount(dst, `,"audio_tokens":`, u.CompletionAudio)
	dst = appendOthers(dst, completion, "reasoning_tokens", "audio_tokens")
	dst = append(dst, '}')
	dst = appendOthers(dst, data, "prompt_tokens", "completion_tokens", "total_tokens", "prompt_tokens_details",
		"completion_tokens_details")
	return append(dst, '}')
}

// appendOthers appends the members of an object but for those that are named.
func appendOthers(dst, object []byte, but ...string) []byte {
	eachMember(object, func(name, value []byte) {
		for _, b := range but {
			if string(name) == b {
				return
			}
		}
		dst = appendMember(dst, name, value)
	})
	return dst
}

// appendMember appends a member behind another.
func appendMember(dst, name, value []byte) []byte {
	dst = append(append(dst, `,"`...), name...)
	return append(append(dst, `":`...), value...)
}

func appendCount(dst []byte, prefix string, n int64) []byte {
	return strconv.AppendInt(append(dst, prefix...), n, 10)
}

// tokens reads a count. What is no number, or cannot be a count, counts nothing.
func tokens(value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f, _ := strconv.ParseFloat(string(value), 64)
		n = int64(min(max(f, 0), openai.MaxTokens))
	}
	return openai.Count(n)
}
