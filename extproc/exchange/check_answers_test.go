package exchange_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// ofAnswers is a rule that has the checker judge answers.
func ofAnswers(mode configv1.GuardMode, passes bool) *configv1.GuardRule {
	return &configv1.GuardRule{Name: "topic", Mode: mode, Checker: "c", PassOnFailure: passes,
		In: []configv1.GuardSide{configv1.GuardSide_ANSWERS}}
}

// flags answers that texts with a word are bad, and fails at those with another.
func flags(bad, failing string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		texts := gjson.GetBytes(body, "texts").Raw
		if strings.Contains(texts, failing) || gjson.GetBytes(body, "of").Str != "answer" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"flagged":`+strconv.FormatBool(strings.Contains(texts, bad))+`}`)
	}
}

func TestACheckerJudgesAnAnswer(t *testing.T) {
	block, observe := configv1.GuardMode_BLOCK, configv1.GuardMode_OBSERVE
	for name, c := range map[string]struct {
		rule    *configv1.GuardRule
		says    string // what the provider says
		status  int    // of the error; 0: none
		text    string
		finish  string
		finding string
	}{
		"nothing is found": {ofAnswers(block, false), "hello", 0, "hello", "stop", ""},
		"it is blocked":    {ofAnswers(block, false), "a bad word", 0, "", "content_filter", "block g/topic in the answer: 1"},
		"it is observed": {ofAnswers(observe, false), "a bad word", 0, "a bad word", "stop",
			"observe g/topic in the answer: 1"},
		"it is away": {ofAnswers(block, false), "odd", 503, "", "", "failed g/topic in the answer: 1"},
		"away, and it passes": {ofAnswers(block, true), "odd", 0, "odd", "stop",
			"failed g/topic in the answer: 1"},
		"away, and it is observed": {ofAnswers(observe, false), "odd", 0, "odd", "stop", "failed g/topic in the answer: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := judged(t, flags("bad", "odd"), c.rule)
			x, reply := m.chat(ask40)
			require.False(t, reply.Queue, "the request is not judged")
			answer(x, "200", "application/json")
			out := x.ResponseBody(t.Context(), []byte(strings.Replace(whole, "hello", c.says, 1)), true)
			body := out.Body
			if out.Immediate != nil {
				body = out.Immediate.Body
			}
			r := x.Close()
			if c.status != 0 {
				require.Equal(t, "checker_unavailable", gjson.GetBytes(body, "error.code").Str)
				require.Equal(t, c.status, r.Status)
				require.Equal(t, "guardrail g/topic", r.RefusedBy)
				require.EqualValues(t, "rejected", r.Outcome, "the provider has not failed")
				require.Zero(t, r.Cool)
			} else {
				require.Equal(t, c.text+" "+c.finish, gjson.GetBytes(body, "choices.0.message.content").Str+" "+
					gjson.GetBytes(body, "choices.0.finish_reason").Str)
			}
			require.Equal(t, c.finding, strings.Join(r.Guards.Texts(), ", "))
			require.EqualValues(t, 11, r.Usage.TotalTokens, "what was used is charged")
		})
		t.Run(name+", streamed", func(t *testing.T) {
			m := judged(t, flags("bad", "odd"), c.rule)
			x, _ := m.chat(stream40)
			answer(x, "200", "text/event-stream")
			out := x.ResponseBody(t.Context(), []byte(chunkOf(c.says)), false)
			require.Empty(t, string(out.Body), "it is held back until it is judged")
			out = x.ResponseBody(t.Context(), []byte(ended+usage11+over), true)
			if c.status != 0 {
				require.Equal(t, c.status, out.Immediate.Status, "nothing was sent before")
				require.Equal(t, "false", out.Immediate.Header.Get("X-Should-Retry"), "it would be charged again")
			} else {
				text, finish := deltas(string(out.Body))
				require.Equal(t, c.text+" "+c.finish, text+" "+finish)
			}
			require.Equal(t, c.finding, strings.Join(x.Close().Guards.Texts(), ", "))
		})
	}
}

func TestAStreamIsJudgedInPartsAndEndsAtTheFirstThatIsBad(t *testing.T) {
	m := judged(t, flags("bad", "odd"), ofAnswers(configv1.GuardMode_BLOCK, false))
	fine := strings.Repeat("fine. ", 200)
	for says, want := range map[string]string{"bad": " content_filter", "odd": " "} {
		m.configure()
		x, _ := m.chat(stream40)
		answer(x, "200", "text/event-stream")
		got := string(x.ResponseBody(t.Context(), []byte(chunkOf(fine)), false).Body)
		require.Contains(t, got, "fine.", "the first part is judged and sent")
		got += string(x.ResponseBody(t.Context(), []byte(chunkOf(says)+chunkOf(fine)), false).Body)
		got += string(x.ResponseBody(t.Context(), []byte(chunkOf(fine)+ended+usage11+over), true).Body)
		text, finish := deltas(got)
		require.Equal(t, fine+want, text+" "+finish)
		require.Equal(t, says == "odd", strings.Contains(got, "checker_unavailable"), "an error within the stream")
		x.Close()
	}
}

func TestAnAwayCheckerIsAskedOnceForAnAnswer(t *testing.T) {
	var asked atomic.Int32
	m := judged(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}, ofAnswers(configv1.GuardMode_BLOCK, true))
	x, _ := m.chat(stream40)
	answer(x, "200", "text/event-stream")
	for range 20 {
		x.ResponseBody(t.Context(), []byte(chunkOf(strings.Repeat("fine. ", 200))), false)
	}
	x.Close()
	require.EqualValues(t, 1, asked.Load(), "the stream would wait for it each time")
}

func TestAClientThatLeavesEndsTheCheckOfTheAnswer(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	m := judged(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-r.Context().Done()
		close(left)
	}, ofAnswers(configv1.GuardMode_BLOCK, false))
	ctx, cancel := context.WithCancel(t.Context())
	x, _ := m.chat(stream40)
	answer(x, "200", "text/event-stream")
	go func() {
		<-asked
		cancel()
	}()
	out := x.ResponseBody(ctx, []byte(chunkOf("hello")+ended+usage11+over), true)
	<-left
	require.Empty(t, string(out.Body))
	require.True(t, out.Piece || out.ReplaceBody, "what the provider sent does not pass")
	r := x.Close()
	require.EqualValues(t, "cut", r.Outcome)
	require.Empty(t, r.Guards, "the checker has not failed")
}

func TestAnAnswerOfADialectIsJudged(t *testing.T) {
	for path, body := range map[string]string{
		"/v1/messages":  `{"model":"a/m-1","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/responses": `{"model":"a/m-1","store":false,"input":"hi"}`,
	} {
		m := judged(t, flags("bad", "odd"), ofAnswers(configv1.GuardMode_BLOCK, false))
		x, sent := m.ask(path, body)
		require.Equal(t, "/v1/chat/completions", sent.Set.Get(":path"))
		got, r := m.complete(x, "application/json", strings.Replace(whole, "hello", "a bad word", 1))
		require.NotContains(t, got, "bad")
		require.Equal(t, []string{"block g/topic in the answer: 1"}, r.Guards.Texts())
	}
}
