package turns

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDataURI(t *testing.T) {
	for uri, want := range map[string][2]string{
		"data:image/png;base64,aGk+":              {"image/png", "aGk+"},
		"DATA:Image/PNG;charset=x;BASE64,aGk=":    {"image/png", "aGk="},
		"data:;base64,aGk=":                       {"", "aGk="},
		"data:image/png;base64,aGk%3D":            {"image/png", "aGk="},
		"data:image/png;base64,aGk":               {"image/png", "aGk="},
		"data:image/png;base64,aG\r\n k=":         {"image/png", "aGk="},
		"data:image/png;base64,_-8":               {"image/png", "/+8="},
		"data:text/plain;charset=utf-8,h%C3%A9+x": {"text/plain", "aMOpK3g="},
		"data:,x": {"", "eA=="},
	} {
		mediaType, data, ok := DataURI(uri)
		require.True(t, ok, uri)
		require.Equal(t, want, [2]string{mediaType, data}, uri)
	}
	for uri, want := range map[string]string{"https://x/y": "https://x/y", "": "",
		"DATA:image/png,h%69": "data:image/png;base64,aGk="} {
		got, ok := Address(uri)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	_, ok := Address("data:image/png;base64,@")
	require.False(t, ok)
	for _, uri := range []string{"", "data", "https://x/data:,", "data:image/png;base64", "data:image/png;base64,",
		"data:image/png;base64,@@@@", "data:image/png;base64,aGkaG", "data:text/plain,%zz", "data:text/plain,"} {
		_, _, ok := DataURI(uri)
		require.False(t, ok, uri)
	}
}
