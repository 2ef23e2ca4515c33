package offered_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/offered"
)

// A form is pairs of names and values. A file has no value.
type form [][2]string

func (f form) Fields(each func(name string, value []byte)) {
	for _, field := range f {
		if field[1] == "" {
			each(field[0], nil)
		} else {
			each(field[0], []byte(field[1]))
		}
	}
}

// TestFormsAreReadAsJSONIs: a field that is not known may lead to another model, and so may brackets and files.
func TestFormsAreReadAsJSONIs(t *testing.T) {
	usual := form{{"model", "whisper-1"}, {"file", ""}, {"image[]", ""}, {"prompt", "hi"}, {"language", "de"}, {"n", "2"},
		{"timestamp_granularities[]", "word"}, {"chunking_strategy[type]", "server_vad"}, {"stream", "true"},
		{"known_speaker_names[]", "x"}, {"include[]", "logprobs"}, {"temperature", "0.5"}, {"response_format", "json"}}
	require.Nil(t, offered.ReadForm(usual))
	numbers := offered.ReadForm(form{{"unheard_of", "1"}, {"another", "true"}})
	require.Empty(t, numbers.Models)
	require.Len(t, numbers.Tools, 2)
	for _, name := range []string{"models", "models[]", "Models", "model[]", "Model", "mode%6c", `mod\el`,
		"fallback_model", "preset", "agent_id", "extra_body", "extra_body[model]", "provider[order]", "unheard_of",
		"chat_template_kwargs[tools]"} {
		for _, value := range []string{"dear", ""} {
			l := offered.ReadForm(append(usual, [2]string{name, value}))
			require.NotNil(t, l, name)
			require.NotEmpty(t, l.Models, "%s %q", name, value)
		}
	}
	require.Equal(t, "flex", offered.ReadForm(form{{"service_tier", "flex"}}).Tier)
}

// TestSettingsOfToolsNameModels: they are in parameters, too.
func TestSettingsOfToolsNameModels(t *testing.T) {
	for _, member := range []string{"parameters", "function", "custom", "metadata", "format"} {
		l := read(`{"tools":[{"type":"openrouter:image_generation","` + member + `":{"model":"dear"}}]}`)
		require.NotEmpty(t, l.Models, member)
		require.Equal(t, "dear", l.Models[0].Name, member)
	}
	require.NotEmpty(t, read(`{"web_search_options":{"model":"dear"}}`).Models)
	require.Empty(t, read(`{"web_search_options":{"search_context_size":"low"}}`).Models)
	require.Empty(t, read(`{"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"model":{}}}}}]}`).Models)
}
