package gemini

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDocumentsOfTextAreText(t *testing.T) {
	for mime, data := range map[string]string{
		"text/plain":                base64.StdEncoding.EncodeToString([]byte("a,b\n>>??")),
		"text/csv":                  base64.URLEncoding.EncodeToString([]byte("a,b\n>>??")),
		"text/plain; charset=utf-8": base64.RawStdEncoding.EncodeToString([]byte("a,b\n>>??")),
		"application/json":          base64.RawURLEncoding.EncodeToString([]byte("a,b\n>>??")),
	} {
		for name, want := range map[string]string{"": "a,b\n>>??", "x.csv": "x.csv\n\na,b\n>>??"} {
			got, _, err := translated(t, `{"contents":[{"parts":[{"inlineData":{"mimeType":"`+mime+`","displayName":"`+name+
				`","data":"`+data+`"}},{"text":"?"}]}]}`)
			require.NoError(t, err, mime)
			require.Equal(t, "text", got.Get("messages.0.content.0.type").Str)
			require.Equal(t, want, got.Get("messages.0.content.0.text").Str, mime)
		}
	}
	for part, where := range map[string]string{
		`{"inlineData":{"mimeType":"text/plain","data":"*"}}`:                        "inlineData.data",
		`{"inlineData":{"mimeType":"text/plain","data":"/w=="}}`:                     "inlineData.data",
		`{"inlineData":{"mimeType":"text/rtf","data":"YQ=="}}`:                       "inlineData.mimeType",
		`{"fileData":{"mimeType":"text/plain","fileUri":"https://x.example/a.txt"}}`: "fileData.mimeType",
	} {
		_, _, err := translated(t, `{"contents":[{"parts":[`+part+`]}]}`)
		require.ErrorContains(t, err, where, part)
	}
}

func TestPartsOfTheSystemStayApart(t *testing.T) {
	got, _, err := translated(t, `{"systemInstruction":{"parts":[{"text":"a"}]},"contents":[{"parts":[{"text":"?"}]}]}`)
	require.NoError(t, err)
	require.Equal(t, `"a"`, got.Get("messages.0.content").Raw)
	got, _, err = translated(t, `{"systemInstruction":{"parts":[{"text":"a"},{"text":"b"}]},"contents":[{"parts":[{"text":"?"}]}]}`)
	require.NoError(t, err)
	require.Equal(t, `["a","b"]`, got.Get("messages.0.content.#.text").Raw)
}
