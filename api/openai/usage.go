package openai

import "strconv"

// A Usage counts the tokens of one answer as OpenAI does: PromptTokens includes cached ones, CompletionTokens includes
// reasoning.
type Usage struct {
	PromptTokens     int64
	CompletionTokens int64
	TotalTokens      int64

	CachedTokens     int64 // of PromptTokens, read from a cache
	CacheWriteTokens int64 // of PromptTokens, written to a cache
	HourWriteTokens  int64 // of CacheWriteTokens, to be kept for an hour
	PromptAudio      int64
	ReasoningTokens  int64 // of CompletionTokens
	CompletionAudio  int64

	WritesSplit bool // the vendor tells how long what was written is kept: HourWriteTokens is known

	Searches     int64 // of the web, that the vendor ran
	SearchesTold bool  // the vendor tells how many: also 0 is known
}

// MaxTokens is the most that a count of a provider is believed, so that sums cannot overflow.
const MaxTokens = 1 << 40

// Count returns n where it can be a number of tokens, and otherwise the nearest that can. Every count that a provider
// reports goes through it.
func Count(n int64) int64 { return min(max(n, 0), MaxTokens) }

// IsZero reports whether nothing was counted, which is what a provider that reports no usage leaves behind.
func (u Usage) IsZero() bool { return u == Usage{} }

// AppendJSON appends the usage object to dst.
func (u Usage) AppendJSON(dst []byte) []byte {
	total := u.TotalTokens
	if total == 0 {
		total = u.PromptTokens + u.CompletionTokens
	}
	dst = appendInt(dst, `{"prompt_tokens":`, u.PromptTokens)
	dst = appendInt(dst, `,"completion_tokens":`, u.CompletionTokens)
	dst = appendInt(dst, `,"total_tokens":`, total)
	dst = appendInt(dst, `,"prompt_tokens_details":{"cached_tokens":`, u.CachedTokens)
	dst = appendInt(dst, `,"audio_tokens":`, u.PromptAudio)
	if u.CacheWriteTokens > 0 {
		dst = appendInt(dst, `,"cache_write_tokens":`, u.CacheWriteTokens)
	}
	if u.HourWriteTokens > 0 {
		dst = appendInt(dst, `,"cache_write_hour_tokens":`, u.HourWriteTokens)
	}
	dst = appendInt(dst, `},"completion_tokens_details":{"reasoning_tokens":`, u.ReasoningTokens)
	dst = appendInt(dst, `,"audio_tokens":`, u.CompletionAudio)
	return append(dst, `,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

func appendInt(dst []byte, prefix string, n int64) []byte {
	return strconv.AppendInt(append(dst, prefix...), n, 10)
}
