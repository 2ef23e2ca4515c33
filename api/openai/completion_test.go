package openai_test

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestParseCompletionRequest(t *testing.T) {
	r,
		err := openai.ParseCompletionRequest([]byte(`{"model":"m","prompt":["a\n","b"],"stream":true,"stream_options":{"include_usage":true},"best_of":2,"echo":true,"frequency_penalty":1,` +
		`"presence_penalty":-1,"logit_bias":{"1":2},"logprobs":5,"max_tokens":0,"n":2,"seed":7,"stop":"x","suffix":"s\"","temperature":0,"top_p":1,"user":"u","own":{}}`))
	require.NoError(t, err)
	require.Equal(t, "m", r.Model)
	require.True(t, r.Stream)
	require.True(t, r.IncludeUsage)
	require.Empty(t, cmp.Diff(openai.Completion{
		Prompts: []string{"a\n", "b"}, BestOf: new(int64(2)), Echo: new(true), FrequencyPenalty: new(1.0),
		PresencePenalty: new(-1.0), LogitBias: value(`{"1":2}`),
		Logprobs: new(int64(5)), MaxTokens: new(int64(0)), N: new(int64(2)), Seed: new(int64(7)), Stop: openai.Strings{"x"},
		Suffix: `s"`, Temperature: new(0.0), TopP: new(1.0), User: "u",
	}, r.Completion))
}

func TestPrompts(t *testing.T) {
	for prompt, want := range map[string]openai.Completion{
		`"a"`: {Prompts: []string{"a"}}, `""`: {Prompts: []string{""}}, `["a","b"]`: {Prompts: []string{"a", "b"}},
		`[1,2]`: {Tokens: true}, `[[1],[2]]`: {Tokens: true},
	} {
		r, err := openai.ParseCompletionRequest([]byte(`{"prompt":` + prompt +
			`,"model":"m","suffix":null,"stop":null,"n":null}`))
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(want, r.Completion), prompt)
	}
}

// refused checks that parse refuses what a body has besides its model, with an error about a parameter.
func refused(t *testing.T, parse func(body []byte) error, members, param, code string) {
	t.Helper()
	err := parse([]byte(`{"model":"m",` + members + `}`))
	var e *openai.Error
	require.ErrorAs(t, err, &e, members)
	require.Equal(t, 400, e.Status)
	require.Equal(t, param, e.Param, members)
	require.Equal(t, code, string(e.Code), members)
}

func TestCompletionRequestIsRefused(t *testing.T) {
	parse := func(body []byte) error {
		r, err := openai.ParseCompletionRequest(body)
		if err == nil { // what other vendors may take
			err = r.RejectDeviations()
		}
		return err
	}
	for _, c := range [][3]string{
		{`"n":1`, "prompt", "missing_required_parameter"},
		{`"prompt":null`, "prompt", "missing_required_parameter"},
		{`"prompt":{}`, "prompt", "invalid_type"},
		{`"prompt":["a",1]`, "prompt[1]", "invalid_type"},
		{`"prompt":"a","n":0`, "n", "integer_below_min_value"},
		{`"prompt":"a","best_of":21`, "best_of", "integer_above_max_value"},
		{`"prompt":"a","logprobs":6`, "logprobs", "integer_above_max_value"},
		{`"prompt":"a","logprobs":true`, "logprobs", "invalid_type"},
		{`"prompt":"a","echo":1`, "echo", "invalid_type"},
		{`"prompt":"a","stop":[1]`, "stop[0]", "invalid_type"},
		{`"prompt":"a","stream":"yes"`, "stream", "invalid_type"},
		{`"prompt":"a","stream_options":{}`, "stream_options", "invalid_value"},
		{`"prompt":"a","stream":true,"stream_options":[]`, "stream_options", "invalid_type"},
		{`"prompt":"a","model":"n"`, "model", "duplicate_parameter"},
		{`"prompt":"a"}`, "", "invalid_json"},
	} {
		refused(t, parse, c[0], c[1], c[2])
	}
}

func TestParseEmbeddingRequest(t *testing.T) {
	for input, want := range map[string][]openai.Input{
		`"a\n"`:       {{Text: "a\n"}},
		`["a",""]`:    {{Text: "a"}, {Text: ""}},
		`[1, 2]`:      {{Tokens: []int64{1, 2}}},
		`[[1],[2,3]]`: {{Tokens: []int64{1}}, {Tokens: []int64{2, 3}}},
	} {
		r, err := openai.ParseEmbeddingRequest([]byte(`{"model":"m","input": ` + input +
			` ,"dimensions":256,"encoding_format":"base64","user":"u\n","own":1}`))
		require.NoError(t, err)
		require.Equal(t, want, r.Inputs, input)
		require.Equal(t, int64(256), r.Dimensions)
		require.True(t, r.Base64)
		require.Equal(t, "u\n", r.User)
		require.Equal(t, input, string(r.Get("input")))
	}
	r, err := openai.ParseEmbeddingRequest(
		[]byte(`{"model":"m","input":"a","dimensions":null,"encoding_format":"float","user":null}`))
	require.NoError(t, err)
	require.False(t, r.Base64)
	require.Zero(t, r.Dimensions)
}

func TestEmbeddingRequestIsRefused(t *testing.T) {
	parse := func(body []byte) error {
		_, err := openai.ParseEmbeddingRequest(body)
		return err
	}
	for _, c := range [][3]string{
		{`"user":"u"`, "input", "missing_required_parameter"},
		{`"input":null`, "input", "missing_required_parameter"},
		{`"input":1`, "input", "invalid_type"},
		{`"input":[]`, "input", "empty_array"},
		{`"input":[[]]`, "input[0]", "empty_array"},
		{`"input":[null]`, "input[0]", "invalid_type"},
		{`"input":["a",[1]]`, "input[1]", "invalid_type"},
		{`"input":[1,"a"]`, "input[1]", "invalid_type"},
		{`"input":[1,1.5]`, "input", "invalid_type"},
		{`"input":[[1],[1,{}]]`, "input[1][1]", "invalid_type"},
		{`"input":"a","dimensions":0`, "dimensions", "integer_below_min_value"},
		{`"input":"a","dimensions":1e3`, "dimensions", "invalid_type"},
		{`"input":"a","encoding_format":"hex"`, "encoding_format", "invalid_value"},
		{`"input":"a","encoding_format":1`, "encoding_format", "invalid_type"},
		{`"input":"a","user":{}`, "user", "invalid_type"},
	} {
		refused(t, parse, c[0], c[1], c[2])
	}
}

func TestAppendEmbeddings(t *testing.T) {
	vectors := []jsontext.Value{value(`[0.5, -1e-3]`), value(`[]`)}
	got, err := openai.AppendEmbeddings(nil, "p/m", vectors, false, openai.Usage{PromptTokens: 3})
	require.NoError(t, err)
	require.Equal(t,
		`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.5, -1e-3]},{"object":"embedding","index":1,"embedding":[]}],"model":"p/m","usage":{"prompt_tokens":3,"total_tokens":3}}`, string(got))

	raw := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, math.Float32bits(0.5)),
		math.Float32bits(-1e-3))
	got, err = openai.AppendEmbeddings(nil, "p/m", vectors, true, openai.Usage{PromptTokens: 3, TotalTokens: 4})
	require.NoError(t, err)
	require.Equal(t, `{"object":"list","data":[{"object":"embedding","index":0,"embedding":"`+
		base64.StdEncoding.EncodeToString(raw)+
		`"},{"object":"embedding","index":1,"embedding":""}],"model":"p/m","usage":{"prompt_tokens":3,"total_tokens":4}}`,
		string(got))

	_, err = openai.AppendEmbeddings(nil, "m", []jsontext.Value{value(`["a"]`)}, true, openai.Usage{})
	require.Error(t, err)
}

func FuzzParseOthers(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":[[1],[2]],"prompt":["a"]}`))
	f.Add([]byte(`{"model":"m","input":"a","prompt":[1],"dimensions":1}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if r, err := openai.ParseEmbeddingRequest(body); err == nil {
			require.NotEmpty(t, r.Inputs)
		}
		if r, err := openai.ParseCompletionRequest(body); err == nil {
			require.True(t, r.Tokens != (len(r.Prompts) > 0))
		}
		_, _ = openai.ParseNativeRequest(body)
	})
}
