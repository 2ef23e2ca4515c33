package reported

import (
	"cmp"

	"github.com/modelgate/modelgate/api/openai"
)

// A field is a count of a vendor.
type field uint8

const (
	none       field = iota
	prompt           // all of the prompt
	input            // the prompt, with or without what was cached
	part             // cached tokens, which are part of the prompt
	other            // likewise, under a vendor's own name
	read             // cached tokens, which input does not include
	partWrite        // tokens written to a cache, which are part of the prompt
	write            // likewise, which input does not include
	brief            // tokens of the writes that are kept for minutes
	hour             // tokens of the writes that are kept for an hour
	audio            // tokens of sound in the prompt
	heard            // those of them that were cached
	tools            // tokens of the results of the vendor's tools, which prompt does not include
	picture          // tokens of images in the prompt
	viewed           // those of them that were cached
	seen             // tokens of images in the prompt, which are billed, and which prompt does not include
	billedIn         // tokens of the prompt that are billed
	billedSeen       // likewise of images, which billedIn does not include
	completion       // all of the answer
	output           // likewise
	reasoning        // tokens of reasoning
	thoughts         // likewise, which completion does not include
	said             // tokens of sound in the answer
	drawn            // tokens of images in the answer
	billedOut        // tokens of the answer that are billed
	total
	searches // of the web, by the vendor
	requests // likewise, as they are billed, whatever calls the output has
	units    // search units of a rerank
	compute  // compute units
	fields

	// What is no count of its own.
	fetches // the vendor reports what its tools did
	kind    // what an element of a list counts
	tier
	speed
)

const (
	ofPrompt = 1<<prompt | 1<<input | 1<<part | 1<<other | 1<<read | 1<<partWrite | 1<<write | 1<<brief | 1<<hour |
		1<<audio | 1<<heard | 1<<tools | 1<<picture | 1<<viewed | 1<<seen | 1<<billedIn | 1<<billedSeen
	ofAnswer = 1<<completion | 1<<output | 1<<reasoning | 1<<thoughts | 1<<said | 1<<drawn | 1<<billedOut
	ofAll    = ofPrompt | ofAnswer
	writes   = 1<<partWrite | 1<<write
	splits   = 1<<brief | 1<<hour
)

// counted returns the counts that need nothing but their fields.
func (u *Usage) counted() openai.Usage {
	return openai.Usage{
		CompletionTokens: u.n[completion] + u.n[thoughts], ReasoningTokens: max(u.n[reasoning], u.n[thoughts]),
		CompletionAudio: u.n[said], PromptAudio: max(0, u.n[audio]-u.n[heard]), TotalTokens: u.n[total],
		CompletionImage:  u.n[drawn],
		PromptImage:      max(0, u.n[picture]-u.n[viewed]) + cmp.Or(u.n[billedSeen], u.n[seen]),
		CachedTokens:     max(u.n[part], u.n[other], u.n[read]),
		CacheWriteTokens: max(u.n[partWrite], u.n[write], u.n[brief]+u.n[hour]),
		HourWriteTokens:  u.n[hour], WritesSplit: u.n[brief]+u.n[hour] > 0,
		Searches: u.n[searches], Units: u.n[units], ComputeUnits: u.n[compute],
	}
}

// forms is the table of members, by their paths within an object of usage. Elements of a list have the path of the
// list. Elements of "iterations" are usages of their own.
var forms = map[string]field{
	// OpenAI's chat completions and embeddings, and its other vendors'
	"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total,
	"prompt_tokens_details.cached_tokens":                                          part,
	"prompt_tokens_details.cache_write_tokens":                                     partWrite,
	"prompt_tokens_details.cache_creation_tokens":                                  partWrite,
	"prompt_tokens_details.cache_creation_input_tokens":                            partWrite,
	"prompt_tokens_details.cache_creation_token_details.ephemeral_5m_input_tokens": brief,
	"prompt_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens": hour,
	"prompt_tokens_details.cache_write_hour_tokens":                                hour, // this gateway's
	"prompt_tokens_details.audio_tokens":                                           audio,
	"completion_tokens_details.reasoning_tokens":                                   reasoning,
	"completion_tokens_details.audio_tokens":                                       said,
	"prompt_tokens_details.image_tokens":                                           picture,
	"completion_tokens_details.image_tokens":                                       drawn,
	"cache_write_tokens":                                                           partWrite,
	"cache_creation_tokens":                                                        partWrite,
	"prompt_cache_hit_tokens":                                                      other, // DeepSeek
	"cached_tokens":                                                                other, // Moonshot, Cohere
	"num_cached_tokens":                                                            other, // Mistral
	"prompt_token_details.cached_tokens":                                           part,
	"prompt_token_details.audio_tokens":                                            audio,
	"reasoning_tokens":                                                             reasoning, // Perplexity
	"compute_units":                                                                compute,

	// OpenAI's responses, images, transcriptions and sessions
	"input_tokens": input, "output_tokens": output,
	"input_tokens_details.cached_tokens":                                          part,
	"input_tokens_details.cache_write_tokens":                                     partWrite,
	"input_tokens_details.cache_creation_tokens":                                  partWrite,
	"input_tokens_details.cache_creation_input_tokens":                            partWrite,
	"input_tokens_details.cache_creation_token_details.ephemeral_5m_input_tokens": brief,
	"input_tokens_details.cache_creation_token_details.ephemeral_1h_input_tokens": hour,
	"input_tokens_details.cache_write_hour_tokens":                                hour,
	"input_tokens_details.audio_tokens":                                           audio,
	"input_token_details.cached_tokens":                                           part,
	"input_token_details.cache_write_tokens":                                      partWrite,
	"input_token_details.audio_tokens":                                            audio,
	"input_token_details.cached_tokens_details.audio_tokens":                      heard,
	"output_tokens_details.reasoning_tokens":                                      reasoning,
	"output_tokens_details.audio_tokens":                                          said,
	"input_tokens_details.image_tokens":                                           picture,
	"output_tokens_details.image_tokens":                                          drawn,
	"input_token_details.image_tokens":                                            picture,
	"input_token_details.cached_tokens_details.image_tokens":                      viewed,
	"input_tokens_details.cached_tokens_details.image_tokens":                     viewed,
	"output_token_details.image_tokens":                                           drawn,
	"output_token_details.reasoning_tokens":                                       reasoning,
	"output_token_details.audio_tokens":                                           said,
	"web_search.num_requests":                                                     requests, // tool_usage

	// Anthropic's Messages
	"cache_read_input_tokens":                     read,
	"cache_creation_input_tokens":                 write,
	"cache_creation.ephemeral_5m_input_tokens":    brief,
	"cache_creation.ephemeral_1h_input_tokens":    hour,
	"output_tokens_details.thinking_tokens":       reasoning,
	"server_tool_use.web_search_requests":         searches,
	"server_tool_use.web_fetch_requests":          fetches,
	"server_tool_use_details.web_search_requests": searches, // OpenRouter
	"service_tier": tier,
	"speed":        speed,

	// Gemini
	"promptTokenCount": prompt, "candidatesTokenCount": completion, "totalTokenCount": total,
	"responseTokenCount": completion, "toolUsePromptTokenCount": tools, "thoughtsTokenCount": thoughts,
	"cachedContentTokenCount":      part,
	"promptTokensDetails.modality": kind, "promptTokensDetails.tokenCount": audio,
	"toolUsePromptTokensDetails.modality": kind, "toolUsePromptTokensDetails.tokenCount": audio,
	"candidatesTokensDetails.modality": kind, "candidatesTokensDetails.tokenCount": said,
	"responseTokensDetails.modality": kind, "responseTokensDetails.tokenCount": said,
	"cacheTokensDetails.modality": kind, "cacheTokensDetails.tokenCount": heard,
	"promptTokenDetails.modality": kind, "promptTokenDetails.tokenCount": audio,
	"serviceTier": tier, "trafficType": tier,

	// Gemini's interactions, also Vertex AI's
	"total_input_tokens": prompt, "total_output_tokens": completion, "total_thought_tokens": thoughts,
	"total_cached_tokens": part, "total_tool_use_tokens": tools,
	"input_tokens_by_modality.modality": kind, "input_tokens_by_modality.tokens": audio,
	"cached_tokens_by_modality.modality": kind, "cached_tokens_by_modality.tokens": heard,
	"output_tokens_by_modality.modality": kind, "output_tokens_by_modality.tokens": said,
	"tool_use_tokens_by_modality.modality": kind, "tool_use_tokens_by_modality.tokens": audio,
	"totalInputTokens": prompt, "totalOutputTokens": completion, "totalThoughtTokens": thoughts,
	"totalCachedTokens": part, "totalToolUseTokens": tools,
	"inputTokensByModality.modality": kind, "inputTokensByModality.tokens": audio,
	"cachedTokensByModality.modality": kind, "cachedTokensByModality.tokens": heard,
	"outputTokensByModality.modality": kind, "outputTokensByModality.tokens": said,
	"toolUseTokensByModality.modality": kind, "toolUseTokensByModality.tokens": audio,

	// Bedrock
	"inputTokens": input, "outputTokens": output, "totalTokens": total,
	"cacheReadInputTokens": read, "cacheReadInputTokenCount": read,
	"cacheWriteInputTokens": write, "cacheWriteInputTokenCount": write,
	"cacheDetails.ttl": kind, "cacheDetails.inputTokens": hour,
	"inputTokenCount": input, "outputTokenCount": output, "inputTextTokenCount": input,

	// Cohere
	"tokens.input_tokens": prompt, "tokens.output_tokens": completion, "tokens.reasoning_tokens": reasoning,
	"tokens.image_tokens":       seen,
	"billed_units.input_tokens": billedIn, "billed_units.output_tokens": billedOut,
	"billed_units.search_units": units,
	"billed_units.image_tokens": billedSeen,
}

// lists are the members whose elements count a kind each.
var lists = map[string]bool{"promptTokensDetails": true, "toolUsePromptTokensDetails": true,
	"candidatesTokensDetails": true, "responseTokensDetails": true, "cacheDetails": true, "cacheTokensDetails": true,
	"promptTokenDetails": true, "input_tokens_by_modality": true, "cached_tokens_by_modality": true,
	"output_tokens_by_modality": true, "tool_use_tokens_by_modality": true, "inputTokensByModality": true,
	"cachedTokensByModality": true, "outputTokensByModality": true, "toolUseTokensByModality": true}

// images are the counts of images, by the counts of sound in the same list.
var images = map[field]field{audio: picture, heard: viewed, said: drawn}

// iterations are the requests that an answer has taken, such as compactions. The counts beside them are the last
// one's.
const iterations = "iterations"

// inclusive are the beginnings of members that only vendors have whose input includes what was cached.
var inclusive = [...]string{"input_tokens_details.", "input_token_details."}

// tiers are OpenAI's names of service tiers.
var tiers = map[string]string{"standard": "default", "standard_only": "default", "ON_DEMAND": "",
	"ON_DEMAND_FLEX": "flex", "ON_DEMAND_PRIORITY": "priority", "PROVISIONED_THROUGHPUT": "", "batch": "",
	"TRAFFIC_TYPE_UNSPECIFIED": ""}

// IsUsual reports whether a service tier or a speed is the one that a request gets without asking, by any vendor's
// name. It has the model's own price.
func IsUsual(name string) bool {
	switch name {
	case "", "auto", "default", "standard", "standard_only", "on_demand", "normal", "global", "none":
		return true
	}
	return false
}
