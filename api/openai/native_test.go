package openai_test

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
)

func TestNativeRequestKeepsEveryOtherByte(t *testing.T) {
	body := `{ "prompt":"a \ud83d\ude00", "model" : "a/gpt-image-1" , "x_n":1.50, "x":{"model":"no"} }`
	r, err := openai.ParseNativeRequest([]byte(body))
	require.NoError(t, err)
	require.Equal(t, "a/gpt-image-1", r.Model)
	require.Equal(t, strings.Replace(body, `"a/gpt-image-1"`, `"gpt-\"1"`, 1), string(r.WithModel(`gpt-"1`)))
	require.Equal(t, body, string(r.WithModel("a/gpt-image-1")))
}

func TestNativeRequestIsRefused(t *testing.T) {
	for body, code := range map[string]string{
		`{"model":"x"`:                           "invalid_json",
		`[]`:                                     "invalid_type",
		`{"prompt":"x"}`:                         "missing_required_parameter",
		`{"model":null}`:                         "missing_required_parameter",
		`{"model":7}`:                            "invalid_type",
		`{"model":""}`:                           "invalid_value",
		`{"model":"a","model":"b"}`:              "duplicate_parameter",
		`{"model":"a","mod\u0065l":"b"}`:         "duplicate_parameter",
		`{"model":"a","n":" 5"}`:                 "invalid_type",
		`{"model":"a","n":"5"}`:                  "invalid_type",
		`{"model":"a","n":5.5}`:                  "invalid_type",
		`{"model":"a","n":true}`:                 "invalid_type",
		`{"model":"a","n":0}`:                    "integer_below_min_value",
		`{"model":"a","max_tool_calls":"9"}`:     "invalid_type",
		`{"model":"a","max_output_tokens":[16]}`: "invalid_type",
	} {
		_, err := openai.ParseNativeRequest([]byte(body))
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, "%s: %v", body, err)
		require.Equal(t, code, string(e.Code), body)
	}
}

// TestTheNumberOfAFormIsDigits: what one vendor reads as 5 and another as 1 is neither.
func TestTheNumberOfAFormIsDigits(t *testing.T) {
	for n, good := range map[string]bool{
		"1": true, "5": true, "10": true, "9007199254740991": true,
		"": false, " 5": false, "5 ": false, "+5": false, "-5": false, "05": false, "0": false, "5.0": false, "5e0": false,
		"0x5": false, "5\r\n": false, "\uff15": false, "five": false,
		"90071992547409910": false,
	} {
		_, err := openai.ParseFormRequest(
			[]byte("--b\r\nContent-Disposition: form-data; name=model\r\n\r\na/m\r\n--b\r\nContent-Disposition: form-data; name=n\r\n\r\n"+n+"\r\n--b--\r\n"), "b")
		if good {
			require.NoError(t, err, n)
			continue
		}
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, "%q: %v", n, err)
		require.Equal(t, 400, e.Status)
		require.Equal(t, "n", e.Param)
	}
}

// form returns a form with a file of size bytes, written as the standard library does, before or after the model.
func form(t testing.TB, size int, modelFirst bool) (body []byte, boundary string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	model := func() { require.NoError(t, w.WriteField("model", "a/whisper-1")) }
	if modelFirst {
		model()
	}
	file, err := w.CreateFormFile("file", `speech "1".mp3`)
	require.NoError(t, err)
	_, err = file.Write(bytes.Repeat([]byte("\r\n--\x00model\n"), size/12))
	require.NoError(t, err)
	require.NoError(t, w.WriteField("prompt", "the model\r\nis --"+w.Boundary()+"no"))
	if !modelFirst {
		model()
	}
	require.NoError(t, w.Close())
	return b.Bytes(), w.Boundary()
}

func TestFormRequestKeepsEveryOtherByte(t *testing.T) {
	for _, modelFirst := range []bool{true, false} {
		body, boundary := form(t, 1<<20, modelFirst)
		r, err := openai.ParseFormRequest(body, boundary)
		require.NoError(t, err)
		require.Equal(t, "a/whisper-1", r.Model)
		got := r.WithModel("whisper-large")
		require.Equal(t, bytes.Replace(body, []byte("a/whisper-1"), []byte("whisper-large"), 1), got)
		for reader := multipart.NewReader(bytes.NewReader(got), boundary); ; {
			part, err := reader.NextPart()
			require.NoError(t, err, "the model is not in it")
			if part.FormName() != "model" {
				continue
			}
			value, err := io.ReadAll(part)
			require.NoError(t, err)
			require.Equal(t, "whisper-large", string(value))
			break
		}
	}
}

func TestFormRequest(t *testing.T) {
	const head = "Content-Disposition: form-data; name="
	field := func(name, value string) string { return "--b\r\n" + head + name + "\r\n\r\n" + value + "\r\n" }
	file := "--b\r\nContent-Type: audio/mpeg\r\n" + head + `"file"; filename="a.mp3"` +
		"\r\n\r\n --b\r\nx--b\r\n--a\r\n\r\n"
	for _, c := range []struct{ name, boundary, body, model, code string }{
		{"unquoted name", "b", field("model", "m") + "--b--", "m", ""},
		{"padding, preamble and epilogue", "b", "hello\r\n" + strings.Replace(field(`"model"`, "m"), "--b\r\n", "--b \t\r\n",
			1) + "--b--\r\nbye --b\r\n", "m", ""},
		{"lines that end with LF", "b", strings.ReplaceAll(field(`"model"`, "m")+"--b--\n", "\r\n", "\n"), "m", ""},
		{"header in another case, and others", "b", strings.Replace(field(`"model"`, "m"), "Content-Disp",
			"X-A: b\r\ncONTENT-dISP", 1) + "--b--", "m", ""},
		{"a boundary with special characters", "gc0pJq0M:08jU534c0p=?", strings.ReplaceAll(field(`"model"`, "m")+"--b--",
			"--b", "--gc0pJq0M:08jU534c0p=?"), "m", ""},
		{"after a file that looks like boundaries", "b", file + field(`"model"`, "m") + "--b--", "m", ""},

		{"an encoding that changes nothing", "b", strings.Replace(field("model", "m"), "\r\n\r\n",
			"\r\nContent-Transfer-Encoding: 8bit\r\n\r\n", 1) + "--b--", "m", ""},

		{"no model", "b", file + "--b--", "", "missing_required_parameter"},
		{"an empty model", "b", field("model", "") + "--b--", "", "invalid_value"},
		{"two models", "b", field("model", "m") + field(`"model"`, "n") + "--b--", "", "duplicate_parameter"},
		{"a file named model", "b", strings.Replace(file, `"file"`, `"model"`, 1) + "--b--", "", "duplicate_parameter"},
		{"no end", "b", field("model", "m"), "", "invalid_form"},
		{"another boundary", "c", field("model", "m") + "--b--", "", "invalid_form"},
		{"no boundary", "", field("model", "m") + "--b--", "", "invalid_form"},
		{"a long boundary", strings.Repeat("b", 71), "", "", "invalid_form"},
		{"a part without a name that can be read", "b", field("model", "m") + "--b\r\n" + head + `"a` + "\r\n\r\nx\r\n--b--",
			"", "invalid_form"},
		{"a part without a header", "b", "--b\r\n\r\nx\r\n--b--", "", "invalid_form"},
		{"a disposition twice", "b", strings.Replace(field("x", "m"), head, head+"model\r\n"+head, 1) + "--b--", "",
			"invalid_form"},
		{"an empty part", "b", "--b\r\n--b--", "", "invalid_form"},
		{"nothing", "b", "", "", "invalid_form"},
		// What some readers take for a model, or for its end, and others do not.
		{"an extended name", "b", field("model", "m") + field(`"model"; name*=utf-8''x`, "n") + "--b--", "", "invalid_form"},
		{"a name in pieces", "b", field("model", "m") + field(`"x"; name*0="mo"; name*1="del"`, "n") + "--b--", "",
			"invalid_form"},
		{"an encoded model", "b", strings.Replace(field("model", "=6d"), "\r\n\r\n",
			"\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n", 1) + "--b--", "", "invalid_form"},
		{"a header that goes on in the next line", "b", field("model", "m") +
			"--b\r\nContent-Disposition: form-data;\r\n name=model\r\n\r\nn\r\n--b--", "", "invalid_form"},
		{"white space after a header's name", "b", strings.Replace(field("model", "m"), "Disposition:", "Disposition :", 1) +
			"--b--", "", "invalid_form"},
		{"a line that begins as the boundary does", "b", field("model", "m") + field("x", "\r\n--b x\r\n") + "--b--", "",
			"invalid_form"},
		{"another line that begins so", "b", field("model", "m") + field("x", "\n--bb\r\n") + "--b--", "", "invalid_form"},
		{"an end that goes on", "b", field("model", "m") + "--b--x\r\n" + field("model", "n") + "--b--", "", "invalid_form"},
		{"parts after the end", "b", field("model", "m") + "--b--\r\n" + field("model", "n") + "--b--", "", "invalid_form"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := openai.ParseFormRequest([]byte(c.body), c.boundary)
			if c.code == "" {
				require.NoError(t, err)
				require.Equal(t, c.model, r.Model)
				return
			}
			e, ok := errors.AsType[*openai.Error](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, c.code, string(e.Code), e.Message)
		})
	}
}

func FuzzFormRequest(f *testing.F) {
	body, boundary := form(f, 100, false)
	f.Add(body, boundary)
	f.Add([]byte("--b\r\n--b--"), "b")
	f.Fuzz(func(t *testing.T, body []byte, boundary string) {
		r, err := openai.ParseFormRequest(body, boundary)
		if err != nil {
			return
		}
		again, err := openai.ParseFormRequest(r.WithModel("another"), boundary)
		if err == nil {
			require.Equal(t, "another", again.Model)
		}
	})
}

func BenchmarkFormRequest(b *testing.B) {
	body, boundary := form(b, 16<<20, false)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		_, err := openai.ParseFormRequest(body, boundary)
		require.NoError(b, err)
	}
}
