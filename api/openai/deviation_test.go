package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

// What no vendor can read is refused before the vendor is known. (report 4)
func TestKnownMembersAreChecked(t *testing.T) {
	part := func(p string) string { return message(`{"role":"user","content":[` + p + `]}`) }
	for _, c := range []struct{ body, param, code, text string }{
		{with(`"tools":[{"type":"function","function":{"name":"f"}},{"function":{"name":"f"}}]`), "tools[1].type",
			"missing_required_parameter", "Missing required parameter: 'tools[1].type'."},
		{with(`"tools":[{"type":1}]`), "tools[0].type", "invalid_type",
			"Invalid type for 'tools[0].type': expected a string, but got a number instead."},
		{with(`"tools":["x"]`), "tools[0]", "invalid_type", ""},
		{with(`"tools":[{"type":"function"}]`), "tools[0].function", "missing_required_parameter", ""},
		{with(`"tools":[{"type":"function","function":"f"}]`), "tools[0].function", "invalid_type", ""},
		{with(`"tools":[{"type":"function","function":{}}]`), "tools[0].function.name", "missing_required_parameter",
			"Missing required parameter: 'tools[0].function.name'."},
		{with(`"tools":[{"type":"function","function":{"name":null}}]`), "tools[0].function.name",
			"missing_required_parameter", ""},
		{with(`"tools":[{"type":"function","function":{"name":7}}]`), "tools[0].function.name", "invalid_type", ""},
		{with(`"tools":[{"type":"function","function":{"name":""}}]`), "tools[0].function.name", "empty_string", ""},
		{with(`"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`), "tools[0].function.parameters",
			"invalid_type", ""},
		{with(`"tools":[{"type":"function","function":{"name":"f","strict":"yes"}}]`), "tools[0].function.strict",
			"invalid_type", "Invalid type for 'tools[0].function.strict': expected a boolean, but got a string instead."},
		{with(`"tools":[{"type":"function","function":{"name":"f","description":{}}}]`), "tools[0].function.description",
			"invalid_type", ""},
		{with(`"tools":[{"type":"custom"}]`), "tools[0].custom", "missing_required_parameter", ""},
		{with(`"tools":[{"type":"custom","custom":{}}]`), "tools[0].custom.name", "missing_required_parameter", ""},
		{with(`"tool_choice":{}`), "tool_choice.type", "missing_required_parameter", ""},
		{with(`"tool_choice":{"type":1}`), "tool_choice.type", "invalid_type", ""},
		{with(`"tool_choice":{"type":"function"}`), "tool_choice.function", "missing_required_parameter", ""},
		{with(`"tool_choice":{"type":"function","function":{}}`), "tool_choice.function.name", "missing_required_parameter",
			""},
		{with(`"tool_choice":{"type":"function","function":{"n\u0061me":[]}}`), "tool_choice.function.name", "invalid_type",
			""},
		{with(`"tool_choice":{"type":"custom"}`), "tool_choice.custom", "missing_required_parameter", ""},
		{with(`"tool_choice":{"type":"allowed_tools"}`), "tool_choice.allowed_tools", "missing_required_parameter", ""},
		{with(`"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":{}}}`),
			"tool_choice.allowed_tools.tools", "invalid_type", ""},
		{with(`"tool_choice":5`), "tool_choice", "invalid_type", ""},
		{with(`"functions":[{}]`), "functions[0].name", "missing_required_parameter", ""},
		{with(`"functions":{}`), "functions", "invalid_type", ""},
		{with(`"function_call":{}`), "function_call.name", "missing_required_parameter", ""},
		{with(`"logit_bias":{"50256":"x"}`), "logit_bias.50256", "invalid_type",
			"Invalid type for 'logit_bias.50256': expected a decimal, but got a string instead."},
		{with(`"logit_bias":"x"`), "logit_bias", "invalid_type", ""},
		{with(`"prediction":{"content":"x"}`), "prediction.type", "missing_required_parameter", ""},
		{with(`"prediction":{"type":"content"}`), "prediction.content", "missing_required_parameter", ""},
		{with(`"prediction":{"type":"content","content":1}`), "prediction.content", "invalid_type", ""},
		{with(`"prediction":"x"`), "prediction", "invalid_type", ""},
		{with(`"audio":{"format":"wav"}`), "audio.voice", "missing_required_parameter", ""},
		{with(`"audio":{"voice":"alloy"}`), "audio.format", "missing_required_parameter", ""},
		{with(`"audio":{"voice":1,"format":"wav"}`), "audio.voice", "invalid_type", ""},
		{with(`"modalities":["text",1]`), "modalities[1]", "invalid_type", ""},
		{with(`"modalities":"text"`), "modalities", "invalid_type", ""},
		{with(`"response_format":{}`), "response_format.type", "missing_required_parameter", ""},
		{with(`"response_format":{"type":1}`), "response_format.type", "invalid_type", ""},
		{with(`"response_format":{"type":"json_schema","json_schema":"x"}`), "response_format.json_schema", "invalid_type",
			""},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":5}}`), "response_format.json_schema.name",
			"invalid_type",
			"Invalid type for 'response_format.json_schema.name': expected a string, but got a number instead."},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":"x"}}`),
			"response_format.json_schema.schema", "invalid_type", ""},
		{with(`"response_format":{"type":"json_schema","json_schema":{"name":"s","strict":1}}`),
			"response_format.json_schema.strict", "invalid_type", ""},
		{part(`{"type":"image_url","image_url":{}}`), "messages[0].content[0].image_url.url", "missing_required_parameter",
			""},
		{part(`{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":5}}`),
			"messages[0].content[1].image_url.url", "invalid_type", ""},
		{part(`{"type":"image_url","image_url":{"url":"u","detail":1}}`), "messages[0].content[0].image_url.detail",
			"invalid_type", ""},
		{part(`{"type":"input_audio","input_audio":{"data":"x"}}`), "messages[0].content[0].input_audio.format",
			"missing_required_parameter", ""},
		{part(`{"type":"input_audio","input_audio":{"format":"wav"}}`), "messages[0].content[0].input_audio.data",
			"missing_required_parameter", ""},
		{part(`{"type":"input_audio","input_audio":{"data":1,"format":"wav"}}`), "messages[0].content[0].input_audio.data",
			"invalid_type", ""},
		{part(`{"type":"file","file":{"file_id":1}}`), "messages[0].content[0].file.file_id", "invalid_type", ""},
		{part(`{"type":5}`), "messages[0].content[0].type", "invalid_type", ""},
		{message(`{"role":"assistant","refusal":{}}`), "messages[0].refusal", "invalid_type", ""},
		{message(`{"role":"assistant","function_call":"f"}`), "messages[0].function_call", "invalid_type", ""},
		{message(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":1}}]}`),
			"messages[0].tool_calls[0].function.name", "invalid_type", ""},
		{message(`{"role":"assistant","tool_calls":[{"id":"1"},{"id":2}]}`), "messages[0].tool_calls[1].id", "invalid_type",
			""},
		{with(`"reasoning_effort":1`), "reasoning_effort", "invalid_type", ""},
		{with(`"verbosity":true`), "verbosity", "invalid_type", ""},
		{with(`"service_tier":{}`), "service_tier", "invalid_type", ""},
		{with(`"safety_identifier":1`), "safety_identifier", "invalid_type", ""},
		{with(`"prompt_cache_key":1`), "prompt_cache_key", "invalid_type", ""},
		{with(`"web_search_options":true`), "web_search_options", "invalid_type", ""},
		{with(`"max_tokens":1e400`), "max_tokens", "invalid_type", ""},
		{with(`"temperature":1e400`), "temperature", "decimal_above_max_value", ""},
	} {
		_, err := openai.ParseChatRequest([]byte(c.body))
		var e *openai.Error
		require.ErrorAs(t, err, &e, c.body)
		require.Equal(t, []any{400, openai.TypeInvalidRequest, c.param, c.code},
			[]any{e.Status, e.Type, e.Param, string(e.Code)},
			c.body)
		if c.text != "" {
			require.Equal(t, c.text, e.Message)
		}
	}
}

// What OpenAI refuses and another vendor may have documented is left to who knows the vendor. (report 9)
func TestWhatOnlyOpenAIRefusesIsJudgedLater(t *testing.T) {
	for key, c := range map[string]struct{ body, param, code string }{
		"top_p":           {with(`"top_p":-1`), "top_p", "decimal_below_min_value"},
		"max_tokens":      {with(`"max_tokens":-1`), "max_tokens", "integer_below_min_value"},
		"temperature":     {with(`"temperature":2.5`), "temperature", "decimal_above_max_value"},
		"top_logprobs":    {with(`"top_logprobs":2`), "top_logprobs", "invalid_value"},
		"logprobs":        {with(`"logprobs":2`), "logprobs", "invalid_type"},
		"logit_bias":      {with(`"logit_bias":{"a":-101}`), "logit_bias.a", "decimal_below_min_value"},
		"stream_options":  {with(`"stream_options":{}`), "stream_options", "invalid_value"},
		"tool_choice:any": {with(`"tool_choice":"any"`), "tool_choice", "invalid_value"},
		"tool_choice.type": {with(`"tool_choice":{"function":{"name":"f"}}`), "tool_choice.type",
			"missing_required_parameter"},
		"tools.type": {with(`"tools":[{"url_context":{}}]`), "tools[0].type",
			"missing_required_parameter"},
		"response_format:regex": {with(`"response_format":{"type":"regex","pattern":"a"}`), "response_format.type",
			"invalid_value"},
		"response_format:structural_tag": {with(`"response_format":{"type":"structural_tag","structures":[]}`),
			"response_format.type", "invalid_value"},
		"response_format.json_schema": {with(`"response_format":{"type":"json_schema","schema":{}}`),
			"response_format.json_schema", "missing_required_parameter"},
		openai.Unnamed: {with(`"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`),
			openai.Unnamed, "missing_required_parameter"},
		"audio":                 {with(`"modalities":["audio"]`), "audio", "missing_required_parameter"},
		"messages.role:ipython": {message(`{"role":"ipython","content":"x"}`), "messages[0].role", "invalid_value"},
		"image_url": {message(`{"role":"user","content":[{"type":"image_url","image_url":"u"}]}`),
			"messages[0].content[0].image_url", "invalid_type"},
		"input_audio": {message(`{"role":"user","content":[{"type":"input_audio","input_audio":"u"}]}`),
			"messages[0].content[0].input_audio", "invalid_type"},
	} {
		t.Run(key, func(t *testing.T) {
			r, err := openai.ParseChatRequest([]byte(c.body))
			require.NoError(t, err)
			require.True(t, r.HasDeviation(key))
			require.False(t, r.HasDeviation("x"))
			for _, judged := range []error{r.RejectDeviations(), r.RejectDeviations("x", key+"x"), r.RejectAll()} {
				var e *openai.Error
				require.ErrorAs(t, judged, &e)
				require.Equal(t, []any{400, c.param, c.code}, []any{e.Status, e.Param, string(e.Code)}, e.Message)
			}
			require.NoError(t, r.RejectDeviations("x", key))
			require.NoError(t, r.RejectDeviations("*"))
		})
	}
	r, err := openai.ParseChatRequest([]byte(with(`"tool_choice":"any","top_p":-1`)))
	require.NoError(t, err)
	require.NoError(t, r.RejectDeviations("tool_choice", "top_p"), "a member stands for each of its words")
	require.Error(t, r.RejectDeviations("tool_choice"))
}

// Words of lists to which OpenAI adds are refused by nobody but a vendor that knows what there is today. (report 4)
func TestNewWordsPass(t *testing.T) {
	for body, param := range map[string]string{
		with(
			`"reasoning_effort":"utmost"`): "reasoning_effort",
		with(
			`"service_tier":"gold"`): "service_tier",
		with(`"verbosity":"mute"`): "verbosity",
		with(
			`"modalities":["text","video"]`): "modalities[1]",
		with(
			`"tools":[{"type":"web_search"}]`): "tools[0].type",
		with(
			`"tool_choice":{"type":"web_search"}`): "tool_choice.type",
		with(
			`"audio":{"voice":"alloy","format":"midi"}`): "audio.format",
		with(
			`"prediction":{"type":"tokens","content":""}`): "prediction.type",
		message(
			`{"role":"user","content":[{"type":"video_url","video_url":{"url":"u"}}]}`): "messages[0].content[0].type",
		message(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"u","detail":"ultra"}}]}`):    "messages[0].content[0].image_url.detail",
		message(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"","format":"flac"}}]}`): "messages[0].content[0].input_audio.format",
	} {
		r, err := openai.ParseChatRequest([]byte(body))
		require.NoError(t, err)
		require.NoError(t, r.RejectDeviations())
		var e *openai.Error
		require.ErrorAs(t, r.RejectAll(), &e, body)
		require.Equal(t, []any{400, param, "invalid_value"}, []any{e.Status, e.Param, string(e.Code)})
	}
}

func TestTooManyDeparturesAreRefused(t *testing.T) {
	list := ""
	for i := range 17 {
		list += `{"role":"r` + string(rune('a'+i)) + `","content":"x"},`
	}
	_, err := openai.ParseChatRequest([]byte(message(list + `{"role":"user","content":"x"}`)))
	var e *openai.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "messages[16].role", e.Param)
}

func TestNameSchema(t *testing.T) {
	for in, want := range map[string]string{
		`{"json_schema":{"schema":{}}}`:                    `{"json_schema":{"name":"response","schema":{}}}`,
		`{ "type":"x", "json_schema" : { } }`:              `{ "type":"x", "json_schema" : {"name":"response" } }`,
		`{"json_schema":{"strict":true,"name":"" },"a":1}`: `{"json_schema":{"strict":true,"name":"response" },"a":1}`,
		`{"json_schema":{"name":null}}`:                    `{"json_schema":{"name":"response"}}`,
	} {
		require.Equal(t, want, string(openai.NameSchema([]byte(in))))
	}
}
