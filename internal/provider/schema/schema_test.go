package schema

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv/work"
)

func TestMembersKeepTheirOrderAndText(t *testing.T) {
	const text = ` { "z" : 1.0 , "a\u0062" :{"x":[1, 2]},"e":"<&>" , "z":null} `
	ms := Members(jsontext.Value(text))
	require.Equal(t, []Member{
		{"z", jsontext.Value(`1.0`)}, {"ab", jsontext.Value(`{"x":[1, 2]}`)}, {"e", jsontext.Value(`"<&>"`)},
		{"z", jsontext.Value(`null`)},
	}, ms)
	require.Equal(t, `{"z":1.0,"ab":{"x":[1, 2]},"e":"<&>","z":null}`, string(AppendObject(nil, ms)))
	require.Equal(t, "1.0", string(Find(ms, "z")))
	require.Nil(t, Find(ms, "y"))
	require.Equal(t, `[1.0]`, string(AppendArray(nil, []jsontext.Value{ms[0].Value})))
}

func TestElementsKeepTheirOrderAndText(t *testing.T) {
	got := Elements(jsontext.Value(` [ 1.0 ,{"a": 2}, [], null ] `))
	require.Equal(t, []jsontext.Value{jsontext.Value(`1.0`), jsontext.Value(`{"a": 2}`), jsontext.Value(`[]`),
		jsontext.Value(`null`)}, got)
	require.Equal(t, `[1.0,{"a": 2},[],null]`, string(AppendArray(nil, got)))
}

func TestWhatIsNoObjectHasNoMembers(t *testing.T) {
	for _, text := range []string{"", "null", "7", `"x"`, "[1]", "{}", " "} {
		require.Empty(t, Members(jsontext.Value(text)), text)
	}
	for _, text := range []string{"", "null", "7", "{}", "[]"} {
		require.Empty(t, Elements(jsontext.Value(text)), text)
	}
}

func TestMembersAreNotOverwrittenByAppending(t *testing.T) {
	text := jsontext.Value(`{"a":1,"b":2}`)
	_ = append(Members(text)[0].Value, "000"...)
	require.Equal(t, `{"a":1,"b":2}`, string(text))
}

func TestDescribe(t *testing.T) {
	require.Equal(t, `{"type":"string","description":"hint"}`,
		string(AppendObject(nil, Describe(Members(jsontext.Value(`{"type":"string"}`)), "hint"))))
	require.Equal(t, `{"description":"\"a\"\n\nhint","x":1}`,
		string(AppendObject(nil, Describe(Members(jsontext.Value(`{"description":"\"a\"","x":1}`)), "hint"))))
}

func TestObject(t *testing.T) {
	for given, want := range map[string][2]string{
		``:                                       {`{"type":"object","properties":{}}`, ``},
		`null`:                                   {`{"type":"object","properties":{}}`, ``},
		`{}`:                                     {`{"type":"object","properties":{}}`, ``},
		`{"type":"object", "x":1}`:               {`{"type":"object", "x":1}`, ``},
		`{"properties":{}}`:                      {`{"type":"object","properties":{}}`, ``},
		`{"type":["object","null"],"title":"t"}`: {`{"type":"object","title":"t"}`, ``},
		`{"anyOf":[{"a":1}],"title":"t"}`:        {`{"type":"object","title":"t"}`, `{"anyOf":[{"a":1}]}`},
		`{"type":"object","allOf":[],"oneOf":[]}`: {`{"type":"object"}`, `{"allOf":[],"oneOf":[]}`},
	} {
		object, also := Object(jsontext.Value(given))
		require.Equal(t, want, [2]string{string(object), also}, given)
	}
}

func TestClosed(t *testing.T) {
	deep := strings.Repeat(`{"type":"object","properties":{"a":`, MaxDepth)
	for given, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"string","minLength":1,"description":"d"}},"$schema":"s"}`:                  `{"type":"object","properties":{"a":{"type":"string","description":"d\n\n{\"minLength\":1}"}},"additionalProperties":false}`,
		`{"type":"object","additionalProperties":false}`:                                                                        `{"type":"object","additionalProperties":false}`,
		`{"type":"object","oneOf":[{"type":"object","properties":{}},true]}`:                                                    `{"type":"object","anyOf":[{"type":"object","properties":{},"additionalProperties":false},true],"additionalProperties":false}`,
		`{"type":"object","properties":{},"$defs":{"d":{"properties":{}}}}`:                                                     `{"type":"object","properties":{},"$defs":{"d":{"properties":{},"additionalProperties":false}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"items":{"type":["object","null"],"properties":{}},"minItems":1,"maxItems":3}}}`:   `{"type":"object","properties":{"a":{"items":{"type":["object","null"],"properties":{},"additionalProperties":false},"minItems":1,"description":"{\"maxItems\":3}"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"format":"date"},"b":{"format":"x"}}}`:                                             `{"type":"object","properties":{"a":{"format":"date"},"b":{"description":"{\"format\":\"x\"}"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"string"}}}`:    `{"type":"object","properties":{"a":{"$ref":"#/$defs/n"},"b":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"string"}},"additionalProperties":false}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"array","items":{"$ref":"#/$defs/n"}}}}`: "",
		`{"type":"object","properties":{"a":{"$ref":"#"}}}`:                                                                     "",
		`{"type":"object","properties":{"a":{"type":"object"}}}`:                                                                "",
		`{"type":"object","additionalProperties":true}`:                                                                         "",
		`{"type":"object","patternProperties":{}}`:                                                                              "",
		`{"type":"object","properties":{"a":false}}`:                                                                            "",
		`{"type":"object","anyOf":[{"not":{}}]}`:                                                                                "",
		`{"type":"array"}`:                                                                                                      "",
		`{}`:                                                                                                                    "",
		`true`:                                                                                                                  "",
		deep + `{}` +
			strings.Repeat("}}", MaxDepth): "",
	} {
		got, ok := Closed(jsontext.Value(given))
		require.Equal(t, want != "", ok, given)
		require.Equal(t, want, string(got))
	}
}

// wide is a schema of n bytes at least, with as many levels as are read.
func wide(n int) jsontext.Value {
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{`)
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b,
			`"p%d":{"type":"object","properties":{"a":{"type":"array","items":{"anyOf":[{"type":"string","minLength":1},{"type":"null"}]}}}},`, i)
	}
	b.WriteString(`"z":{"type":"string"}}}`)
	return jsontext.Value(b.String())
}

func TestLargeAndDeepSchemasAreRewrittenInTime(t *testing.T) {
	begun := time.Now()
	_, ok := Closed(wide(1 << 20))
	require.True(t, ok)
	nested := jsontext.Value(strings.Repeat(`{"type":"object","properties":{"a":`, 4000) + `{"title":"` +
		strings.Repeat("x", 1<<20) + `"}` + strings.Repeat("}}", 4000))
	require.True(t, nested.IsValid())
	_, ok = Closed(nested)
	require.False(t, ok)
	require.Less(t, time.Since(begun), 5*time.Second, "in proportion it takes a tenth of a second")
}

func BenchmarkClosed(b *testing.B) {
	for _, size := range []int{2 << 10, 1 << 20} {
		text := wide(size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Closed(text)
			}
		})
	}
}

func FuzzClosed(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"oneOf":[{"minLength":1},true]}},"$defs":{"d":{}}}`))
	f.Add([]byte(`{"anyOf":[1],"description":7,"type":"object","format":"date"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		text := jsontext.Value(data)
		valid := text.IsValid()
		object, also := Object(text)
		var got jsontext.Value
		var ok bool
		work.Require(t, len(data), 400, func() { got, ok = Closed(text) })
		if !valid {
			return
		}
		require.True(t, object.IsValid(), "%s", object)
		require.True(t, also == "" || jsontext.Value(also).IsValid(), "%s", also)
		require.True(t, !ok || got.IsValid(jsontext.AllowDuplicateNames(true)), "%s", got)
	})
}
