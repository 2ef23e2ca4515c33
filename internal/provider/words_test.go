package provider

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

func TestWordsOfVendorsMeanTheSameEverywhere(t *testing.T) {
	for message, c := range map[string]struct {
		status, means int
		code          string
	}{
		"Prompt is too long: 9 tokens":                       {400, 400, "context_length_exceeded"},
		"Too many tokens: size limit exceeded by 9":          {400, 400, "context_length_exceeded"},
		"too many tokens: max tokens must be less than 4096": {400, 400, ""},
		"Too many tokens, please wait before trying again.":  {429, 429, "rate_limit_exceeded"},
		"Your credit balance is too low":                     {400, 429, "insufficient_quota"},
		"suspended due to insufficient balance":              {429, 429, "insufficient_quota"},
		"You exceeded your current quota":                    {429, 429, "rate_limit_exceeded"},
		"The engine is currently overloaded":                 {429, 503, "overloaded"},
		"Overloaded":                                         {500, 503, "overloaded"},
		"the function 'overloaded' is not among the tools":   {400, 400, ""},
		"invalid value: the field 'quota' has a wrong type":  {400, 400, ""},
	} {
		e := StatusError(c.status, nil, message)
		require.Equal(t, c.means, e.Status, message)
		require.Equal(t, c.code, string(e.Code), message)
	}
}

// Of all recorded errors these say that the prompt is too long, and no other.
func TestRecordedErrorsAreKnownByTheirWords(t *testing.T) {
	const recorded = "../../../shared/fixtures"
	metas, err := filepath.Glob(recorded + "/*/*-err4*/meta.json")
	require.NoError(t, err)
	if len(metas) == 0 {
		testenv.Missing(t, "recorded errors beside the repository", "")
	}
	var long []string
	for _, meta := range metas {
		var m struct{ Status int }
		text, err := os.ReadFile(meta)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &m))
		bodies, err := filepath.Glob(filepath.Join(filepath.Dir(meta), "response.*"))
		require.NoError(t, err)
		for _, body := range bodies {
			text, err := os.ReadFile(body)
			require.NoError(t, err)
			if IsTooLong(m.Status, string(text)) {
				name, err := filepath.Rel(recorded, filepath.Dir(meta))
				require.NoError(t, err)
				long = append(long, name)
			}
		}
	}
	require.Equal(t, []string{"bedrock/008-converse-err400-unary", "openai/098-responses-err400-unary",
		"openrouter/005-chat-completions-err400-unary", "perplexity/001-chat-completions-err400-unary",
		"vertex/002-generateContent-err400-unary"}, long)
}
