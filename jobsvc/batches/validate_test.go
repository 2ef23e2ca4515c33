package batches_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/jobsvc/batches"
	"github.com/modelgate/modelgate/jobsvc/store"
)

// good is a line of an input.
func good(customID string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[]}}`,
		customID)
}

func with(member, value string) string {
	line := good("a")
	switch member {
	case "model":
		return strings.Replace(line, `"m"`, value, 1)
	case "body":
		return strings.Replace(line, `{"model":"m","messages":[]}`, value, 1)
	case "custom_id":
		return strings.Replace(line, `"a"`, value, 1)
	case "url":
		return strings.Replace(line, `"/v1/chat/completions"`, value, 1)
	}
	return strings.Replace(line, `"POST"`, value, 1)
}

func without(member string) string { return strings.Replace(good("a"), `"`+member+`"`, `"no"`, 1) }

func TestABadInputFailsWithItsLines(t *testing.T) {
	w := newWorld(t)
	w.asked.may = func(model string) (bool, error) { return model != "gone", nil }
	w.run(nil)
	const notJSON = "This line is not parseable as valid JSON."
	type problem struct {
		code    string
		line    int // 0: null
		param   string
		message string // "" is any
	}
	for name, c := range map[string]struct {
		text string
		want []problem
	}{
		"no lines":           {"", []problem{{"empty_file", 0, "", ""}}},
		"blank lines":        {"\n \r\n\t\n", []problem{{"empty_file", 0, "", ""}}},
		"nothing but a mark": {"\ufeff\n", []problem{{"empty_file", 0, "", ""}}},
		"no JSON":            {good("a") + "\n{\"custom_id\":", []problem{{"invalid_json_line", 2, "", notJSON}}},
		"two values":         {good("a") + good("b"), []problem{{"invalid_json_line", 1, "", notJSON}}},
		"an array":           {"[1]", []problem{{"invalid_request", 1, "", ""}}},
		"not UTF-8":          {with("custom_id", "\"\xff\""), []problem{{"invalid_json_line", 1, "", notJSON}}},
		"UTF-16": {"\xff\xfe{\x00}\x00\n\x00", []problem{{"invalid_json_line", 1, "", notJSON},
			{"invalid_json_line", 2, "", notJSON}}},
		"nested without end":         {strings.Repeat("[", 1<<20), []problem{{"invalid_json_line", 1, "", notJSON}}},
		"a mark in the middle":       {good("a") + "\n\ufeff" + good("b"), []problem{{"invalid_json_line", 2, "", notJSON}}},
		"line numbers behind blanks": {good("a") + "\r\n\r\n\n" + "x\n", []problem{{"invalid_json_line", 4, "", notJSON}}},
		"several": {"x\n" + good("a") + "\n" + without("method"),
			[]problem{{"invalid_json_line", 1, "", ""}, {"missing_required_parameter", 3, "method",
				"Missing required parameter: 'method'."}}},
		"no custom_id": {without("custom_id"),
			[]problem{{"missing_required_parameter", 1, "custom_id", "Missing required parameter: 'custom_id'."}}},
		"no url":              {without("url"), []problem{{"missing_required_parameter", 1, "url", ""}}},
		"no body":             {without("body"), []problem{{"missing_required_parameter", 1, "body", ""}}},
		"no model":            {without("model"), []problem{{"missing_required_parameter", 1, "body.model", ""}}},
		"an empty custom_id":  {with("custom_id", `""`), []problem{{"invalid_request", 1, "custom_id", ""}}},
		"a long custom_id":    {good(strings.Repeat("ä", 513)), []problem{{"invalid_request", 1, "custom_id", ""}}},
		"a number as id":      {with("custom_id", "7"), []problem{{"invalid_request", 1, "custom_id", ""}}},
		"another method":      {with("method", `"GET"`), []problem{{"invalid_request", 1, "method", ""}}},
		"another url":         {with("url", `"/v1/embeddings"`), []problem{{"url_mismatch", 1, "url", ""}}},
		"a body that is none": {with("body", `"x"`), []problem{{"invalid_request", 1, "body", ""}}},
		"a model of a kind":   {with("model", "1"), []problem{{"invalid_request", 1, "body.model", ""}}},
		"a long model": {with("model", `"`+strings.Repeat("m", 257)+`"`),
			[]problem{{"invalid_request", 1, "body.model", ""}}},
		"a stream": {with("body", `{"model":"m","stream":true}`),
			[]problem{{"invalid_request", 1, "body.stream", ""}}},
		"a custom_id twice": {good("a") + "\n" + good("b") + "\n" + good("a"),
			[]problem{{"duplicate_custom_id", 3, "custom_id", ""}}},
		"the same id, escaped": {good("a") + "\n" + with("custom_id", `"\u0061"`),
			[]problem{{"duplicate_custom_id", 2, "custom_id", ""}}},
		"an unknown model": {good("a") + "\n" + strings.Replace(with("model", `"gone"`), `"a"`, `"b"`, 1),
			[]problem{{"model_not_found", 2, "body.model",
				"The model `gone` does not exist or you do not have access to it."}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := w.over(w.create(c.text))
			require.Equal(t, "failed", b.status(), b.Raw)
			require.NotZero(t, b.Get("failed_at").Int())
			require.Equal(t, "list", b.Get("errors.object").String())
			require.JSONEq(t, `{"total":0,"completed":0,"failed":0}`, b.Get("request_counts").Raw)
			got := b.Get("errors.data").Array()
			require.Len(t, got, len(c.want), b.Raw)
			for i, want := range c.want {
				require.Equal(t, want.code, got[i].Get("code").String())
				require.EqualValues(t, want.line, got[i].Get("line").Int())
				require.Equal(t, want.line == 0, got[i].Get("line").Raw == "null")
				require.Equal(t, want.param, got[i].Get("param").String())
				require.Equal(t, want.param == "", got[i].Get("param").Raw == "null")
				require.NotEmpty(t, got[i].Get("message").String())
				if want.message != "" {
					require.Equal(t, want.message, got[i].Get("message").String())
				}
			}
		})
	}
	total, _ := w.asked.total()
	require.Zero(t, total)
}

func TestHowAnInputMayBeWritten(t *testing.T) {
	w := newWorld(t)
	w.run(nil)
	for name, text := range map[string]string{
		"with a byte order mark":     "\ufeff" + good("a") + "\n" + good("b") + "\n",
		"with CRLF":                  good("a") + "\r\n" + good("b") + "\r\n",
		"without an end of the last": good("a") + "\n" + good("b"),
		"with blank lines":           "\n\n" + good("a") + "\n  \n" + good("b") + "\n\n",
		"with room around":           "  " + good("a") + "\t\n " + good("b"),
		"with stream off": strings.Replace(good("a"), `"messages"`, `"stream":false,"messages"`, 1) + "\n" +
			strings.Replace(good("b"), `"messages"`, `"stream":null,"messages"`, 1),
		"with members of their own":   strings.Replace(good("a"), `{`, `{"x":[{"custom_id":1}],`, 1) + "\n" + good("b"),
		"with escapes":                strings.ReplaceAll(good("a"), `"m"`, `"\u006d"`) + "\n" + good("b"),
		"with the last of two counts": strings.Replace(good("x"), `"x"`, `"x","custom_id":"a"`, 1) + "\n" + good("b"),
	} {
		t.Run(name, func(t *testing.T) {
			b := w.over(w.create(text))
			require.Equal(t, "completed", b.status(), b.Raw)
			require.Equal(t, "m", b.Get("model").String())
			output := w.file(b, "output_file_id")
			require.Len(t, output, 2)
			require.Contains(t, output, "a")
			require.Contains(t, output, "b")
		})
	}
}

func TestALineMayBeLong(t *testing.T) {
	w := newWorld(t)
	w.run(nil)
	long := func(n int) string {
		return strings.Replace(good("a"), `"messages"`, `"x":"`+strings.Repeat("y", n)+`","messages"`, 1)
	}
	b := w.over(w.create(long(1<<20) + "\n" + good("b")))
	require.Equal(t, "completed", b.status(), b.Raw)
	b = w.over(w.create(good("b") + "\n" + long(32<<20) + "\n" + good("c") + "\nx"))
	require.Equal(t, "failed", b.status())
	require.Equal(t, "line_too_long", b.Get("errors.data.0.code").String())
	require.EqualValues(t, 2, b.Get("errors.data.0.line").Int())
	require.EqualValues(t, 4, b.Get("errors.data.1.line").Int())
}

func TestTooManyLinesAndModels(t *testing.T) {
	w := newWorld(t)
	w.run(nil)
	b := w.over(w.create(strings.Repeat("{}\n", 50) + requests(1)))
	require.Len(t, b.Get("errors.data").Array(), 50)

	var text strings.Builder
	for i := range 102 {
		fmt.Fprintln(&text, strings.Replace(good(fmt.Sprint(i)), `"m"`, fmt.Sprintf(`"m%d"`, i), 1))
	}
	b = w.over(w.create(text.String()))
	require.Equal(t, "too_many_models", b.Get("errors.data.0.code").String())
	require.EqualValues(t, 101, b.Get("errors.data.0.line").Int())

	b = w.over(w.create(requests(50_001)))
	require.Equal(t,
		`[{"code":"too_many_tasks","message":"The input file has more than 50000 requests. Split it into several batches.","param":null,"line":null}]`, b.Get("errors.data").Raw)
}

func TestTheRecordOfABatchIsSmallHoweverManyProblemsItHas(t *testing.T) {
	w := newWorld(t)
	w.run(nil)
	line := strings.Replace(good("a"), `"POST"`, `"`+strings.Repeat("ü", 5000)+`"`, 1) + "\n"
	id := w.create(strings.Repeat(line, 20_000))
	b := w.over(id)
	require.Equal(t, "failed", b.status())
	require.Len(t, b.Get("errors.data").Array(), 100)
	require.EqualValues(t, 100, b.Get("errors.data.99.line").Int())
	require.Less(t, w.recordSize(), 64<<10)
}

// recordSize returns the size of the largest record of a batch.
func (w *world) recordSize() (most int) {
	w.t.Helper()
	page, _, err := batches.Kind.List(w.t.Context(), w.store, tenant, store.Page{Limit: 100}, nil)
	require.NoError(w.t, err)
	for _, r := range page {
		most = max(most, len(fmt.Sprintf("%+v", r.Value)))
	}
	return most
}

func TestModelsAreLookedUpAgainWhereTheGatewayIsAway(t *testing.T) {
	w := newWorld(t)
	times := 0
	w.asked.may = func(string) (bool, error) {
		if times++; times < 3 {
			return false, errors.New("the gateway is away")
		}
		return true, nil
	}
	w.run(nil)
	b := w.over(w.create(requests(2)))
	require.Equal(t, "completed", b.status())
	require.Equal(t, 3, times)
}
