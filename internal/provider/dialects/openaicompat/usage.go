package openaicompat

import (
	"bytes"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/reported"
)

// readUsage reads a usage object, which is valid JSON.
func readUsage(data []byte) openai.Usage {
	u := reported.Read(data)
	return u.OpenAI()
}

// appendUsage appends a vendor's usage as OpenAI has it, and what else the vendor says there, such as OpenRouter's
// cost.
func appendUsage(dst, data []byte, u *openai.Usage) []byte {
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

// appendOthers appends the members of an object except the named ones.
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
