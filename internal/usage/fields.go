package usage

import (
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// A Kind is a kind of what exchanges use, and the place of its amount in [Counts].
type Kind int

// Kinds, in the order of the ledger's columns. What is written to the ledger, summed up there and told by the API of usage and the
// metrics follows from [Fields]: a new kind is one here, a member of openai.Usage, one of the ledger's records, and a migration.
const (
	InputTokens Kind = iota // CachedTokens, CacheWriteTokens and InputAudioTokens are among them
	CachedTokens
	CacheWriteTokens
	InputAudioTokens
	OutputTokens // ReasoningTokens and OutputAudioTokens are among them
	ReasoningTokens
	OutputAudioTokens
	Images
	Kinds
)

// Counts are amounts by kind.
type Counts [Kinds]int64

// A Field is where the amount of a kind is kept.
type Field struct {
	// Column is its name in the ledger.
	Column string
	// Result is its name in results of OpenAI's API of usage, by resource.
	Result map[string]string
	// Type is its label in metrics of tokens; empty where it is in none.
	Type string

	// Path is where the usage object of an answer has it; empty where it has not.
	Path   string
	Used   func(*Used) *int64
	Record func(*ledgerv1.Record) *int64
}

// Fields are those of all kinds. They must not be modified.
var Fields = [Kinds]Field{
	InputTokens: {
		Column: "input_tokens", Type: "prompt", Path: "prompt_tokens",
		Result: map[string]string{"completions": "input_tokens", "embeddings": "input_tokens", "moderations": "input_tokens"},
		Used:   func(u *Used) *int64 { return &u.PromptTokens }, Record: func(r *ledgerv1.Record) *int64 { return &r.InputTokens },
	},
	CachedTokens: {
		Column: "cached_tokens", Type: "cached", Path: "prompt_tokens_details.cached_tokens", Result: map[string]string{"completions": "input_cached_tokens"},
		Used: func(u *Used) *int64 { return &u.CachedTokens }, Record: func(r *ledgerv1.Record) *int64 { return &r.CachedTokens },
	},
	CacheWriteTokens: {
		Column: "cache_write_tokens", Path: "prompt_tokens_details.cache_write_tokens", Result: map[string]string{"completions": "input_cache_write_tokens"},
		Used: func(u *Used) *int64 { return &u.CacheWriteTokens }, Record: func(r *ledgerv1.Record) *int64 { return &r.CacheWriteTokens },
	},
	InputAudioTokens: {
		Column: "input_audio_tokens", Path: "prompt_tokens_details.audio_tokens", Result: map[string]string{"completions": "input_audio_tokens"},
		Used: func(u *Used) *int64 { return &u.PromptAudio }, Record: func(r *ledgerv1.Record) *int64 { return &r.InputAudioTokens },
	},
	OutputTokens: {
		Column: "output_tokens", Type: "completion", Path: "completion_tokens", Result: map[string]string{"completions": "output_tokens"},
		Used: func(u *Used) *int64 { return &u.CompletionTokens }, Record: func(r *ledgerv1.Record) *int64 { return &r.OutputTokens },
	},
	ReasoningTokens: {
		Column: "reasoning_tokens", Type: "reasoning", Path: "completion_tokens_details.reasoning_tokens",
		Used: func(u *Used) *int64 { return &u.ReasoningTokens }, Record: func(r *ledgerv1.Record) *int64 { return &r.ReasoningTokens },
	},
	OutputAudioTokens: {
		Column: "output_audio_tokens", Path: "completion_tokens_details.audio_tokens", Result: map[string]string{"completions": "output_audio_tokens"},
		Used: func(u *Used) *int64 { return &u.CompletionAudio }, Record: func(r *ledgerv1.Record) *int64 { return &r.OutputAudioTokens },
	},
	Images: {
		Column: "images", Result: map[string]string{"images": "images"},
		Used: func(u *Used) *int64 { return &u.Images }, Record: func(r *ledgerv1.Record) *int64 { return &r.Images },
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

// Fill sets in a record what was used.
func (u *Used) Fill(r *ledgerv1.Record) {
	for i := range Fields {
		*Fields[i].Record(r) = *Fields[i].Used(u)
	}
}
