package legacy_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/dialects/openaicompat"
	"github.com/modelgate/modelgate/internal/provider/legacy"
	"github.com/modelgate/modelgate/internal/provider/providertest"
)

// acme is a vendor of OpenAI's dialect that has no functions, and cannot be told to make one call at a time.
func acme() provider.Provider {
	return provider.Provider{
		Name:            "acme",
		DefaultEndpoint: "https://acme.example/v1",
		Sign:            openaicompat.Bearer,
		DecodeError:     openaicompat.DecodeError,
		Chat:            legacy.Functions(openaicompat.New(dialect)),
	}
}

var dialect = openaicompat.Dialect{Vendor: "acme", Unsupported: []string{"functions", "function_call",
	"parallel_tool_calls", "logit_bias"}}

func TestCases(t *testing.T) { providertest.Run(t, acme()) }

func FuzzAnswers(f *testing.F) { providertest.Fuzz(f, acme()) }

// A codec sees what it was given.
type recorder struct {
	provider.ChatCodec
	seen *openai.ChatRequest
}

func (c *recorder) Encode(r *openai.ChatRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	c.seen = r
	return c.ChatCodec.Encode(r, t)
}

func TestARequestWithoutFunctionsGoesToTheCodecAsItIs(t *testing.T) {
	inner := &recorder{ChatCodec: openaicompat.New(dialect)}
	codec := legacy.Functions(inner)
	for _, members := range []string{`"n":1`, `"functions":null`, `"functions":[ ],"function_call":"auto"`,
		`"tools":[{"type":"function","function":{"name":"f"}}],"functions":[]`} {
		r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],` + members + `}`))
		require.NoError(t, err)
		_, _, err = codec.Encode(r, provider.Target{Model: "m"})
		require.NoError(t, err)
		require.Same(t, r, inner.seen)
	}
}

func TestWhatIDsCarryStaysInTheRequest(t *testing.T) {
	inner := &recorder{ChatCodec: openaicompat.New(dialect)}
	by := openai.NewCarrierKey([]byte("test")).For("o", "key_1")
	id := by.Carry("c1", []byte(`{"a":1}`))
	r, err := by.ParseChatRequest(
		[]byte(`{"model":"m","functions":[{"name":"f"}],"messages":[{"role":"assistant","tool_calls":[{"id":"` + id +
			`","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"` + id +
			`","content":"x"}]}`))
	require.NoError(t, err)
	_, _, err = legacy.Functions(inner).Encode(r, provider.Target{Model: "m"})
	require.NoError(t, err)
	chat, err := inner.seen.Chat()
	require.NoError(t, err)
	require.Equal(t, `{"a":1}`, string(chat.Messages[0].ToolCalls[0].Carried))
	require.False(t, strings.Contains(string(inner.seen.Body), openai.CarriedMark))
}

func TestErrorsAreAboutFunctions(t *testing.T) {
	codec := legacy.Functions(typed{})
	for _, c := range [][3]string{
		{`"functions":[{"name":"f"}],"function_call":"f"`, "function_call",
			"Invalid value: 'f'. Supported values are: 'none', 'auto', and 'required', or an object."},
		{`"functions":[{"name":"f"}],"tools":[{"type":"function","function":{"name":"g"}}]`, "functions",
			"Send 'tools' or 'functions', not both."},
		{`"functions":[{"name":"f","cache_control":1}]`, "functions[0].cache_control",
			"Unsupported parameter: 'functions[0].cache_control' is not supported by the provider 'acme'. Remove it or choose another model."},
	} {
		r, err := openai.ParseChatRequest([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}],` + c[0] + `}`))
		require.NoError(t, err)
		_, _, err = codec.Encode(r, provider.Target{Model: "m"})
		var e *openai.Error
		require.ErrorAs(t, err, &e, c[0])
		require.Equal(t, c[1], e.Param)
		require.Equal(t, c[2], e.Message)
	}
}

// typed reads a request as codecs that translate do.
type typed struct{}

func (typed) Encode(r *openai.ChatRequest, _ provider.Target) (provider.Request, provider.Answer, error) {
	if err := r.RejectDeviations(); err != nil {
		return provider.Request{}, nil, err
	}
	chat, err := r.Chat()
	if err == nil && chat.Tools[0].CacheControl != nil {
		err = openai.Unsupported("tools[0].function.cache_control", "acme")
	}
	return provider.Request{}, nil, err
}

func BenchmarkCodec(b *testing.B) { providertest.Bench(b, acme()) }
