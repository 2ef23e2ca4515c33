package jsonwalk_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/jsonwalk"
)

func TestStrings(t *testing.T) {
	long := `"` + "0123456789012345678901234567890123456789012345678901234567890123456789"
	for text, want := range map[string]int{
		`""`: 2, `"a"x`: 3, `"\""x`: 4, `"\\"x`: 4, `"\\\""`: 6, `"a`: 2, `"`: 1, `"\`: 2, `"\"`: 3,
		long + `"x`: 72, long + `\"x"y`: 75, long + `\\"x"y`: 74, long: 71, long + `\"`: 73,
	} {
		require.Equal(t, want, jsonwalk.String([]byte(text), 0), text)
	}
}

// FuzzWalk walks whatever is JSON, and finds the places that encoding/json finds.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{`{}`, `[]`, `{"a":[1,-2.5e3,true,false,null,"\"]"],"b":{"":{}}}`,
		` [ { "a" : 1 } , "x\\" ] `, `3`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		jsonwalk.String(data, 0)
		if !json.Valid(data) {
			return
		}
		at := jsonwalk.Between(data, 0)
		end := jsonwalk.Value(data, at)
		require.True(t, json.Valid(data[at:end]))
		switch data[at] {
		case '[':
			var want []json.RawMessage
			require.NoError(t, json.Unmarshal(data, &want))
			var got []json.RawMessage
			require.Equal(t, end, jsonwalk.Array(data, at, func(start int) int {
				got = append(got, data[start:jsonwalk.Value(data, start)])
				return jsonwalk.Value(data, start)
			}))
			require.Len(t, got, len(want))
			for i := range want {
				require.Equal(t, string(want[i]), string(got[i]))
			}
		case '{':
			n := 0
			require.Equal(t, end, jsonwalk.Object(data, at, func(name, nameEnd, start int) int {
				n++
				require.True(t, json.Valid(data[name:nameEnd]))
				return jsonwalk.Value(data, start)
			}))
			var want map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(data, &want))
			require.GreaterOrEqual(t, n, len(want))
		}
	})
}
