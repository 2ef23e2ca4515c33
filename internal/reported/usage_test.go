package reported_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/reported"
)

// forms are the forms in which vendors report usage. Several objects are reports of one answer, one after the other.
var forms = []struct {
	name, usage string
	want        openai.Usage
}{
	{"nothing", `null`, openai.Usage{}},
	{"an empty object", `{}`, openai.Usage{}},
	{"by time", `{"type":"duration","seconds":9}`, openai.Usage{}},

	{"chat completions", `{"prompt_tokens":9080,"completion_tokens":10,"total_tokens":9090,
		"prompt_tokens_details":{"cached_tokens":2,"cache_write_tokens":9077,"audio_tokens":1},
		"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":3}}`,
		openai.Usage{PromptTokens: 9080, CompletionTokens: 10, TotalTokens: 9090, CachedTokens: 2, CacheWriteTokens: 9077,
			PromptAudio: 1, ReasoningTokens: 4, CompletionAudio: 3}},
	{"without a sum", `{"prompt_tokens":3,"completion_tokens":4}`,
		openai.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}},
	{"null members", `{"prompt_tokens":3,"completion_tokens":null,"prompt_tokens_details":null,"total_tokens":3}`,
		openai.Usage{PromptTokens: 3, TotalTokens: 3}},
	{"fractions and strings", `{"prompt_tokens":3.0,"completion_tokens":"4","total_tokens":7e0}`,
		openai.Usage{PromptTokens: 3, CompletionTokens: 4, TotalTokens: 7}},
	{"negative and huge", `{"prompt_tokens":-3,"completion_tokens":1e300,"total_tokens":99999999999999999999}`,
		openai.Usage{CompletionTokens: openai.MaxTokens, TotalTokens: openai.MaxTokens}},
	{"out of range", `{"prompt_tokens":99999999999999999999,"completion_tokens":-1e400,"total_tokens":[1]}`,
		openai.Usage{PromptTokens: openai.MaxTokens, TotalTokens: openai.MaxTokens}},
	{"embeddings", `{"prompt_tokens":5,"total_tokens":5}`, openai.Usage{PromptTokens: 5, TotalTokens: 5}},
	{"embeddings with a sum alone", `{"total_tokens":5}`, openai.Usage{PromptTokens: 5, TotalTokens: 5}},
	{"DeepSeek", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"prompt_cache_hit_tokens":6,
		"prompt_cache_miss_tokens":3}`,
		openai.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10, CachedTokens: 6}},
	{"Moonshot", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"cached_tokens":6}`,
		openai.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10, CachedTokens: 6}},
	{"Mistral", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10,"num_cached_tokens":5,
		"prompt_token_details":{"cached_tokens":6},"prompt_audio_seconds":null}`,
		openai.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10, CachedTokens: 6}},
	{"xAI, with reasoning apart", `{"prompt_tokens":506,"completion_tokens":12,"total_tokens":556,
		"completion_tokens_details":{"reasoning_tokens":38}}`,
		openai.Usage{PromptTokens: 506, CompletionTokens: 50, TotalTokens: 556, ReasoningTokens: 38}},
	{"more reasoning than completion", `{"prompt_tokens":5,"completion_tokens":12,
		"completion_tokens_details":{"reasoning_tokens":38}}`,
		openai.Usage{PromptTokens: 5, CompletionTokens: 50, TotalTokens: 55, ReasoningTokens: 38}},
	{"Perplexity", `{"prompt_tokens":5,"completion_tokens":50,"total_tokens":55,"reasoning_tokens":38,"citation_tokens":9,
		"cost":{"total_cost":1}}`,
		openai.Usage{PromptTokens: 5, CompletionTokens: 50, TotalTokens: 55, ReasoningTokens: 38}},
	{"OpenRouter", `{"prompt_tokens":5,"completion_tokens":50,"total_tokens":55,"server_tool_use":
		{"web_search_requests":2},"cost":0.1,"cost_details":{"prompt_tokens":99}}`,
		openai.Usage{PromptTokens: 5, CompletionTokens: 50, TotalTokens: 55, Searches: 2, SearchesKnown: true}},
	{"OpenRouter, by another name", `{"prompt_tokens":5,"completion_tokens":50,"total_tokens":55,
		"server_tool_use_details":{"web_search_requests":1,"tool_calls_requested":1,"tool_calls_executed":1}}`,
		openai.Usage{PromptTokens: 5, CompletionTokens: 50, TotalTokens: 55, Searches: 1, SearchesKnown: true}},
	{"compute units", `{"prompt_tokens":5,"completion_tokens":50,"total_tokens":55,"compute_units":7}`,
		openai.Usage{PromptTokens: 5, CompletionTokens: 50, TotalTokens: 55, ComputeUnits: 7}},

	{"a proxy with counts of OpenAI and Anthropic", `{"prompt_tokens":1000,"completion_tokens":500,"total_tokens":1500,
		"cache_read_input_tokens":900,"cache_creation_input_tokens":0,"prompt_tokens_details":{"cached_tokens":900}}`,
		openai.Usage{PromptTokens: 1000, CompletionTokens: 500, TotalTokens: 1500, CachedTokens: 900}},
	{"likewise, with what was written", `{"prompt_tokens":1000,"completion_tokens":500,"cache_creation_input_tokens":800,
		"cache_creation":{"ephemeral_1h_input_tokens":700,"ephemeral_5m_input_tokens":100}}`,
		openai.Usage{PromptTokens: 1000, CompletionTokens: 500, TotalTokens: 1500, CacheWriteTokens: 800,
			HourWriteTokens: 700, WritesSplit: true}},
	{"likewise, of responses", `{"input_tokens":1000,"output_tokens":500,"cache_read_input_tokens":900,
		"input_tokens_details":{"cached_tokens":900}}`,
		openai.Usage{PromptTokens: 1000, CompletionTokens: 500, TotalTokens: 1500, CachedTokens: 900}},
	{"both names of each", `{"input_tokens":100,"prompt_tokens":1000,"output_tokens":500,"completion_tokens":500,
		"cache_read_input_tokens":900}`,
		openai.Usage{PromptTokens: 1000, CompletionTokens: 500, TotalTokens: 1500, CachedTokens: 900}},
	{"one of the names is 0", `{"input_tokens":100,"prompt_tokens":0,"output_tokens":500,"completion_tokens":0}`,
		openai.Usage{PromptTokens: 100, CompletionTokens: 500, TotalTokens: 600}},
	{"parts that the whole lacks", `{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":900}`,
		openai.Usage{PromptTokens: 1000, CompletionTokens: 5, TotalTokens: 1005, CachedTokens: 900}},

	{"responses", `{"input_tokens":9080,"output_tokens":10,"total_tokens":9090,"input_tokens_details":{"cached_tokens":1,
		"cache_write_tokens":9077},"output_tokens_details":{"reasoning_tokens":3}}`,
		openai.Usage{PromptTokens: 9080, CompletionTokens: 10, TotalTokens: 9090, CachedTokens: 1, CacheWriteTokens: 9077,
			ReasoningTokens: 3}},
	{"responses and their tools", `{"image_gen":{"input_tokens":0,"output_tokens":0,"total_tokens":0},"web_search":
		{"num_requests":1}}{"input_tokens":9,"output_tokens":1,"total_tokens":10}`,
		openai.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10, Searches: 1, SearchesKnown: true,
			SearchesBilled: true}},
	{"tools that were not run", `{"web_search":{"num_requests":0}}{"input_tokens":9,"output_tokens":1}`,
		openai.Usage{PromptTokens: 9, CompletionTokens: 1, TotalTokens: 10, SearchesKnown: true, SearchesBilled: true}},
	{"images", `{"input_tokens":50,"output_tokens":50,"total_tokens":100,"input_tokens_details":{"text_tokens":10,
		"image_tokens":40},"output_tokens_details":{"text_tokens":1,"image_tokens":49}}`,
		openai.Usage{PromptTokens: 50, CompletionTokens: 50, TotalTokens: 100, PromptImage: 40, CompletionImage: 49}},
	{"images in chat completions", `{"prompt_tokens":50,"completion_tokens":60,"prompt_tokens_details":{"text_tokens":10,
		"image_tokens":40},"completion_tokens_details":{"image_tokens":55}}`,
		openai.Usage{PromptTokens: 50, CompletionTokens: 60, TotalTokens: 110, PromptImage: 40, CompletionImage: 55}},
	{"a session that sees", `{"total_tokens":30,"input_tokens":20,"output_tokens":10,"input_token_details":
		{"cached_tokens":8,"image_tokens":12,"cached_tokens_details":{"image_tokens":7}}}`,
		openai.Usage{PromptTokens: 20, CompletionTokens: 10, TotalTokens: 30, CachedTokens: 8, PromptImage: 5}},
	{"a transcription", `{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},
		"output_tokens":4,"total_tokens":18}`,
		openai.Usage{PromptTokens: 14, CompletionTokens: 4, TotalTokens: 18, PromptAudio: 14}},
	{"a session", `{"total_tokens":30,"input_tokens":20,"output_tokens":10,"input_token_details":{"cached_tokens":8,
		"audio_tokens":12,"cached_tokens_details":{"text_tokens":1,"audio_tokens":7}},"output_token_details":
		{"text_tokens":1,"audio_tokens":9}}`,
		openai.Usage{PromptTokens: 20, CompletionTokens: 10, TotalTokens: 30, CachedTokens: 8, PromptAudio: 5,
			CompletionAudio: 9}},

	{"Messages", `{"input_tokens":10,"cache_creation_input_tokens":300,"cache_read_input_tokens":2000,"cache_creation":
		{"ephemeral_5m_input_tokens":100,"ephemeral_1h_input_tokens":200},"output_tokens":50,"output_tokens_details":
		{"thinking_tokens":20},"server_tool_use":{"web_search_requests":0},"service_tier":"standard","speed":"fast"}`,
		openai.Usage{PromptTokens: 2310, CompletionTokens: 50, TotalTokens: 2360, CachedTokens: 2000, CacheWriteTokens: 300,
			HourWriteTokens: 200, WritesSplit: true, ReasoningTokens: 20, SearchesKnown: true, Speed: "fast"}},
	{"Messages, all from the cache", `{"input_tokens":0,"cache_read_input_tokens":2000,"output_tokens":5}`,
		openai.Usage{PromptTokens: 2000, CompletionTokens: 5, TotalTokens: 2005, CachedTokens: 2000}},
	{"compaction", `{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,
		"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}`,
		openai.Usage{PromptTokens: 203000, CompletionTokens: 4500, TotalTokens: 207500, LongestPrompt: 180000}},
	{"compaction with caches", `{"iterations":[{"input_tokens":10,"output_tokens":30,"cache_read_input_tokens":100,
		"cache_creation_input_tokens":50,"cache_creation":{"ephemeral_1h_input_tokens":50,"ephemeral_5m_input_tokens":0}},
		{"input_tokens":5,"output_tokens":1,"cache_read_input_tokens":7}],"input_tokens":5,"output_tokens":1,
		"cache_read_input_tokens":7}`,
		openai.Usage{PromptTokens: 172, CompletionTokens: 31, TotalTokens: 203, CachedTokens: 107, CacheWriteTokens: 50,
			HourWriteTokens: 50, WritesSplit: true, LongestPrompt: 160}},
	{"one iteration", `{"input_tokens":5,"output_tokens":1,"cache_read_input_tokens":7,"iterations":[{"input_tokens":5,
		"output_tokens":1,"cache_read_input_tokens":7}]}`,
		openai.Usage{PromptTokens: 12, CompletionTokens: 1, TotalTokens: 13, CachedTokens: 7}},
	{"a fallback", `{"input_tokens":412,"output_tokens":264,"iterations":[{"type":"message","model":"a",
		"input_tokens":408,"output_tokens":0},{"type":"fallback_message","model":"b","input_tokens":412,
		"output_tokens":264}]}`, openai.Usage{PromptTokens: 412, CompletionTokens: 264, TotalTokens: 676,
		ByModel: &openai.ModelUsage{Model: "b", Usage: openai.Usage{PromptTokens: 412, CompletionTokens: 264,
			TotalTokens: 676, LongestPrompt: 412}}}},
	{"an advisor", `{"input_tokens":10,"output_tokens":20,"iterations":[{"type":"message","input_tokens":4,
		"output_tokens":8},{"type":"advisor_message","model":"advisor","input_tokens":100,"output_tokens":50},
		{"type":"message","input_tokens":6,"output_tokens":12}]}`, openai.Usage{PromptTokens: 110, CompletionTokens: 70,
		TotalTokens: 180, LongestPrompt: 100, ByModel: &openai.ModelUsage{Usage: openai.Usage{PromptTokens: 10,
			CompletionTokens: 20, TotalTokens: 30, LongestPrompt: 6}, Next: &openai.ModelUsage{Model: "advisor",
			Usage: openai.Usage{PromptTokens: 100, CompletionTokens: 50, TotalTokens: 150, LongestPrompt: 100}}}}},
	{"no iterations", `{"input_tokens":5,"output_tokens":1,"iterations":null}`,
		openai.Usage{PromptTokens: 5, CompletionTokens: 1, TotalTokens: 6}},
	{"many iterations", `{"input_tokens":1,"output_tokens":1,"iterations":[` +
		strings.Repeat(`{"type":"compaction","input_tokens":2,"output_tokens":3},`, 9999) +
		`{"type":"message","input_tokens":1,"output_tokens":1}]}`,
		openai.Usage{PromptTokens: 19999, CompletionTokens: 29998, TotalTokens: 49997, LongestPrompt: 2}},

	{"a stream of Messages", `{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":1}{"output_tokens":40}`,
		openai.Usage{PromptTokens: 15, CompletionTokens: 40, TotalTokens: 55, CachedTokens: 5}},
	{"counts of the end replace those of the start", `{"input_tokens":10,"cache_creation_input_tokens":35203,
		"cache_read_input_tokens":0,"output_tokens":1}{"input_tokens":10,"cache_creation_input_tokens":0,
		"cache_read_input_tokens":35203,"output_tokens":4}`,
		openai.Usage{PromptTokens: 35213, CompletionTokens: 4, TotalTokens: 35217, CachedTokens: 35203}},
	{"likewise, without the rest", `{"input_tokens":10,"cache_creation_input_tokens":35203,"cache_creation":
		{"ephemeral_1h_input_tokens":35203},"output_tokens":1}{"cache_creation_input_tokens":0,
		"cache_read_input_tokens":35203,"output_tokens":4}`,
		openai.Usage{PromptTokens: 35213, CompletionTokens: 4, TotalTokens: 35217, CachedTokens: 35203}},
	{"an end that has only zeros", `{"input_tokens":10,"cache_read_input_tokens":5,"output_tokens":1}{"input_tokens":0,
		"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":4}`,
		openai.Usage{PromptTokens: 15, CompletionTokens: 4, TotalTokens: 19, CachedTokens: 5}},
	{"an end in which the prompt has grown", `{"input_tokens":3,"cache_read_input_tokens":1000,
		"cache_creation_input_tokens":20,"output_tokens":1}{"input_tokens":900,"output_tokens":50}`,
		openai.Usage{PromptTokens: 1920, CompletionTokens: 50, TotalTokens: 1970, CachedTokens: 1000, CacheWriteTokens: 20}},
	{"an end that tells how long is cached", `{"input_tokens":3,"cache_creation_input_tokens":20,"output_tokens":1}
		{"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":15},"output_tokens":9}`,
		openai.Usage{PromptTokens: 23, CompletionTokens: 9, TotalTokens: 32, CacheWriteTokens: 20, HourWriteTokens: 15,
			WritesSplit: true}},
	{"a start that has only zeros", `{"input_tokens":0,"output_tokens":0}{"input_tokens":10,"output_tokens":4}`,
		openai.Usage{PromptTokens: 10, CompletionTokens: 4, TotalTokens: 14}},
	{"counts that grow", `{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}{"prompt_tokens":9,
		"completion_tokens":7,"total_tokens":16}`, openai.Usage{PromptTokens: 9, CompletionTokens: 7, TotalTokens: 16}},

	{"Gemini", `{"promptTokenCount":100,"toolUsePromptTokenCount":20,"candidatesTokenCount":30,"thoughtsTokenCount":40,
		"cachedContentTokenCount":50,"totalTokenCount":190,"promptTokensDetails":[{"modality":"TEXT","tokenCount":60},
		{"tokenCount":25,"modality":"AUDIO"},{"modality":"AUDIO","tokenCount":15}],"candidatesTokensDetails":
		[{"modality":"AUDIO","tokenCount":5}],"trafficType":"ON_DEMAND_PRIORITY"}`,
		openai.Usage{PromptTokens: 120, CompletionTokens: 70, TotalTokens: 190, CachedTokens: 50, ReasoningTokens: 40,
			PromptAudio: 40, CompletionAudio: 5}},
	{"Gemini, with sound in its cache", `{"promptTokenCount":1500,"candidatesTokenCount":30,"cachedContentTokenCount":900,
		"totalTokenCount":1530,"promptTokensDetails":[{"modality":"TEXT","tokenCount":500},{"modality":"AUDIO","tokenCount":
		1000}],"cacheTokensDetails":[{"modality":"AUDIO","tokenCount":900}]}`,
		openai.Usage{PromptTokens: 1500, CompletionTokens: 30, TotalTokens: 1530, CachedTokens: 900, PromptAudio: 100}},
	{"Gemini, with images", `{"promptTokenCount":300,"candidatesTokenCount":1300,"totalTokenCount":1600,
		"cachedContentTokenCount":8,"promptTokensDetails":[{"modality":"TEXT","tokenCount":42},{"modality":"IMAGE",
		"tokenCount":258}],"cacheTokensDetails":[{"modality":"IMAGE","tokenCount":8}],"candidatesTokensDetails":
		[{"modality":"IMAGE","tokenCount":1290},{"modality":"VIDEO","tokenCount":3}]}`,
		openai.Usage{PromptTokens: 300, CompletionTokens: 1300, TotalTokens: 1600, CachedTokens: 8, PromptImage: 250,
			CompletionImage: 1290}},
	{"interactions", `{"total_tokens":55,"total_input_tokens":7,"input_tokens_by_modality":[{"modality":"text","tokens":3},
		{"modality":"audio","tokens":4}],"total_cached_tokens":2,"total_output_tokens":20,"total_thought_tokens":22,
		"total_tool_use_tokens":6}`,
		openai.Usage{PromptTokens: 13, CompletionTokens: 42, TotalTokens: 55, CachedTokens: 2, ReasoningTokens: 22,
			PromptAudio: 4}},
	{"interactions of Vertex AI", `{"totalTokens":55,"totalInputTokens":7,"totalOutputTokens":20,"totalThoughtTokens":22,
		"totalToolUseTokens":6,"outputTokensByModality":[{"modality":"AUDIO","tokens":5}]}`,
		openai.Usage{PromptTokens: 13, CompletionTokens: 42, TotalTokens: 55, ReasoningTokens: 22, CompletionAudio: 5}},
	{"a stream of Gemini, whose last count is smaller", `{"promptTokenCount":9,"candidatesTokenCount":21,
		"totalTokenCount":65,"thoughtsTokenCount":35}{"promptTokenCount":87,"totalTokenCount":165,"thoughtsTokenCount":78}`,
		openai.Usage{PromptTokens: 87, CompletionTokens: 78, TotalTokens: 165, ReasoningTokens: 78}},
	{"more reasoning than completion, which the sum lacks", `{"prompt_tokens":28,"completion_tokens":5,"total_tokens":33,
		"completion_tokens_details":{"reasoning_tokens":49}}`,
		openai.Usage{PromptTokens: 28, CompletionTokens: 54, TotalTokens: 82, ReasoningTokens: 49}},
	{"Bedrock", `{"inputTokens":11,"outputTokens":264,"totalTokens":1303,"cacheReadInputTokens":1000,
		"cacheReadInputTokenCount":1000,"cacheWriteInputTokens":28,"cacheDetails":[{"ttl":"1h","inputTokens":8},
		{"inputTokens":20,"ttl":"5m"}]}`,
		openai.Usage{PromptTokens: 1039, CompletionTokens: 264, TotalTokens: 1303, CachedTokens: 1000, CacheWriteTokens: 28,
			HourWriteTokens: 8, WritesSplit: true}},
	{"Cohere", `{"billed_units":{"input_tokens":62,"output_tokens":22},"tokens":{"input_tokens":968.0,
		"output_tokens":22.0},"cached_tokens":16}`,
		openai.Usage{PromptTokens: 968, CompletionTokens: 22, TotalTokens: 990, CachedTokens: 16, MorePrompt: -906}},
	{"Cohere, with images", `{"billed_units":{"input_tokens":267,"output_tokens":52},"tokens":{"input_tokens":34,
		"output_tokens":56,"image_tokens":259}}`,
		openai.Usage{PromptTokens: 34, CompletionTokens: 56, TotalTokens: 90, MorePrompt: 233, MoreAnswer: -4,
			PromptImage: 259}},
	{"Cohere, with images and nothing billed", `{"tokens":{"input_tokens":34,"output_tokens":56,"image_tokens":259}}`,
		openai.Usage{PromptTokens: 34, CompletionTokens: 56, TotalTokens: 90, MorePrompt: 259, PromptImage: 259}},
	{"Cohere, of embeddings of images", `{"billed_units":{"input_tokens":6,"image_tokens":100}}`,
		openai.Usage{PromptTokens: 106, TotalTokens: 106, PromptImage: 100}},
	{"Cohere, of embeddings", `{"api_version":{"version":"2"},"billed_units":{"input_tokens":6}}`,
		openai.Usage{PromptTokens: 6, TotalTokens: 6}},
	{"Cohere, of a rerank", `{"api_version":{"version":"2"},"billed_units":{"search_units":2}}`, openai.Usage{Units: 2}},
}

var newLines = regexp.MustCompile(`\n\s*`)

func TestEachFormOfUsageIsRead(t *testing.T) {
	for _, c := range forms {
		t.Run(c.name, func(t *testing.T) {
			var all reported.Usage
			for _, one := range strings.SplitAfter(newLines.ReplaceAllString(c.usage, ""), "}{") {
				one = strings.TrimSuffix(one, "{")
				if !strings.HasPrefix(one, "{") && one != "null" {
					one = "{" + one
				}
				whole := reported.Read([]byte(one))
				for cut := range min(len(one), 600) {
					var r reported.Reader
					r.Feed([]byte(one[:cut]))
					r.Feed([]byte(one[cut:]))
					require.True(t, reflect.DeepEqual(whole, r.Usage()), "cut at %d", cut)
				}
				all.Later(&whole)
			}
			require.Equal(t, c.want, all.OpenAI())
		})
	}
}

func TestTiers(t *testing.T) {
	for usage, want := range map[string]string{
		`{"service_tier":"standard"}`:         "default",
		`{"service_tier":"priority"}`:         "priority",
		`{"service_tier":"batch"}`:            "",
		`{"trafficType":"ON_DEMAND"}`:         "",
		`{"trafficType":"ON_DEMAND_FLEX"}`:    "flex",
		`{"serviceTier":"flex"}`:              "flex",
		`{"service_tier":null}`:               "",
		`{"prompt_tokens":1}`:                 "",
		`{"service_tier":["priority"]}`:       "",
		`{"other":{"service_tier":"flex"}}`:   "",
		`{"service_tier":"ultrafast","x":[]}`: "ultrafast",
	} {
		u := reported.Read([]byte(usage))
		require.Equal(t, want, u.Tier(), usage)
	}
}

func FuzzRead(f *testing.F) {
	for _, c := range forms {
		if len(c.usage) < 1000 {
			f.Add([]byte(c.usage), 5)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, cut int) {
		cut = min(max(cut, 0), len(data))
		var r reported.Reader
		r.Feed(data[:cut])
		r.Feed(data[cut:])
		whole := r.Usage()
		if json.Valid(data) {
			require.Equal(t, reported.Read(data), whole)
		}
		whole.Later(&whole)
		for _, n := range []int64{whole.OpenAI().PromptTokens, whole.OpenAI().CompletionTokens} {
			require.GreaterOrEqual(t, n, int64(0))
		}
	})
}

func TestReadingAllocatesNothing(t *testing.T) {
	data := []byte(forms[3].usage)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		u := reported.Read(data)
		_ = u.OpenAI()
	}))
}
