package usage

import (
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// A Kind is a kind of usage, and the index of its amount in [Counts].
type Kind int

// Kinds with a column in the ledger, in the order of the columns. The ledger, its aggregates, the usage API, the
// metrics and the cost follow from [Fields]. A part comes after what it is a part of.
const (
	InputTokens Kind = iota
	CachedTokens
	CacheWriteTokens
	InputAudioTokens
	OutputTokens
	ReasoningTokens
	OutputAudioTokens
	Images
	Kinds // the number of kinds with a column
)

// Kinds without a column: only the price depends on them. The ledger keeps them in the details of an exchange.
const (
	HourWriteTokens = Kinds + iota
	InputImageTokens
	OutputImageTokens
	All // the number of all kinds
)

// Counts are amounts by kind, of those with a column.
type Counts [Kinds]int64

// A Field says what a kind is called, and what it costs.
type Field struct {
	// Column is the name in the ledger: of a column, or in the details of an exchange.
	Column string
	// Number tells the kind from others in the ledger's segments. It is never used for another kind.
	Number int
	// Result is the name in results of OpenAI's usage API, by resource.
	Result map[string]string
	// Type is the label in metrics of tokens; empty if it has none.
	Type string
	// Path is the path in the usage object of an answer; empty if it has none.
	Path string

	// Price is the member of a price that has the price of one. If it is empty, a part costs what all costs.
	Price string
	// Part is the name in the lines of a cost.
	Part string
	// Of is the kind that it is a part of, or itself.
	Of Kind
	// Text means that any text may be billed as it.
	Text bool
	// Double means that without a price of its own it costs at least twice as much as other tokens of the prompt, if
	// what it is a part of has one.
	Double bool
}

// Fields are the fields of all kinds. They must not be modified.
var Fields = [All]Field{
	InputTokens: {
		Column: "input_tokens", Number: 1, Type: "prompt", Path: "prompt_tokens",
		Result: map[string]string{"completions": "input_tokens", "embeddings": "input_tokens",
			"moderations": "input_tokens"},
		Price: "input", Part: "input", Of: InputTokens, Text: true,
	},
	CachedTokens: {
		Column: "cached_tokens", Number: 2, Type: "cached", Path: "prompt_tokens_details.cached_tokens",
		Result: map[string]string{"completions": "input_cached_tokens"},
		Price:  "cached_input", Part: "cached input", Of: InputTokens, Text: true,
	},
	CacheWriteTokens: {
		Column: "cache_write_tokens", Number: 3, Path: "prompt_tokens_details.cache_write_tokens",
		Result: map[string]string{"completions": "input_cache_write_tokens"},
		Price:  "cache_write", Part: "cache write", Of: InputTokens, Text: true,
	},
	InputAudioTokens: {
		Column: "input_audio_tokens", Number: 4, Path: "prompt_tokens_details.audio_tokens",
		Result: map[string]string{"completions": "input_audio_tokens"},
		Price:  "input_audio", Part: "input audio", Of: InputTokens,
	},
	OutputTokens: {
		Column: "output_tokens", Number: 5, Type: "completion", Path: "completion_tokens",
		Result: map[string]string{"completions": "output_tokens"},
		Price:  "output", Part: "output", Of: OutputTokens, Text: true,
	},
	ReasoningTokens: {
		Column: "reasoning_tokens", Number: 6, Type: "reasoning", Path: "completion_tokens_details.reasoning_tokens",
		Price: "reasoning", Part: "reasoning", Of: OutputTokens, Text: true,
	},
	OutputAudioTokens: {
		Column: "output_audio_tokens", Number: 7, Path: "completion_tokens_details.audio_tokens",
		Result: map[string]string{"completions": "output_audio_tokens"},
		Price:  "output_audio", Part: "output audio", Of: OutputTokens,
	},
	Images: {
		Column: "images", Number: 8, Result: map[string]string{"images": "images"},
		Part: ImagePart, Of: Images,
	},
	HourWriteTokens: {
		Column: "cache_write_hour_tokens", Number: 9, Path: "prompt_tokens_details.cache_write_hour_tokens",
		Price: "cache_write_hour", Part: "cache write for an hour", Of: CacheWriteTokens, Double: true,
	},
	InputImageTokens: {
		Column: "input_image_tokens", Number: 10, Path: "prompt_tokens_details.image_tokens",
		Price: "input_image", Part: "input images", Of: InputTokens,
	},
	OutputImageTokens: {
		Column: "output_image_tokens", Number: 11, Path: "completion_tokens_details.image_tokens",
		Price: "output_image", Part: "output images", Of: OutputTokens,
	},
}

// billed are the kinds of tokens in the order in which they are paid: a part before what it is a part of.
var billed = [...]Kind{CachedTokens, HourWriteTokens, CacheWriteTokens, InputAudioTokens, InputImageTokens,
	InputTokens, ReasoningTokens, OutputAudioTokens, OutputImageTokens, OutputTokens}

// Columns returns the names of the ledger's columns, in the order of the kinds.
func Columns() []string {
	names := make([]string, Kinds)
	for k := range names {
		names[k] = Fields[k].Column
	}
	return names
}

// Fill copies the usage to a record.
func (u *Used) Fill(r *ledgerv1.Record) {
	for k := range Kinds {
		*k.In(r) = *u.At(k)
	}
}

// Details returns the counts of kinds that have no column, and are not 0.
func (u *Used) Details() (counts []*ledgerv1.Count) {
	for k := Kinds; k < All; k++ {
		if n := *u.At(k); n > 0 {
			counts = append(counts, &ledgerv1.Count{Name: Fields[k].Column, N: n})
		}
	}
	return counts
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
	case HourWriteTokens:
		return &u.HourWriteTokens
	case InputImageTokens:
		return &u.PromptImage
	case OutputImageTokens:
		return &u.CompletionImage
	}
	panic("no such kind")
}

// In returns a pointer to the amount of a kind with a column in a record.
func (k Kind) In(r *ledgerv1.Record) *int64 {
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
