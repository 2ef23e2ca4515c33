package guard_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/guard"
	"github.com/modelgate/modelgate/internal/request"
)

// TestNumbersAndFilesThatLookLikeOthers: numbers with a fraction, files in other encodings, and characters that nobody
// sees.
func TestNumbersAndFilesThatLookLikeOthers(t *testing.T) {
	rails, err := guard.Compile([]*configv1.Guardrail{{Name: "g", Rules: []*configv1.GuardRule{{Name: "card",
		Mode: configv1.GuardMode_BLOCK, Data: []configv1.SensitiveData{configv1.SensitiveData_CARD}}}}})
	require.NoError(t, err)
	set := rails.For(&request.Subject{}, "m", nil)
	const card = "4111111111111111"
	blocked := func(body string) bool {
		r, err := set.Request(context.Background(), guard.NewWork(), []byte(body))
		require.NoError(t, err)
		return r.Blocked != ""
	}
	for number, want := range map[string]bool{card + ".5": true, "-" + card + ".25": true, card + "e10": true,
		card + "E9": true, "4.111111111111111e15": true, "0.4111111111111111": false, "48.85837012345678": false,
		"1e300": false} {
		require.Equal(t, want, blocked(`{"metadata":{"a":`+number+`}}`), number)
	}
	file := func(data []byte) string {
		return `{"messages":[{"content":[{"type":"file","file":{"filename":"a","file_data":"` +
			base64.StdEncoding.EncodeToString(data) + `"}}]}]}`
	}
	var wide []byte
	for _, u := range utf16.Encode([]rune("pay " + card)) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	for what, data := range map[string][]byte{"colours": []byte("\x1b[1mpay " + card + "\x1b[0m"),
		"a zero": []byte("pay " + card + "\x00"), "Latin-1": []byte("pay Ren\xe9 " + card), "UTF-16": wide,
		"UTF-16 and a byte": append(wide[:len(wide):len(wide)], 'x')} {
		require.True(t, blocked(file(data)), what)
	}
	binary := make([]byte, 0, 2048)
	for i := range 2048 {
		binary = append(binary, byte(i*167>>2))
	}
	require.False(t, blocked(file(binary)))
	for _, unseen := range []string{"\u034f", "\u180e", "\u3164", "\ufe00", "\U000e0020", "\U000e0100", "\u061c"} {
		text, _ := json.Marshal("4111" + unseen + "1111" + unseen + "1111" + unseen + "1111")
		require.True(t, blocked(`{"messages":[{"content":`+string(text)+`}]}`), "%q", unseen)
	}
}
