package exchange_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/exchange"
	"github.com/modelgate/modelgate/internal/contentcheck"
	"github.com/modelgate/modelgate/internal/respcache"
)

// judged returns a gateway with a guardrail whose rules have the checker "c", which answers.
func judged(t *testing.T, answer http.HandlerFunc, rules ...*configv1.GuardRule) *meter {
	t.Helper()
	service := httptest.NewServer(answer)
	t.Cleanup(service.Close)
	m := guarded(t, rules...)
	checkers, err := contentcheck.New([]*configv1.Checker{{Name: "c", Type: configv1.CheckerType_WEBHOOK,
		Url: service.URL}},
		nil, zap.NewNop())
	require.NoError(t, err)
	m.config.Checkers = checkers
	return m
}

func checks(mode configv1.GuardMode, categories ...string) *configv1.GuardRule {
	return &configv1.GuardRule{Name: "topic", Mode: mode, Checker: "c", Categories: categories, Threshold: 0.5,
		In: []configv1.GuardSide{configv1.GuardSide_REQUESTS}}
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
}

// turned takes a request through its turns.
func turned(ctx context.Context, x *exchange.Exchange, reply exchange.Reply) exchange.Reply {
	for reply.Queue {
		reply = x.Turn(ctx)
	}
	return reply
}

func TestACheckerJudgesARequest(t *testing.T) {
	const sport = `{"flagged":true,"categories":{"sport":0.9,"war":0.1}}`
	block, observe := configv1.GuardMode_BLOCK, configv1.GuardMode_OBSERVE
	passes := checks(block, "sport")
	passes.PassOnFailure = true
	fails := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		rule    *configv1.GuardRule
		status  int // 0: it goes on
		code    string
		finding string
	}{
		"it is found":             {says(sport), checks(block, "sport"), 400, "content_blocked", "block g/topic in the request: 1"},
		"it is observed":          {says(sport), checks(observe, "sport"), 0, "", "observe g/topic in the request: 1"},
		"another category":        {says(sport), checks(block, "war"), 0, "", ""},
		"any category":            {says(sport), checks(block), 400, "content_blocked", "block g/topic in the request: 1"},
		"nothing":                 {says(`{"flagged":false}`), checks(block), 0, "", ""},
		"no verdict":              {says(`{}`), checks(block), 503, "checker_unavailable", "failed g/topic in the request: 1"},
		"no JSON":                 {says(`<html>`), checks(block), 503, "checker_unavailable", "failed g/topic in the request: 1"},
		"an error":                {fails, checks(block), 503, "checker_unavailable", "failed g/topic in the request: 1"},
		"an error, and it passes": {fails, passes, 0, "", "failed g/topic in the request: 1"},
		"an error is observed":    {fails, checks(observe), 0, "", "failed g/topic in the request: 1"},
		"another place, which is not followed": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
		}, checks(block), 503, "checker_unavailable", "failed g/topic in the request: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := judged(t, c.answer, c.rule)
			x, reply := m.chat(ask40)
			require.True(t, reply.Queue)
			reply = turned(t.Context(), x, reply)
			if c.status == 0 {
				require.Nil(t, reply.Immediate)
				require.NotNil(t, reply.Plan)
				m.complete(x, "application/json", whole)
			} else {
				require.Equal(t, c.status, reply.Immediate.Status)
				require.Equal(t, c.code, gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
				require.Empty(t, m.begun, "nothing was sent")
			}
			r := x.Close()
			require.Equal(t, c.finding, strings.Join(r.Guards.Texts(), ", "))
			if c.status != 0 {
				require.Equal(t, "guardrail g/topic", r.RefusedBy)
			}
		})
	}
}

func TestWhatACheckerFindsIsMasked(t *testing.T) {
	rule := func(threshold float64, categories ...string) *configv1.GuardRule {
		return &configv1.GuardRule{Name: "names", Mode: configv1.GuardMode_MASK, Checker: "c", Categories: categories,
			Threshold: threshold, In: []configv1.GuardSide{configv1.GuardSide_REQUESTS}}
	}
	passes := rule(0)
	passes.PassOnFailure = true
	const ann = `{"flagged":true,"categories":{"person":0.9,"place":0.2},"found":[{"text":"Ann Miller","category":"person"},{"text":"Rome","category":"place"}]}`
	for name, c := range map[string]struct {
		answer string
		rule   *configv1.GuardRule
		sent   string // empty: it is refused
		notes  string
	}{
		"all":                  {ann, rule(0), "[PERSON_1] in [PLACE_1] to [EMAIL_1]", "mask g/email in the request: 1, mask g/names in the request: 2"},
		"a category":           {ann, rule(0, "person"), "[PERSON_1] in Rome to [EMAIL_1]", "mask g/email in the request: 1, mask g/names in the request: 1"},
		"a score":              {ann, rule(0.5), "[PERSON_1] in Rome to [EMAIL_1]", "mask g/email in the request: 1, mask g/names in the request: 1"},
		"nothing":              {`{"flagged":false}`, rule(0), "Ann Miller in Rome to [EMAIL_1]", "mask g/email in the request: 1"},
		"it does not say what": {`{"flagged":true}`, rule(0), "", "failed g/names in the request: 1, mask g/email in the request: 1"},
		"another text":         {strings.Replace(ann, "Rome", "Milan", 1), rule(0), "", "failed g/names in the request: 1, mask g/email in the request: 1"},
		"another text passes":  {strings.Replace(ann, "Rome", "Milan", 1), passes, "Ann Miller in Rome to [EMAIL_1]", "failed g/names in the request: 1, mask g/email in the request: 1"},
		"it is away":           {`{}`, rule(0), "", "failed g/names in the request: 1, mask g/email in the request: 1"},
	} {
		t.Run(name, func(t *testing.T) {
			m := judged(t, says(c.answer), emails(configv1.GuardMode_MASK, configv1.GuardSide_REQUESTS), c.rule)
			x, reply := m.chat(strings.Replace(askMail, "write to", "Ann Miller in Rome to", 1))
			reply = turned(t.Context(), x, reply)
			if c.sent == "" {
				require.Equal(t, "checker_unavailable", gjson.GetBytes(reply.Immediate.Body, "error.code").Str)
			} else {
				require.Equal(t, c.sent, gjson.GetBytes(reply.Body, "messages.0.content").Str)
				answer(x, "200", "application/json")
				out := x.ResponseBody(t.Context(), []byte(strings.Replace(whole, "hello", c.sent, 1)), true)
				require.Equal(t, "Ann Miller in Rome to ann@x.example", gjson.GetBytes(out.Body, "choices.0.message.content").Str)
			}
			require.Equal(t, c.notes, strings.Join(x.Close().Guards.Texts(), ", "))
		})
	}
}

func TestACheckerSeesPlaceholders(t *testing.T) {
	var mu sync.Mutex
	seen := ""
	m := judged(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		seen += string(body)
		_, _ = io.WriteString(w, `{"flagged":false}`)
	}, emails(configv1.GuardMode_MASK, configv1.GuardSide_REQUESTS), checks(configv1.GuardMode_BLOCK))
	x, reply := m.chat(askMail)
	reply = turned(t.Context(), x, reply)
	require.NotNil(t, reply.Plan)
	x.Close()
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, `["write to [EMAIL_1]"]`, gjson.Get(seen, "texts").Raw)
	require.Equal(t, "key_1 acme a/m-1", fmt.Sprint(gjson.Get(seen, "key"), " ", gjson.Get(seen, "organization"), " ",
		gjson.Get(seen, "model")))
}

func TestAClientThatLeavesEndsTheCheck(t *testing.T) {
	asked, left := make(chan struct{}), make(chan struct{})
	m := judged(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-r.Context().Done()
		close(left)
	}, checks(configv1.GuardMode_BLOCK))
	ctx, cancel := context.WithCancel(t.Context())
	x, reply := m.chat(ask40)
	require.True(t, reply.Queue)
	go func() {
		<-asked
		cancel()
	}()
	require.True(t, x.Turn(ctx).Wait)
	<-left
	x.Close()
	require.Empty(t, m.begun)
}

func TestAKeptAnswerIsCheckedToo(t *testing.T) {
	var flagged sync.Map
	m := judged(t, func(w http.ResponseWriter, _ *http.Request) {
		_, is := flagged.Load("is")
		_, _ = fmt.Fprintf(w, `{"flagged":%t}`, is)
	}, &configv1.GuardRule{Name: "topic", Mode: configv1.GuardMode_BLOCK, Checker: "c",
		In: []configv1.GuardSide{configv1.GuardSide_REQUESTS}})
	caches, err := respcache.Compile([]*configv1.ResponseCache{everyones()}, nil, nil, nil, nil, nil)
	require.NoError(t, err)
	m.config.Caches = caches
	x, reply := m.chat(ask40)
	require.NotNil(t, turned(t.Context(), x, reply).Plan)
	m.complete(x, "application/json", whole)
	x, reply = m.chat(ask40)
	require.Equal(t, 200, turned(t.Context(), x, reply).Immediate.Status)
	x.Close()
	flagged.Store("is", true)
	x, reply = m.chat(ask40)
	require.Equal(t, 400, turned(t.Context(), x, reply).Immediate.Status)
	x.Close()
}
