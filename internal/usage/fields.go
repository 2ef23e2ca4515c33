package usage

import (
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// A Kind is a kind of usage, and the index of its amount in [Counts].
type Kind int

// Kinds, in the order of the ledger's columns. The ledger, its aggregates, the usage API and the metrics follow from
// [Fields]. A new kind needs a constant here, a member of openai.Usage, a member of the ledger's record, and a
// migration.
const (
	InputTokens Kind = iota // includes CachedTokens, CacheWriteTokens and InputAudioTokens
	CachedTokens
	CacheWriteTokens
	InputAudioTokens
	OutputTokens // includes ReasoningTokens and OutputAudioTokens
	ReasoningTokens
	OutputAudioTokens
	Images
	Kinds
)

// Counts are amounts by kind.
type Counts [Kinds]int64

// A Field has the names of a kind.
type Field struct {
	// Column is the name in the ledger.
	Column string
	// Result is the name in results of OpenAI's usage API, by resource.
	Result map[string]string
	// Type is the label in metrics of tokens; empty if it has none.
	Type string

	// Path is the path in the usage object of an answer; empty if it has none.
	Path string
}

// Fields are the fields of all kinds. They must not be modified.
var Fields = [Kinds]Field{
	InputTokens: {
		Column: "input_tokens", Type: "prompt", Path: "prompt_tokens",
		Result: map[string]string{"completions": "input_tokens", "embeddings": "input_tokens",
			"moderations": "input_tokens"},
	},
	CachedTokens: {
		Column: "cached_tokens", Type: "cached", Path: "prompt_tokens_details.cached_tokens",
		Result: map[string]string{"completions": "input_cached_tokens"},
	},
	CacheWriteTokens: {
		Column: "cache_write_tokens", Path: "prompt_tokens_details.cache_write_tokens",
		Result: map[string]string{"completions": "input_cache_write_tokens"},
	},
	InputAudioTokens: {
		Column: "input_audio_tokens", Path: "prompt_tokens_details.audio_tokens",
		Result: map[string]string{"completions": "input_audio_tokens"},
	},
	OutputTokens: {
		Column: "output_tokens", Type: "completion", Path: "completion_tokens",
		Result: map[string]string{"completions": "output_tokens"},
	},
	ReasoningTokens: {
		Column: "reasoning_tokens", Type: "reasoning", Path: "completion_tokens_details.reasoning_tokens",
	},
	OutputAudioTokens: {
		Column: "output_audio_tokens", Path: "completion_tokens_details.audio_tokens",
		Result: map[string]string{"completions": "output_audio_tokens"},
	},
	Images: {
		Column: "images", Result: map[string]string{"images": "images"},
	},
}

// Columns returns the names of the ledger's columns, in the order of the kinds.
func Columns() []string {
	names := make([]string, Kinds)
	for i := range Fields {
		names[i] = Fields[i].Column
	}
	return names
}

// Fill copies the usage to a record.
func (u *Used) Fill(r *ledgerv1.Record) {
	for k := range Kinds {
		*k.Of(r) = *u.At(k)
	}
}

// At returns a pointer to the amount of a kind. It is a switch, because functions in a table would move the usage to
// the heap.
func (u *Used) At(k Kind) *int64 {
	switch k {
	case InputTokens:
		return &u.PromptTokens
	case CachedTokens:
		return &u.CachedTokens
	case CacheWriteTokens:
		return &u.CacheWriteTokens
	case InputAudioTokens:
		return &u.PromptAudio
	case OutputTokens:
		return &u.CompletionTokens
	case ReasoningTokens:
		return &u.ReasoningTokens
	case OutputAudioTokens:
		return &u.CompletionAudio
	case Images:
		return &u.Images
	}
	panic("no such kind")
}

// Of returns a pointer to the amount of a kind in a record.
func (k Kind) Of(r *ledgerv1.Record) *int64 {
	switch k {
	case InputTokens:
		return &r.InputTokens
	case CachedTokens:
		return &r.CachedTokens
	case CacheWriteTokens:
		return &r.CacheWriteTokens
	case InputAudioTokens:
		return &r.InputAudioTokens
	case OutputTokens:
		return &r.OutputTokens
	case ReasoningTokens:
		return &r.ReasoningTokens
	case OutputAudioTokens:
		return &r.OutputAudioTokens
	case Images:
		return &r.Images
	}
	panic("no such kind")
}
