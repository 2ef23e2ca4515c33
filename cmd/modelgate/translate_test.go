package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// translateLine runs modelgate translate with the files, and returns the exit code and what it said.
func translateLine(t *testing.T, files map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Base(name), []byte(text), 0o600))
	}
	var out, wrong bytes.Buffer
	code = execute(t.Context(), append([]string{"translate"}, args...), &out, &wrong)
	return code, out.String(), wrong.String()
}

const hello = `{"messages":[{"role":"user","content":"hi"}]}`

func TestTranslateRequest(t *testing.T) {
	files := map[string]string{
		"chat": hello, "n": `{"messages":[{"role":"user","content":"hi"}],"n":2}`, "prompt": `{"prompt":"hi"}`,
		"input": `{"input":"hi"}`, "wrong": `{"messages":7}`,
		"provider.yaml": "kind: Provider\nname: claude\nvendor: anthropic\nendpoint: https://proxy.example/v9\nheaders: {x-team: blue}\n",
		"catalog.yaml":  "kind: Catalog\nname: default\nmodels:\n- models: [m]\n  capabilities: {max_output_tokens: 777}\n",
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want map[string]string // values of the JSON that is printed, by path
	}{
		"openai": {[]string{"--provider=openai", "chat"}, 0,
			map[string]string{"method": "POST", "url": "https://api.openai.com/v1/chat/completions",
				"headers.authorization": "Bearer ***", "body.model": "m"}},
		"a translated one": {[]string{"--provider=anthropic", "chat"}, 0,
			map[string]string{"url": "https://api.anthropic.com/v1/messages", "headers.x-api-key": "***",
				"headers.anthropic-version": "2023-06-01"}},
		"completions over chat": {[]string{"--provider=anthropic", "--endpoint=completions", "prompt"}, 0,
			map[string]string{"body.max_tokens": "16", "body.messages.0.content.0.text": "hi"}},
		"a base URL": {[]string{"--provider=openai", "--base-url=http://10.0.0.1:8080/v1", "chat"}, 0,
			map[string]string{"url": "http://10.0.0.1:8080/v1/chat/completions"}},
		"a configured provider": {[]string{"--provider=anthropic", "--config=provider.yaml", "chat"}, 0,
			map[string]string{"url": "https://proxy.example/v9/messages", "headers.x-team": "blue"}},
		"a catalog": {[]string{"--provider=anthropic", "--catalog=catalog.yaml", "chat"}, 0,
			map[string]string{"body.max_tokens": "777"}},
		"a parameter that is refused": {[]string{"--provider=anthropic", "n"}, 3,
			map[string]string{"error.param": "n", "error.code": "unsupported_parameter",
				"error.type": "invalid_request_error"}},
		"a parameter that is dropped": {[]string{"--provider=anthropic", "--unsupported=drop", "n"}, 0,
			map[string]string{"dropped": `["n"]`}},
		"a mistake": {[]string{"--provider=openai", "wrong"}, 3,
			map[string]string{"error.param": "messages"}},
		"an endpoint that is lacking": {[]string{"--provider=anthropic", "--endpoint=embeddings", "input"}, 3,
			map[string]string{"error.code": "unsupported_endpoint"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := translateLine(t, files, append([]string{"request", "--model=m"}, c.args...)...)
			require.Equal(t, c.code, code, stdout+stderr)
			require.Empty(t, stderr)
			require.True(t, gjson.Valid(stdout), stdout)
			for path, want := range c.want {
				require.Equal(t, want, gjson.Get(stdout, path).String(), stdout)
			}
		})
	}
}

func TestTranslateResponse(t *testing.T) {
	const events = `data: {"id":"c1","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"hi"},"logprobs":null,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	files := map[string]string{
		"events":  events,
		"error":   `{"error":{"message":"Slow down.","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
		"message": `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`,
		"tokens":  `{"prompt":[1,2]}`,
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a stream":              {[]string{"--provider=openai", "--stream", "--all-cuts", "events"}, 0, events},
		"an error is an answer": {[]string{"--provider=openai", "--status=429", "error"}, 0, files["error"]},
		"with headers": {[]string{"--provider=openai", "--status=429", "-H", "retry-after: 3", "-i", "error"}, 0,
			"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 94\r\ncontent-type: application/json\r\nretry-after: 3\r\nretry-after-ms: 3000\r\nx-modelgate-provider: openai\r\n\r\n" + files["error"]},
		"another type": {[]string{"--provider=openai", "--stream", "--content-type=text/html", "events"}, 0,
			`{"error":{"message":"The provider answered a request for a stream with something else.","type":"server_error","param":null,"code":"upstream_not_a_stream"}}`},
		"a request not served": {[]string{"--provider=anthropic", "--endpoint=completions", "--request=tokens", "message"},
			3,
			`{"error":{"message":"The provider 'anthropic' serves completions by way of chat completions, which take no tokens. Send the prompt as text.","type":"invalid_request_error","param":"prompt","code":"unsupported_parameter"}}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := translateLine(t, files, append([]string{"response", "--model=m"}, c.args...)...)
			require.Equal(t, c.code, code, stdout+stderr)
			require.Equal(t, c.want, stdout)
			require.Empty(t, stderr)
		})
	}
	t.Run("a translated answer", func(t *testing.T) {
		code, stdout, stderr := translateLine(t, files, "response", "--provider=anthropic", "--model=m", "message")
		require.Zero(t, code, stderr)
		require.Equal(t, "hi", gjson.Get(stdout, "choices.0.message.content").String())
		require.Equal(t, "m", gjson.Get(stdout, "model").String())
	})
}

func TestTranslateSaysWhatIsWrongWithTheCommandLine(t *testing.T) {
	files := map[string]string{"chat": hello, "provider.yaml": "kind: Provider\nname: x\nvendor: openai\n"}
	for want, args := range map[string][]string{
		`there is no provider "nobody"; the providers are `: {"--provider=nobody", "chat"},
		`provider.yaml: the provider's vendor is "openai"`: {"--provider=anthropic", "--config=provider.yaml",
			"chat"},
		`provider.yaml: it must contain one object, a Catalog`: {"--provider=openai", "--catalog=provider.yaml",
			"chat"},
		`open absent: no such file or directory`: {"--provider=openai", "absent"},
		`--endpoint must be one of "chat","completions","embeddings","messages","responses","gemini","rerank" `: {"--provider=openai", "--endpoint=images", "chat"},
	} {
		code, stdout, stderr := translateLine(t, files, append([]string{"request", "--model=m"}, args...)...)
		require.NotZero(t, code)
		require.Empty(t, stdout)
		require.Contains(t, stderr, want)
	}
}
