package guard

import (
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
)

const card = "4111111111111111"

// events keeps what a guard lets through.
type events []chat.Event

func (l *events) Put(e chat.Event) { *l = append(*l, e) }

// All that an answer says besides its texts.
func TestEventsThatAreNoTexts(t *testing.T) {
	carrier := openai.NewCarrierKey([]byte("secret")).For("acme", "key")
	for _, e := range []chat.Event{
		chat.Begin(card), chat.Tier(card), chat.ToolCall(0, 0, card, "f"), chat.ToolCall(0, 0, "c", card),
		chat.ToolCall(0, 0, carrier.Carry("c", []byte(`{"messages":[{"type":"thinking","thinking":"`+card+`"}]}`)), "f"),
		chat.Finish(0, card),
		chat.Member(0, "annotations", []byte(`[{"url_citation":{"url":"http://x/`+card+`","title":"`+card+`"}}]`)),
		chat.Member(0, "images", []byte(`[{"image_url":{"url":"data:text/plain;base64,NDExMTExMTExMTExMTExMQ=="}}]`)),
		chat.Member(0, "thinking_blocks", []byte(`[{"type":"thinking","thinking":"4111111"},{"type":"thinking","thinking":"111111111"}]`)),
		chat.Member(0, "audio", []byte(`{"id":"a","transcript":"`+card+`"}`)), chat.Member(0, "extra", []byte(`"`+card+`"`)),
		{Kind: chat.KindToolCall, ID: "c", Name: "f", JSON: []byte(`{"google":{"thought_signature":"` + card + `"}}`)},
		{Kind: chat.KindUsage, Usage: &openai.Usage{}, JSON: []byte(`{"note":"` + card + `"}`)},
	} {
		for _, mode := range []configv1.GuardMode{mask, block} {
			s := set(t, finds(mode, configv1.SensitiveData_CARD))
			var got events
			a := NewAnswer(s, &Masks{}, true, nil)
			a.Carrier = carrier
			for _, e := range []chat.Event{e, chat.Finish(0, "stop"), chat.End()} {
				require.NoError(t, a.Put(t.Context(), e, &got))
			}
			for _, g := range got {
				_, carried := carrier.Split(g.ID)
				for _, text := range []string{g.ID, g.Name, g.String(), string(g.JSON), string(carried)} {
					require.NotContains(t, text, card)
					require.NotContains(t, text, "NDExMTEx")
					require.NotContains(t, text, "111111111")
				}
			}
			require.Equal(t, chat.KindEnd, got[len(got)-1].Kind)
		}
	}
}

func TestRulesThatObserveChangeAndDelayNothing(t *testing.T) {
	a := NewAnswer(set(t, finds(observe, configv1.SensitiveData_CARD, configv1.SensitiveData_EMAIL)), &Masks{}, true, nil)
	require.False(t, a.Changes())
	var got events
	all := []chat.Event{chat.Begin(card), chat.Text(0, "4111 1111 "), chat.Text(0, "1111 1111 and"),
		chat.ToolCall(0, 0, "c", "f"),
		chat.Arguments(0, 0, `{"a":"ann\u0040exa`), chat.Arguments(0, 0, `mple.com"}`), chat.Member(0, "extra", []byte(`1`)),
		chat.Finish(0, "tool_calls"), chat.End()}
	for i, e := range all {
		require.NoError(t, a.Put(t.Context(), e, &got))
		require.Equal(t, all[:i+1], []chat.Event(got))
	}
	require.Equal(t, []string{"observe g/r0 in the answer: 3"}, a.Findings.Texts())
}

// A part waits while others come, within bounds, and the order of parts is kept.
func TestPartsThatTakeTurns(t *testing.T) {
	s := set(t, finds(mask, configv1.SensitiveData_EMAIL))
	var got events
	a := NewAnswer(s, &Masks{}, true, nil)
	require.NoError(t, a.Put(t.Context(), chat.Reasoning(0, "I think."), &got))
	require.NoError(t, a.Put(t.Context(), chat.Text(0, "The answer"), &got))
	require.Empty(t, got)
	for range 40 {
		require.NoError(t, a.Put(t.Context(), chat.Text(0, " is long"), &got))
	}
	require.Equal(t, chat.Reasoning(0, "I think."), got[0])
	require.Greater(t, len(got), 10)
	require.LessOrEqual(t, len(a.lanes[0].items[0].text.held), s.window)
}

func TestAnswersWithoutEvents(t *testing.T) {
	body := `{"data":[{"b64_json":"aGk=","revised_prompt":"pay ` + card + `","embedding":[0.4111111111111111]}]}`
	a := NewAnswer(set(t, finds(mask, configv1.SensitiveData_CARD)), &Masks{}, false, nil)
	out, err := a.Document(t.Context(), []byte(body))
	require.NoError(t, err)
	require.JSONEq(t, `{"data":[{"b64_json":"aGk=","revised_prompt":"pay [CARD]","embedding":[0.4111111111111111]}]}`, string(out))
	blocks, observes := finds(block, configv1.SensitiveData_CARD), finds(observe, configv1.SensitiveData_CARD)
	_, err = NewAnswer(set(t, blocks), &Masks{}, false, nil).Document(t.Context(), []byte(body))
	require.Error(t, err)
	out, err = NewAnswer(set(t, observes), &Masks{}, false, nil).Document(t.Context(), []byte(body))
	require.NoError(t, err)
	require.Equal(t, body, string(out))
	out, err = a.Events(t.Context(), []byte("event: x\ndata: {\"text\":\""+card+"\"}\n\ndata: [DONE]\n\n"))
	require.NoError(t, err)
	require.Equal(t, "event: x\ndata: {\"text\":\"[CARD]\"}\n\ndata: [DONE]\n\n", string(out))
}

// An answer that is JSON stays JSON, also if it is content, or arguments that nothing holds back.
func TestAnswersThatAreJSON(t *testing.T) {
	key := "-----BEGIN PRIVATE KEY-----\nMII\"\n-----END PRIVATE KEY-----"
	m := masksOf(t, key)
	said := `{"card": ` + card + `, "a": "x\nann@x.example", "key": "[SECRET_1]", "in": "{\"key\": \"[SECRET_1]\"}", "n": 1}`
	for cut := range len(said) {
		for _, s := range []*Set{nil, set(t, everyKind())} {
			c, _ := play(t, s, m, chat.Text(0, said[:cut]), chat.Text(0, said[cut:]), chat.ToolCall(0, 0, "c", "f"),
				chat.Arguments(0, 0, said[:cut]), chat.Arguments(0, 0, said[cut:]), chat.Finish(0, "stop"), chat.End())
			for _, text := range []string{c.Choices[0].Text, c.Choices[0].Calls[0].Arguments} {
				got := unfolded(t, text).(map[string]any)
				require.Equal(t, key, got["key"], text)
				require.Equal(t, map[string]any{"key": key}, got["in"], text)
				if s != nil {
					require.Equal(t, "[CARD]", got["card"])
					require.Equal(t, "x\n[EMAIL]", got["a"])
				}
			}
		}
	}
}
