package pitfalls

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/translate"
)

// requestRows are those of what a request becomes. Rows 46 to 60 are in conversations_test.go.
func requestRows() []row {
	return append(conversationRows(), []row{
		{61, "betas go to those clouds that know them", betas},
		{62, "an image that somebody would have to fetch is refused where nobody does", imagesByURL},
		{63, "a tool of a type that the vendor lacks is refused, and named", foreignTools},
		{64, "a model with a slash, a colon or an ARN is one part of the path, and signed so", modelInPath},
		{65, "a key that may not use a model learns nothing of it", modelsOfKeys},
		{66, "an answer names the model as the client does", modelOfAnswers},
		{67, "a member that is written twice or in other letters cannot say another thing", doubleMembers},
		{68, "members that only the vendor knows pass where the dialect is the same", vendorsOwn},
		{69, "text to embed may have any of the four forms", embeddingInputs},
		{70, "choices is never null", choicesNull},
	}...)
}

func betas(t *testing.T) {
	const request = `"anthropic_beta":["context-1m-2025-08-07","files-api-2025-04-14"]`
	require.Equal(t, "context-1m-2025-08-07,files-api-2025-04-14",
		claude.ask(t, chat(request)).header.Get("Anthropic-Beta"))
	for _, s := range []upstream{vertexClaude, bedrockClaude} { // they refuse a beta that they do not know
		got := s.ask(t, chat(request))
		all := fmt.Sprint(got.header, got.body.Raw)
		require.Contains(t, all, "context-1m-2025-08-07", s.name)
		require.NotContains(t, all, "files-api-2025-04-14", s.name)
		require.Contains(t, strings.Join(got.dropped, ","), "anthropic_beta", s.name)
	}
	t.Run("a client's header goes nowhere", func(t *testing.T) {
		g := overPlayer(t)
		seen := make(chan string, 1)
		g.vendor.answers(func(w http.ResponseWriter, r *http.Request) {
			seen <- r.Header.Get("Anthropic-Beta")
			write(w, messages.stream(counted)...)
		})
		g.Do(t, "POST", "/v1/chat/completions", ask("claude/claude-sonnet-4-5"), "Anthropic-Beta", "files-api-2025-04-14")
		require.Empty(t, <-seen)
	})
}

func image(url string) string {
	return chatRequest(`{"role":"user","content":[{"type":"text","text":"what is it?"},{"type":"image_url","image_url":{"url":"`+
		url+`"}}]}`, "")
}

const png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

func imagesByURL(t *testing.T) {
	for _, s := range []upstream{bedrockClaude, bedrockNova, vertexClaude, compatible("ollama")} {
		refusal := s.refuses(t, image("https://example.com/a.png"))
		require.Contains(t, refusal.Param, "messages[0].content[1]", s.name)
		require.NotEmpty(t, refusal.Message)
	}
	for _, url := range []string{"http://169.254.169.254/latest/meta-data", "file:///etc/passwd",
		"ftp://example.com/a.png", "javascript:1"} {
		for _, s := range []upstream{bedrockClaude, vertexClaude} {
			require.Contains(t, s.refuses(t, image(url)).Param, "messages[0].content[1]", url)
		}
	}
	for name, at := range map[string]string{
		"anthropic": "messages.0.content.1.source.url", "gemini": "contents.0.parts.1.fileData.fileUri",
		"vertex's Gemini": "contents.0.parts.1.fileData.fileUri",
		"cohere":          "messages.0.content.1.image_url.url", "mistral": "messages.0.content.1.image_url.url",
		"openai": "messages.0.content.1.image_url.url",
	} { // who fetches by themselves
		got := named(name).ask(t, image("https://example.com/a.png"))
		require.Contains(t, got.body.Get(at).String(), "https://example.com/a.png", "%s: %s", name, got.body.Raw)
	}
	at := map[string]string{"messages": "messages.0.content.1.source.data",
		"google": "contents.0.parts.1.inlineData.data", "converse": "messages.0.content.1.image.source.bytes"}
	for _, s := range slices.Concat(claudes, geminis, bedrocks) {
		require.Equal(t, png, s.ask(t, image("data:image/png;base64,"+png)).body.Get(at[s.dialect.name]).Str, s.name)
	}
}

func foreignTools(t *testing.T) {
	for _, tool := range []string{`{"type":"local_shell"}`, `{"type":"code_interpreter","container":{"type":"auto"}}`,
		`{"type":"custom","custom":{"name":"grep"}}`} {
		for _, s := range foreignUpstreams() {
			if s.vendor == "mistral" && strings.Contains(tool, "code_interpreter") {
				continue // a tool of its own
			}
			refusal := s.refuses(t, chat(`"tools":[{"type":"function","function":{"name":"clock"}},`+tool+`]`))
			require.Contains(t, refusal.Param, "tools[1]", "%s: %s", s.name, tool)
			require.Contains(t, []string{"unsupported_value", "unsupported_parameter"}, string(refusal.Code), s.name)
			s.drops = true
			got := s.ask(t, chat(`"tools":[{"type":"function","function":{"name":"clock"}},`+tool+`]`))
			require.Contains(t, strings.Join(got.dropped, ","), "tools[1]", s.name)
		}
	}
}

func modelInPath(t *testing.T) {
	for model, want := range map[string]string{
		"amazon.nova-lite-v1:0": "/model/amazon.nova-lite-v1%3A0/converse",
		"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0": "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
		"a b/../c?d#e%2f": "/model/a%20b%2F..%2Fc%3Fd%23e%252f/converse",
	} {
		s := bedrockNova
		s.model = model
		got := s.ask(t, chat(""))
		require.Equal(t, want, got.path)
		require.Equal(t, want+"-stream", s.ask(t, chat(`"stream":true`)).path)
	}
	p, target := bedrockNova.target()
	endpoint, err := p.Endpoint(target.Config)
	require.NoError(t, err)
	r := provider.Request{Path: "/model/amazon.nova-lite-v1%3A0/converse",
		Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte("{}")}
	require.NoError(t, p.Sign(&r, provider.Signing{Config: target.Config, Credential: secret.New("AKIDEXAMPLE:SECRET"),
		Method: http.MethodPost, Endpoint: endpoint, Now: time.Unix(1700000000, 0)}))
	require.True(t, strings.HasSuffix(r.Header.Get("Authorization"), "Signature="+
		signature("/model/amazon.nova-lite-v1%253A0/converse", "{}")), r.Header)
}

// signature is AWS's, version 4, of a request as it stands in modelInPath. In what is signed, the parts of the path
// are encoded once more than in the request:
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
func signature(path, body string) string {
	hash := func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) }
	canonical := "POST\n" + path +
		"\n\ncontent-type:application/json\nhost:bedrock-runtime.us-east-1.amazonaws.com\nx-amz-date:20231114T221320Z\n\ncontent-type;host;x-amz-date\n" + hash(body)
	key := []byte("AWS4SECRET")
	for _, part := range []string{"20231114", "us-east-1", "bedrock", "aws4_request",
		"AWS4-HMAC-SHA256\n20231114T221320Z\n20231114/us-east-1/bedrock/aws4_request\n" + hash(canonical)} {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	return hex.EncodeToString(key)
}

func modelsOfKeys(t *testing.T) {
	g := overPlayer(t, "openai/*")
	g.vendor.send(openAI.stream(counted)...)
	require.Equal(t, 200, g.Chat(t, ask("openai/m")).Status)
	for _, model := range []string{"claude/claude-sonnet-4-5", "first", "openai", "OPENAI/m", "openai /m", "nobody/m"} {
		g.vendor.send()
		a := g.Chat(t, ask(model))
		require.Equal(t, 404, a.Status, model)
		require.Equal(t, "model_not_found", a.Failure(t).Code)
		require.Equal(t, 404, g.Do(t, "GET", "/v1/models/"+strings.ReplaceAll(model, " ", "%20"), "").Status, model)
		require.Empty(t, g.vendor.asked(), model)
	}
	require.NotContains(t, string(g.Do(t, "GET", "/v1/models", "").Body), "first")
}

func modelOfAnswers(t *testing.T) {
	each(t, allUpstreams(), func(t *testing.T, s upstream) {
		both(t, func(t *testing.T, streamed bool) { // the reader sees to it that every chunk says the same
			a := s.respond(t, counted, chat(""), streamed)
			require.Equal(t, asked, a.model)
			require.NotEmpty(t, a.id)
			require.NotContains(t, a.body, `"model":"upstream"`)
		})
	})
}

func doubleMembers(t *testing.T) {
	for body, param := range map[string]string{
		`{"model":"a","model":"b","messages":[{"role":"user","content":"hi"}]}`:                                                                 "model",
		`{"model":"a","messages":[{"role":"user","content":"hi"}],"stream":false,"stream":true}`:                                                "stream",
		`{"model":"a","messages":[{"role":"user","content":"hi","content":"other"}]}`:                                                           "messages[0].content",
		`{"model":"a","messages":[{"role":"user","content":"hi"}],"messages":[]}`:                                                               "messages",
		`{"model":"a","mo\u0064el":"b","messages":[{"role":"user","content":"hi"}]}`:                                                            "model",
		`{"model":"a","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true,"include_usage":false},"stream":true}`: "stream_options.include_usage",
	} {
		for _, s := range []upstream{compatible("openai"), claude, gemini, bedrockNova} {
			refusal := s.refuses(t, body)
			require.Equal(t, param, refusal.Param, body)
			require.EqualValues(t, "duplicate_parameter", refusal.Code)
		}
	}
	require.Equal(t, "model", claude.refuses(t, `{"Model":"a","messages":[{"role":"user","content":"hi"}]}`).Param,
		"Model is not model")
	g := overPlayer(t, "openai/*")
	g.vendor.send(openAI.stream(counted)...)
	require.Equal(t, 404, g.Chat(t, `{"MODEL":"openai/m",`+ask("claude/x")[1:]).Status)
	require.Equal(t, 400, g.Chat(t, `{"model":"openai/m",`+ask("claude/x")[1:]).Status)
	require.Equal(t, 200, g.Chat(t, `{"Model":"claude/x",`+ask("openai/m")[1:]).Status)
	require.Equal(t, []string{"/openai/chat/completions"}, g.vendor.asked())
}

func vendorsOwn(t *testing.T) {
	for vendor, member := range map[string]string{
		"compatible": `"x_new":{"b":[1.50,2]}`, "openai": `"x_new":{"b":[1.50,2]}`,
		"openrouter": `"provider":{"order":["a"]}`, "vllm": `"top_k":5`, "llamacpp": `"cache_prompt":true`,
		"perplexity": `"search_domain_filter":["a.example"]`, "xai": `"search_parameters":{"mode":"auto"}`,
		"groq": `"reasoning_format":"parsed"`, "alibaba": `"enable_search":true`,
		"fireworks": `"context_length_exceeded_behavior":"truncate"`, "zai": `"do_sample":false`,
		"nvidia": `"chat_template_kwargs":{"thinking":true}`,
	} {
		require.Contains(t, compatible(vendor).ask(t, chat(member)).body.Raw, member, vendor)
	}
	for name, members := range map[string][2]string{ // of other dialects: where it is in the vendor's request
		"anthropic": {`"top_k":5`, "top_k"},
		"gemini": {`"safetySettings":[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"OFF"}]`,
			"safetySettings.0.threshold"},
		"bedrock's Nova": {`"guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1"}`,
			"guardrailConfig.guardrailVersion"},
		"cohere": {`"safety_mode":"STRICT"`, "safety_mode"}, "mistral": {`"safe_prompt":true`, "safe_prompt"},
	} {
		require.True(t, named(name).ask(t, chat(members[0])).body.Get(members[1]).Exists(), name)
		require.Contains(t, named(name).ask(t, chat(`"x_unknown":1`)).dropped, "x_unknown", name)
	}
	for _, vendor := range []string{"compatible", "openai", "openrouter"} {
		own := strings.Replace(openAI.unary(counted), `"finish_reason"`, `"x_new":{"b":[1.50]},"finish_reason"`, 1)
		require.Contains(t, compatible(vendor).send(t, chat(""), false, own).body, `"x_new":{"b":[1.50]}`, vendor)
		stream := append([]string{with(chunk(`{"role":"assistant","content":"a","x_delta":1}`, "null"),
			`"x_new":{"b":[1.50]}`)}, openAI.stream(counted)[2:]...)
		streamed := compatible(vendor).send(t, chat(`"stream":true`), true, stream...).body
		require.Contains(t, streamed, `"x_new":{"b":[1.50]}`, vendor)
		require.Contains(t, streamed, `"x_delta":1`, vendor)
	}
}

func embeddingInputs(t *testing.T) {
	const request = `{"model":"` + asked + `","input":%s}`
	for vendor, model := range map[string]string{"openai": "text-embedding-3-small", "azure": "text-embedding-3-small",
		"compatible": "m", "vllm": "m", "together": "m"} {
		s := compatible(vendor)
		s.model = model
		for _, input := range []string{`"a"`, `["a","b"]`, `[1,2]`, `[[1,2],[3]]`} {
			require.Equal(t, input, s.askFor(t, translate.Embeddings, fmt.Sprintf(request, input)).body.Get("input").Raw,
				vendor)
		}
	}
	for _, c := range []struct {
		s         upstream
		model, at string
		several   bool
	}{
		{gemini, "gemini-embedding-001", "requests.#.content.parts.0.text", true},
		{vertexGemini, "text-embedding-005", "instances.#.content", true},
		{command, "embed-v4.0", "texts", true},
		{mistralSmall, "mistral-embed", "input", true},
		{bedrockNova, "cohere.embed-english-v3", "texts", true},
		{bedrockNova, "amazon.titan-embed-text-v2:0", "inputText", false},
	} {
		c.s.model = c.model
		one := c.s.askFor(t, translate.Embeddings, fmt.Sprintf(request, `"a"`)).body.Get(c.at)
		require.Contains(t, []string{`"a"`, `["a"]`}, one.Raw, c.model)
		if c.several {
			require.Equal(t, `["a","b"]`, c.s.askFor(t, translate.Embeddings,
				fmt.Sprintf(request, `["a","b"]`)).body.Get(c.at).Raw, c.model)
		} else {
			require.Contains(t, c.s.refusesFor(t, translate.Embeddings, fmt.Sprintf(request, `["a","b"]`)).Param, "input")
		}
		for _, tokens := range []string{`[1,2]`, `[[1,2],[3]]`} { // nobody knows what text they stand for
			require.Contains(t, c.s.refusesFor(t, translate.Embeddings, fmt.Sprintf(request, tokens)).Param, "input", c.model)
		}
	}
	for _, input := range []string{`[]`, `null`, `1`, `["a",1]`, `[[]]`, `{"text":"a"}`} {
		require.Contains(t, compatible("openai").refusesFor(t, translate.Embeddings, fmt.Sprintf(request, input)).Param,
			"input", input)
	}
}

func choicesNull(t *testing.T) {
	for _, vendor := range []string{"compatible", "openrouter", "vllm", "groq"} {
		null := strings.Replace(chunk(`{}`, "null"), gjson.Get(strings.TrimPrefix(chunk(`{}`, "null"), "data: "),
			"choices").Raw, "null", 1)
		a := compatible(vendor).send(t, chat(streams), true, null, chunk(`{"role":"assistant","content":"a"}`, "null"),
			chunk(`{}`, `"stop"`), with(null, sevenOfTwenty), end)
		require.Equal(t, "a", a.text, vendor)
		requireCounts(t, a, 20, 7)
		require.NotRegexp(t, regexp.MustCompile(`"choices":\s*null`), a.body)
		whole := compatible(vendor).send(t, chat(""), false,
			`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":null,`+sevenOfTwenty+`}`)
		require.True(t, whole.failure.Exists() || whole.all.Get("choices").IsArray(), whole.body)
	}
	for _, s := range geminis { // a prompt that is blocked has no candidates
		both(t, func(t *testing.T, streamed bool) {
			body := `{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":20,"totalTokenCount":20}}`
			if streamed {
				body = data("%s", body)
			}
			a := s.send(t, chat(""), streamed, body)
			require.Equal(t, "content_filter", a.stop, s.name)
			require.NotEmpty(t, a.refusal)
		})
	}
}
