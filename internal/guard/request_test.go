package guard

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/offered"
)

func ask(t testing.TB, s *Set, body string) Request {
	t.Helper()
	r, err := s.Request(t.Context(), NewWork(), []byte(body))
	require.NoError(t, err)
	return r
}

// A request of each dialect: every string is judged. Names get names, and the model's and encrypted data stay.
func TestMaskingInEveryDialect(t *testing.T) {
	s := set(t, finds(mask, configv1.SensitiveData_EMAIL))
	const mail = "a@b.example"
	for name, body := range map[string]string{
		"chat": `{"model":"a@b.example","user":"TEXT","messages":[{"role":"system","content":"TEXT"},{"role":"user","name":"NAME","content":[` +
			`{"type":"text","text":"TEXT"},{"type":"image_url","image_url":{"url":"https://b.example/"}}]},` +
			`{"role":"assistant","reasoning_content":"TEXT","tool_calls":[{"id":"NAME","type":"function","function":{"name":"NAME","arguments":"{\"name\":\"TEXT\"}"}}]},` +
			`{"role":"tool","tool_call_id":"NAME","content":"TEXT"}],"tools":[{"type":"function","function":{"name":"f","description":"TEXT"}}],` +
			`"response_format":{"type":"json_schema","json_schema":{"schema":{"enum":["TEXT"]}}},"unknown":{"deep":["TEXT"]}}`,
		"messages": `{"model":"m","max_tokens":5,"system":[{"type":"text","text":"TEXT","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"TEXT"},` +
			`{"role":"assistant","content":[{"type":"thinking","thinking":"TEXT","signature":"SIGNED"},{"type":"tool_use","id":"NAME","name":"f","input":{"name":"TEXT","id":["TEXT"],"url":"TEXT"}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"TEXT"}]},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA4111"}}]}]}`,
		"responses": `{"model":"m","instructions":"TEXT","text":{"format":{"type":"json_schema","schema":{"const":"TEXT"}}},"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"TEXT"},` +
			`{"type":"input_image","image_url":"https://b.example/x"}]},{"type":"function_call","call_id":"NAME","name":"f","arguments":"{\"a\":\"TEXT\"}"},{"type":"function_call_output","call_id":"c","output":"TEXT"},` +
			`{"type":"reasoning","id":"NAME","encrypted_content":"SIGNED","summary":[{"type":"summary_text","text":"TEXT"}]}]}`,
		"input as one text": `{"model":"m","input":"TEXT"}`,
		"gemini": `{"systemInstruction":{"parts":[{"text":"TEXT"}]},"contents":[{"role":"user","parts":[{"text":"TEXT"},{"inlineData":{"mimeType":"a/b","data":"AAAA4111"}}]},` +
			`{"role":"model","parts":[{"functionCall":{"name":"f","args":{"name":"TEXT"}},"thoughtSignature":"SIGNED"}]},` +
			`{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"data":"TEXT"}}}]}],"generationConfig":{"responseSchema":{"enum":["TEXT"]}}}`,
		"rerank":     `{"model":"m","query":"TEXT","documents":["TEXT",{"text":"TEXT"}]}`,
		"completion": `{"model":"m","prompt":["TEXT"],"suffix":"TEXT"}`,
	} {
		t.Run(name, func(t *testing.T) {
			signed := strings.Repeat("aB3+", 20)
			with := func(text, name string) string {
				return strings.NewReplacer("TEXT", text, "NAME", name, "SIGNED", signed).Replace(body)
			}
			r := ask(t, s, with("x "+mail+" y", mail))
			require.Equal(t, with("x [EMAIL_1] y", "EMAIL_1"), string(r.Body))
			require.Equal(t, strings.Count(body, "TEXT")+strings.Count(body, "NAME"),
				r.Findings[Finding{"g/r0", "mask", SideRequest}])
			require.Equal(t, string(r.Body), string(ask(t, s, string(r.Body)).Body), "nothing is left")
		})
	}
}

func TestPlaceholders(t *testing.T) {
	s := set(t, finds(mask, configv1.SensitiveData_EMAIL))
	r := ask(t, s, `{"messages":[{"content":"a@x.example b@x.example a@x.example, and [EMAIL_2]"}]}`)
	require.JSONEq(t, `{"messages":[{"content":"[EMAIL_1] [EMAIL_3] [EMAIL_1], and [EMAIL_2]"}]}`, string(r.Body),
		"equal texts have one, and none is one that the client wrote")
	require.Equal(t, "b@x.example and [EMAIL_2] and [EMAIL_9]", r.Masks.restore("[EMAIL_3] and [EMAIL_2] and [EMAIL_9]", nil))

	r = ask(t, s, `{"messages":[{"content":"\u0061\u0040x.example \"quoted\" \ud83d\ude00\n"}]}`)
	require.JSONEq(t, `{"messages":[{"content":"[EMAIL_1] \"quoted\" 😀\n"}]}`, string(r.Body), "escapes hide nothing")
	require.Equal(t, `{"messages":[]}`, string(ask(t, s, `{"messages":[]}`).Body))
}

// Documents have their text where others have base64, and arguments have numbers.
func TestTextsWhereDataIs(t *testing.T) {
	s := set(t, finds(mask, configv1.SensitiveData_EMAIL, configv1.SensitiveData_CARD))
	for body, want := range map[string]string{
		`{"source":{"type":"text","media_type":"text/plain","data":"mail a@b.example"}}`: `{"source":{"type":"text","media_type":"text/plain","data":"mail [EMAIL_1]"}}`,
		`{"source":{"type":"base64","data":"AAAA4111111111111111+/=="}}`:                 ``,
		`{"file_data":"data:text/plain;base64,AAAA4111111111111111"}`:                    ``,
		`{"functionCall":{"args":{"card":4111111111111111,"n":12}}}`:                     `{"functionCall":{"args":{"card":"[CARD_1]","n":12}}}`,
		`{"seed":4111111111111111}`:                                                      ``,
	} {
		if want == "" {
			want = body
		}
		require.Equal(t, want, string(ask(t, s, body).Body))
	}
}

func TestBlockingAndObserving(t *testing.T) {
	s := set(t, finds(observe, configv1.SensitiveData_EMAIL), finds(block, configv1.SensitiveData_CARD))
	body := `{"messages":[{"content":"a@x.example"}]}`
	r := ask(t, s, body)
	require.Equal(t, body, string(r.Body))
	require.Empty(t, r.Blocked)
	require.Equal(t, []string{"observe g/r0 in the request: 1"}, r.Findings.Texts())
	r = ask(t, s, `{"messages":[{"content":"4111 1111 1111 1111"}]}`)
	require.Equal(t, "g/r1", r.Blocked)
	require.NotContains(t, fmt.Sprint(r.Findings), "4111")
	onlyAnswers := finds(block, configv1.SensitiveData_CARD)
	onlyAnswers.In = []configv1.GuardSide{configv1.GuardSide_ANSWERS}
	require.Empty(t, ask(t, set(t, onlyAnswers), `{"messages":[{"content":"4111 1111 1111 1111"}]}`).Blocked)
}

func TestBoundsAndTools(t *testing.T) {
	s := set(t, &configv1.GuardRule{Mode: block, MaxCharacters: 10},
		&configv1.GuardRule{Mode: block, AllowedTools: []string{"get_*", "web_search"}})
	require.Empty(t, ask(t, s, `{"messages":[{"content":"äöüäöüäöüä"}]}`).Blocked, "characters, not bytes")
	require.Equal(t, "g/r0", ask(t, s, `{"messages":[{"content":"äöüäö"},{"content":"äöüäöü"}]}`).Blocked)
	for tools, blocked := range map[string]bool{
		`[{"type":"function","function":{"name":"get_time"}}]`: false, `[{"type":"function","function":{"name":"delete"}}]`: true,
		`[{"name":"get_a","input_schema":{}}]`: false, `[{"type":"bash_20250124","name":"bash"}]`: true,
		`[{"functionDeclarations":[{"name":"get_a"},{"name":"drop"}]}]`: true, `[{"googleSearch":{}}]`: true,
		`[{"type":"web_search"}]`: false, `[{"type":"code_interpreter","container":{}}]`: true, `[]`: false, `null`: false,
	} {
		require.Equal(t, blocked, offers(t, s, `{"tools":`+tools+`}`) == "g/r1", tools)
	}
	require.Equal(t, "g/r1", offers(t, s, `{"functions":[{"name":"drop"}]}`))
}

// offers returns the rule that refuses the tools of a request.
func offers(t *testing.T, s *Set, body string) string {
	t.Helper()
	l := offered.Read([]byte(body))
	if l == nil {
		return ""
	}
	blocked, err := s.Tools(t.Context(), NewWork(), l.Tools, Findings{})
	require.NoError(t, err)
	return blocked
}

func TestTheNumberOfMessages(t *testing.T) {
	s := set(t, &configv1.GuardRule{Mode: block, MaxMessages: 2})
	for body, blocked := range map[string]bool{
		`{"messages":[{"content":"a"},{"content":"b"}]}`:                               false,
		`{"messages":[{"content":"a"},{"content":"b"},{"content":"c"}]}`:               true,
		`{"messages":[{"content":"a"},{"content":"b"}],"messages":[{"content":"c"}]}`:  true,
		`{"contents":[{"parts":[]},{"parts":[]},{"parts":[]}]}`:                        true,
		`{"input":["a","b","c"]}`:                                                      true,
		`{"input":"a"}`:                                                                false,
		`{"messages":[{"content":[{"type":"tool_use","input":["a","b","c","d"]}]}]}`:   false,
		`{"messages":[{"content":[{"type":"text"},{"type":"text"},{"type":"text"}]}]}`: false,
		`{"documents":["a","b","c"],"query":"q"}`:                                      false,
	} {
		require.Equal(t, blocked, ask(t, s, body).Blocked != "", body)
	}
}

func TestABodyThatCannotBeRead(t *testing.T) {
	s := set(t, finds(mask, configv1.SensitiveData_EMAIL))
	for _, body := range []string{``, `{`, `{"a":"a@b.example`, `--form`, `{"a":"b"]`} {
		_, err := s.Request(t.Context(), NewWork(), []byte(body))
		require.Error(t, err, "it must not pass: %s", body)
	}
}

// FuzzRequest: a masked body is valid JSON of the same form, nothing is found in it again, and restoring its texts
// gives the request of the client.
func FuzzRequest(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"mail a@b.example or 4111 1111 1111 1111 \u00e9"}],"x":[1,null,true]}`)
	f.Add(`{"input":[{"type":"function_call","arguments":"{\"a\":\"a@b.example\"}"}]}`)
	f.Fuzz(func(t *testing.T, body string) {
		if !json.Valid([]byte(body)) {
			return
		}
		s := set(t, finds(mask, configv1.SensitiveData_EMAIL, configv1.SensitiveData_CARD))
		r, err := s.Request(t.Context(), NewWork(), []byte(body))
		if err != nil {
			return
		}
		require.True(t, json.Valid(r.Body), "%s", r.Body)
		again, err := s.Request(t.Context(), NewWork(), r.Body)
		require.NoError(t, err)
		require.Equal(t, string(r.Body), string(again.Body))
		if r.Masks.IsEmpty() {
			require.Equal(t, body, string(r.Body))
		}
		for _, original := range slices.Sorted(maps.Keys(r.Masks.placeholders)) {
			require.Equal(t, original, r.Masks.restore(r.Masks.placeholders[original], nil))
		}
	})
}
