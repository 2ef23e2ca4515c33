package guard

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/chat"
)

// samples has a text of each kind of data that has a form of its own in every place.
var samples = map[string]string{
	"EMAIL": "ann.lee@mail.example.com", "CARD": "4111 1111 1111 1111", "IBAN": "DE89 3704 0044 0532 0130 00",
	"PHONE": "+49 30 1234567", "IP_ADDRESS": "192.168.0.12", "SECRET": "sk-proj-abcdefghijklmnopqrstuvwx",
	"US_SSN": "123-45-6789", "BR_CPF": "529.982.247-25", "IN_AADHAAR": "2341 2341 2346",
}

// bodies are requests of each dialect, with TEXT where something is hidden. It is a JSON string.
var bodies = map[string]string{
	"chat":        `{"model":"m","messages":[{"role":"user","content":TEXT}]}`,
	"parts":       `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":TEXT}]}]}`,
	"arguments":   `{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":TEXT}}]}]}`,
	"result":      `{"model":"m","messages":[{"role":"tool","tool_call_id":"c","content":TEXT}]}`,
	"document":    `{"model":"m","messages":[{"role":"user","content":[{"type":"document","title":TEXT,"source":{"type":"text","media_type":"text/plain","data":TEXT}}]}]}`,
	"tool_use":    `{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":TEXT,"data":TEXT,"url":TEXT}}]}]}`,
	"responses":   `{"model":"m","input":[{"type":"function_call_output","call_id":"c","output":TEXT}],"instructions":TEXT}`,
	"gemini":      `{"contents":[{"role":"user","parts":[{"text":TEXT},{"functionResponse":{"name":"f","response":{"data":TEXT}}}]}],"systemInstruction":{"parts":[{"text":TEXT}]}}`,
	"definitions": `{"model":"m","tools":[{"type":"function","function":{"name":"f","description":TEXT,"parameters":{"type":"object","properties":{"a":{"enum":[TEXT]}}}}}]}`,
	"others":      `{"model":"m","prompt":TEXT,"stop":[TEXT],"metadata":{"name":TEXT},"user":TEXT,"unknown":{"TEXT":{"data":TEXT}},"Text":TEXT}`,
	"rerank":      `{"model":"m","query":TEXT,"documents":[TEXT,{"text":TEXT}]}`,
}

// escaped writes a text as a JSON string, with escapes as a client may choose them.
func escapedBy(r *rand.Rand, text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range text {
		quoted, _ := json.Marshal(string(c))
		if c < 0x10000 && r.IntN(3) == 0 {
			fmt.Fprintf(&b, `\u%04x`, c)
		} else {
			b.Write(quoted[1 : len(quoted)-1])
		}
	}
	b.WriteByte('"')
	return b.String()
}

// inLayers puts a text into JSON documents, one in a string of the other.
func inLayers(r *rand.Rand, text string, layers int) string {
	for n := range layers {
		switch r.IntN(3) {
		case 0:
			text = `{"a": ` + escapedBy(r, text) + `, "n": 1}`
		case 1:
			text = `[` + escapedBy(r, text) + `, true]`
		default:
			text = fmt.Sprintf(`{"k%d": {"x": [%s]}}`, n, escapedBy(r, text))
		}
	}
	return text
}

// says reports whether a JSON value has a text, in strings of strings too.
func says(v any, text string) bool {
	switch v := v.(type) {
	case string:
		var inner any
		if json.Unmarshal([]byte(v), &inner) == nil && says(inner, text) {
			return true
		}
		return strings.Contains(v, text)
	case []any:
		for _, e := range v {
			if says(e, text) {
				return true
			}
		}
	case map[string]any:
		for k, e := range v {
			if says(k, text) || says(e, text) {
				return true
			}
		}
	}
	return false
}

// unfolded parses JSON, also that in its strings.
func unfolded(t *testing.T, document string) any {
	var v any
	require.NoError(t, json.Unmarshal([]byte(document), &v), document)
	var unfold func(any) any
	unfold = func(v any) any {
		var inner any
		switch v := v.(type) {
		case string:
			if json.Unmarshal([]byte(v), &inner) == nil {
				return unfold(inner)
			}
		case []any:
			for i := range v {
				v[i] = unfold(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = unfold(v[k])
			}
		}
		return v
	}
	return unfold(v)
}

func TestHiddenTextsOfRequestsAreMaskedAndComeBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := set(t, everyKind())
	for _, kind := range slices.Sorted(maps.Keys(samples)) {
		sample := samples[kind]
		for _, name := range slices.Sorted(maps.Keys(bodies)) {
			body := bodies[name]
			for n := range 12 {
				before, after := []string{"", "x\n", "see\t", "\""}[n%4], []string{"", "\nend", " \"q\"", "\\"}[n/4%4]
				own := inLayers(r, before+sample+after, n%4)
				given := strings.ReplaceAll(strings.ReplaceAll(body, `"TEXT"`, `"text"`), "TEXT", escapedBy(r, own))
				got := ask(t, s, given)
				require.Empty(t, got.Blocked, "%s %s", kind, given)
				var said any
				require.NoError(t, json.Unmarshal(got.Body, &said), "%s %s", kind, got.Body)
				require.False(t, says(said, sample), "%s in %s: %s", kind, name, got.Body)
				require.True(t, says(said, "["+kind+"_1]"), "%s in %s: %s", kind, name, got.Body)
				if n%4 == 0 {
					continue
				}
				// what the provider repeats in a call is the client's own text
				masked := ask(t, s, `{"messages":[{"function":{"arguments":`+escapedBy(r, own)+`}}]}`)
				var of struct {
					Messages []struct{ Function struct{ Arguments string } }
				}
				require.NoError(t, json.Unmarshal(masked.Body, &of))
				for _, judged := range []*Set{s, nil} {
					arguments := of.Messages[0].Function.Arguments
					cut := r.IntN(len(arguments))
					c, _ := play(t, judged, masked.Masks, chat.ToolCall(0, 0, "c", "f"), chat.Arguments(0, 0, arguments[:cut]),
						chat.Arguments(0, 0, arguments[cut:]), chat.Finish(0, "tool_calls"), chat.End())
					require.Equal(t, unfolded(t, own), unfolded(t, c.Choices[0].Calls[0].Arguments))
				}
			}
		}
	}
}

// Each text of an answer comes in pieces, cut at random, and the pieces of all of them take turns.
func TestHiddenTextsOfAnswersAreMasked(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 4))
	s := set(t, everyKind())
	for _, kind := range slices.Sorted(maps.Keys(samples)) {
		sample := samples[kind]
		for range 30 {
			text := "some words before " + sample + " and after"
			parts := [][]chat.Event{
				cutUp(r, text, func(p string) chat.Event { return chat.Text(0, p) }),
				cutUp(r, text, func(p string) chat.Event { return chat.Reasoning(0, p) }),
				append([]chat.Event{chat.ToolCall(0, 0, "c0", "f")},
					cutUp(r, inLayers(r, text, 1+r.IntN(2)), func(p string) chat.Event { return chat.Arguments(0, 0, p) })...),
				cutUp(r, text, func(p string) chat.Event {
					return chat.Member(0, "audio", []byte(`{"transcript":`+escapedBy(r, p)+`}`))
				}),
				cutUp(r, text, func(p string) chat.Event { return chat.Text(1, p) }),
			}
			events := []chat.Event{chat.Begin("a"), chat.Role(0), chat.Role(1)}
			for len(parts) > 0 {
				i := r.IntN(len(parts))
				events = append(events, parts[i][0])
				if parts[i] = parts[i][1:]; len(parts[i]) == 0 {
					parts = append(parts[:i], parts[i+1:]...)
				}
			}
			events = append(events, chat.Finish(0, "stop"), chat.Finish(1, "stop"), chat.End())
			transcript := &spoken{}
			a := NewAnswer(s, &Masks{}, true, nil)
			for _, e := range events {
				require.NoError(t, a.Put(t.Context(), e, transcript))
			}
			want := strings.Replace(text, sample, "["+kind+"]", 1)
			require.Equal(t, want, transcript.Choices[0].Text)
			require.Equal(t, want, transcript.Choices[1].Text)
			require.Equal(t, want, transcript.Choices[0].Reasoning)
			require.Equal(t, want, transcript.words)
			var said any
			require.NoError(t, json.Unmarshal([]byte(transcript.Choices[0].Calls[0].Arguments), &said))
			require.False(t, says(said, sample))
			require.True(t, says(said, "["+kind+"]"))
		}
	}
}

func cutUp(r *rand.Rand, text string, as func(string) chat.Event) (events []chat.Event) {
	for text != "" {
		n := min(len(text), 1+r.IntN(9))
		events = append(events, as(text[:n]))
		text = text[n:]
	}
	return events
}

// spoken gathers the transcript of an answer, too.
type spoken struct {
	chat.Answer
	words string
}

func (s *spoken) Put(e chat.Event) {
	var said struct{ Transcript string }
	if e.Kind == chat.KindMember && json.Unmarshal(e.JSON, &said) == nil {
		s.words += said.Transcript
	}
	s.Answer.Put(e)
}

// Numbers and addresses as people write and paste them.
func TestNumbersAsTheyAreWritten(t *testing.T) {
	s := set(t, everyKind())
	for text, want := range map[string]string{
		"4111\u00a01111\u202f1111\u20091111":         "[CARD_1]",
		"４１１１ １１１１ １１１１ １１１１":                        "[CARD_1]",
		"٤١١١ ١١١١ ١١١١ ١١١١":                        "[CARD_1]",
		"4111.1111.1111.1111":                        "[CARD_1]",
		"4111–1111—1111−1111":                        "[CARD_1]",
		"4111 - 1111 - 1111 - 1111":                  "[CARD_1]",
		"_4111 1111 1111 1111_":                      "_[CARD_1]_",
		"**4111** **1111** **1111** **1111**":        "**[CARD_1]**",
		"4111_1111_1111_1111":                        "[CARD_1]",
		"41\u200b11 1111\u00ad 1111 1111":            "[CARD_1]",
		"DE89-3704-0044-0532-0130-00":                "[IBAN_1]",
		"+33\u00a01\u00a023\u00a045\u00a067\u00a089": "[PHONE_1]",
		"müller@bücher.de, имя@пример.рф":            "[EMAIL_1], [EMAIL_2]",
		"ann＠example．com":                            "[EMAIL_1]",
		"写信给ann@example.com吧":                        "写信给[EMAIL_1]吧",
		"用户@例子.公司":                                   "[EMAIL_1]",
		"**ann**@example.com, ann@**example**.com":   "**[EMAIL_1], [EMAIL_2]",
		"receipt_4111111111111111.pdf":               "receipt_[CARD_1].pdf",
		"4111111111111111_old, ssn_123-45-6789":      "[CARD_1]_old, ssn_[US_SSN_1]",
		"card=4111+1111+1111+1111":                   "card=[CARD_1]",
		"m%C3%BCller%40b%C3%BCcher.de":               "[EMAIL_1]",
		"4111%C2%A01111%C2%A01111%E2%80%911111":      "[CARD_1]",
		`ann\u{40}example.com`:                       "[EMAIL_1]",
		"4111&NonBreakingSpace;1111 1111 1111":       "[CARD_1]",
		`C:\new\table\x.txt and \d+`:                 `C:\new\table\x.txt and \d+`,
		"1234\n5678\n9012\n3456":                     "1234\n5678\n9012\n3456",
		"2 * 3 * 4_000_000 = 24~":                    "2 * 3 * 4_000_000 = 24~",
	} {
		body, err := json.Marshal(map[string]string{"prompt": text})
		require.NoError(t, err)
		var got struct{ Prompt string }
		require.NoError(t, json.Unmarshal(ask(t, s, string(body)).Body, &got))
		require.Equal(t, want, got.Prompt)
	}
}

// Every dash, space, connector and control of format that Unicode has may stand in a number.
func TestNumbersWithEachSeparatorOfUnicode(t *testing.T) {
	s := set(t, finds(mask, configv1.SensitiveData_CARD))
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !unicode.In(r, unicode.Pd, unicode.Zs, unicode.Pc, unicode.Cf) {
			continue
		}
		number := strings.Join([]string{"4111", "1111", "1111", "1111"}, string(r))
		body, err := json.Marshal(map[string]string{"prompt": number})
		require.NoError(t, err)
		require.JSONEq(t, `{"prompt":"[CARD_1]"}`, string(ask(t, s, string(body)).Body), "%U", r)
	}
}

func TestWordsInEveryScript(t *testing.T) {
	s := set(t, &configv1.GuardRule{Name: "w", Mode: mask,
		Words: []string{"кот", "рак", "Cole", "José", "René", "über", "ناصر", "नीति", "机密", "ลับ"}})
	for text, want := range map[string]string{
		"Это который раз: брак и характер; une école; Joséphine; Renée; hinüber; ناصرية; भानीतियाँ": "",
		"Jose\u0301phine Cole\u0301": "",
		"наш кот, КОТ":               "наш [W_1], [W_2]",
		"рак Cole! «über»":           "[W_1] [W_2]! «[W_3]»",
		"ناصر، नीति।":                "[W_1]، [W_2]।",
		"这是机密文件 เอกสารลับมาก":        "这是[W_1]文件 เอกสาร[W_2]มาก",
	} {
		if want == "" {
			want = text
		}
		body, err := json.Marshal(map[string]string{"prompt": text})
		require.NoError(t, err)
		var got struct{ Prompt string }
		require.NoError(t, json.Unmarshal(ask(t, s, string(body)).Body, &got))
		require.Equal(t, want, got.Prompt)
	}
	require.True(t, standsAlone("林先生", 0, 3))
	require.False(t, standsAlone("在森林里", 6, 9))
}

// What claims to be data and is none is a text; data with texts are judged, and written again.
func TestData(t *testing.T) {
	s := set(t, finds(mask, configv1.SensitiveData_CARD, configv1.SensitiveData_EMAIL))
	pack := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	png := pack("\x89PNG\r\n\x1a\n" + strings.Repeat("\x01\xfe\x80", 99))
	for body, want := range map[string]string{
		`{"source":{"type":"base64","media_type":"image/png","data":"` + png + `"}}`:                                             ``,
		`{"image_url":{"url":"data:image/png;base64,` + png + `"}}`:                                                              ``,
		`{"source":{"type":"base64","media_type":"image/png","data":"4111111111111111"}}`:                                        `"[CARD_1]"`,
		`{"source":{"data":"4111111111111111","type":"text"}}`:                                                                   `"[CARD_1]"`,
		`{"source":{"type":"text","type":"base64","media_type":"image/png","data":"4111111111111111"}}`:                          `"[CARD_1]"`,
		`{"inlineData":{"mimeType":"text/plain","data":"` + pack("mail a@b.example") + `"}}`:                                     pack("mail [EMAIL_1]"),
		`{"inline_data":{"mime_type":"application/json","data":"` + pack(`{"a":"x\na@b.example"}`) + `"}}`:                       pack(`{"a":"x\n[EMAIL_1]"}`),
		`{"source":{"type":"base64","media_type":"application/pdf","data":"` + pack("mail a@b.example") + `"}}`:                  pack("mail [EMAIL_1]"),
		`{"source":{"type":"base64","media_type":"text/plain","data":"` + pack("\xff\xfea\x00@\x00b\x00.\x00e\x00x\x00") + `"}}`: pack("[EMAIL_1]"),
		`{"file_data":"DATA:text/csv;charset=utf-8;BASE64,` + pack("a@b.example,1") + `"}`:                                       pack("[EMAIL_1],1"),
		`{"image_url":{"url":"data:text/plain,mail%20a%40b.example"}}`:                                                           `mail%20%5BEMAIL_1%5D`,
		`{"signature":"` + strings.Repeat("aB3+", 20) + `"}`:                                                                     ``,
	} {
		r := ask(t, s, body)
		require.Empty(t, r.Blocked, body)
		if want == "" {
			require.Equal(t, body, string(r.Body))
		}
		require.Contains(t, string(r.Body), want, body)
		require.NotContains(t, string(r.Body), "4111111111111111")
	}
}

// Where no placeholder can stand the request is refused, and says where.
func TestPlacesThatCannotBeMasked(t *testing.T) {
	s := set(t, finds(mask, configv1.SensitiveData_CARD, configv1.SensitiveData_EMAIL))
	for body, member := range map[string]string{
		`{"messages":[{"role":"4111111111111111"}]}`:                                                  "role",
		`{"image_url":{"url":"https://x/?q=a%40b.example"}}`:                                          "url",
		`{"fileData":{"fileUri":"https://x/4111111111111111"}}`:                                       "fileUri",
		`{"thoughtSignature":"4111111111111111"}`:                                                     "thoughtSignature",
		`{"4111111111111111":1}`:                                                                      "key",
		`{"tools":[{"input_schema":{"properties":{"a@b.example":{}}}}]}`:                              "key",
		`{"source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgoA4111111111111111"}}`: "data",
		`{"signature":"` + strings.Repeat("aB3+", 20) + `4111111111111111"}`:                          "signature",
		`{"max_tokens":4111111111111111}`:                                                             "max_tokens",
		`{"messages":[{"content":[{"file":{"file_id":"4111111111111111"}}]}]}`:                        "file_id",
	} {
		r := ask(t, s, body)
		require.Equal(t, "g/r0", r.Blocked, body)
		require.Equal(t, member, r.Unmaskable, body)
	}
}

func TestNamesGetNames(t *testing.T) {
	s := set(t, &configv1.GuardRule{Name: "w", Mode: mask, Words: []string{"Falcon"}})
	r := ask(t, s, `{"tools":[{"type":"function","function":{"name":"falcon"}}],"tool_choice":{"function":{"name":"falcon"}},"messages":[{"content":"falcon"}]}`)
	require.JSONEq(t, `{"tools":[{"type":"function","function":{"name":"W_1"}}],"tool_choice":{"function":{"name":"W_1"}},"messages":[{"content":"[W_1]"}]}`, string(r.Body))
	c, _ := play(t, nil, r.Masks, chat.ToolCall(0, 0, "c", "W_1"), chat.Arguments(0, 0, `{"a":"[W_1]"}`),
		chat.Finish(0, "tool_calls"), chat.End())
	require.Equal(t, "falcon", c.Choices[0].Calls[0].Name)
}

func TestPromptsThatAreTokens(t *testing.T) {
	for _, body := range []string{`{"prompt":[1,2]}`, `{"prompt":[[1,2],[3]]}`, `{"input":[1]}`, `{"input":[[1,2]]}`} {
		_, err := set(t, finds(block, configv1.SensitiveData_CARD)).Request(t.Context(), NewWork(), []byte(body))
		require.Error(t, err, body)
		ask(t, set(t, finds(observe, configv1.SensitiveData_CARD)), body)
		ask(t, set(t, &configv1.GuardRule{Mode: block, MaxMessages: 9}), body)
	}
}
