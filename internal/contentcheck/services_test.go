package contentcheck_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/contentcheck"
	"github.com/modelgate/modelgate/internal/request"
)

func value(s string) *configv1.Credential {
	return &configv1.Credential{Source: &configv1.Credential_Value{Value: s}}
}

func one(t *testing.T, c *configv1.Checker) *contentcheck.Checker {
	t.Helper()
	c.Name = "c"
	all, err := contentcheck.New([]*configv1.Checker{c}, nil, zap.NewNop())
	require.NoError(t, err)
	return all["c"]
}

// The answers are those of the documentation of each service: https://platform.openai.com/docs/guides/moderation,
// https://www.llama.com/docs/model-cards-and-prompt-formats/llama-guard-3/ and
// https://learn.microsoft.com/en-us/azure/ai-services/content-safety/quickstart-text.
func TestServicesAreAskedAsTheyAreDocumented(t *testing.T) {
	chat := func(text string) string {
		return fmt.Sprintf(`{"id":"c","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":%q}}]}`, text)
	}
	for name, c := range map[string]struct {
		checker                     *configv1.Checker
		path, header, asked, answer string
		want                        contentcheck.Verdict
		fails                       bool
	}{
		"moderation": {&configv1.Checker{Type: configv1.CheckerType_MODERATION, Url: "/v1/moderations",
			Model: "omni-moderation-latest", Credential: value("sk-1")},
			"/v1/moderations", "Authorization: Bearer sk-1", `{"input":["one","two"],"model":"omni-moderation-latest"}`,
			`{"id":"modr-1","model":"omni-moderation-latest","results":[{"flagged":false,"categories":{"hate":false,"violence":false,"illicit":null},"category_scores":{"hate":0.01,"violence":0.2,"illicit":null}},{"flagged":true,"categories":{"hate":false,"violence":true},"category_scores":{"hate":0.02,"violence":0.86}}]}`,
			contentcheck.Verdict{Flagged: true, Flags: map[string]bool{"hate": false, "violence": true, "illicit": false},
				Scores: map[string]float64{"hate": 0.02, "violence": 0.86}}, false},
		"moderation without results": {checker: &configv1.Checker{Type: configv1.CheckerType_MODERATION, Url: "/m"},
			answer: `{"results":[]}`, fails: true},
		"Llama Guard, safe": {&configv1.Checker{Type: configv1.CheckerType_CHAT, Url: "/v1/chat/completions",
			Model: "llama-guard", Credential: value("k")},
			"/v1/chat/completions", "Authorization: Bearer k", `{"max_tokens":100,"messages":[{"role":"user","content":"one\n\ntwo"}],"model":"llama-guard","temperature":0}`,
			chat("\n\nsafe"), contentcheck.Verdict{Flags: map[string]bool{}}, false},
		"Llama Guard, unsafe": {&configv1.Checker{Type: configv1.CheckerType_CHAT, Url: "/c", Model: "m"}, "/c", "", "",
			chat("\n\nunsafe\nS1,S10"), contentcheck.Verdict{Flagged: true, Flags: map[string]bool{"S1": true, "S10": true}},
			false},
		"a model with a prompt": {&configv1.Checker{Type: configv1.CheckerType_CHAT, Url: "/c", Model: "m",
			Prompt: "Judge."}, "/c", "",
			`{"max_tokens":100,"messages":[{"role":"system","content":"Judge."},{"role":"user","content":"one\n\ntwo"}],"model":"m","temperature":0}`,
			chat("Unsafe."), contentcheck.Verdict{Flagged: true, Flags: map[string]bool{}}, false},
		"a model that chats": {checker: &configv1.Checker{Type: configv1.CheckerType_CHAT, Url: "/c", Model: "m"},
			answer: chat("I think it is safe to say"), fails: true},
		"Azure": {&configv1.Checker{Type: configv1.CheckerType_AZURE_TEXT, Credential: value("key")},
			"/contentsafety/text:analyze?api-version=2024-09-01", "Ocp-Apim-Subscription-Key: key", `{"text":"one\n\ntwo"}`,
			`{"blocklistsMatch":[],"categoriesAnalysis":[{"category":"Hate","severity":2},{"category":"SelfHarm","severity":0},{"category":"Sexual","severity":0},{"category":"Violence","severity":4}]}`,
			contentcheck.Verdict{Flagged: true, Flags: map[string]bool{"Hate": false, "SelfHarm": false, "Sexual": false,
				"Violence": true}, Scores: map[string]float64{"Hate": 2, "SelfHarm": 0, "Sexual": 0, "Violence": 4}}, false},
		"Azure's prompt shields": {&configv1.Checker{Type: configv1.CheckerType_AZURE_SHIELD, Credential: value("key")},
			"/contentsafety/text:shieldPrompt?api-version=2024-09-01", "Ocp-Apim-Subscription-Key: key", `{"documents":[],"userPrompt":"one\n\ntwo"}`,
			`{"userPromptAnalysis":{"attackDetected":true},"documentsAnalysis":[]}`, contentcheck.Verdict{Flagged: true, Flags: map[string]bool{"attack": true}}, false},
		"Bedrock": {&configv1.Checker{Type: configv1.CheckerType_BEDROCK, Credential: value("ABSK"),
			Url: "/guardrail/g1/version/DRAFT/apply"}, "/guardrail/g1/version/DRAFT/apply", "Authorization: Bearer ABSK",
			`{"source":"INPUT","content":[{"text":{"text":"one\n\ntwo"}}]}`,
			`{"usage":{"topicPolicyUnits":1},"action":"GUARDRAIL_INTERVENED","outputs":[{"text":"No."}],"assessments":[{"topicPolicy":{"topics":[{"name":"Finance","type":"DENY","action":"BLOCKED"}]},"contentPolicy":{"filters":[{"type":"VIOLENCE","confidence":"HIGH","action":"BLOCKED"},{"type":"HATE","confidence":"LOW","action":"NONE"}]},"wordPolicy":{"customWords":[{"match":"two","action":"BLOCKED"}],"managedWordLists":[{"match":"x","type":"PROFANITY","action":"NONE"}]},"sensitiveInformationPolicy":{"piiEntities":[{"match":"a@b.test","type":"EMAIL","action":"ANONYMIZED"}],"regexes":[{"name":"case","match":"1","regex":"1","action":"BLOCKED"}]}}]}`,
			contentcheck.Verdict{Flagged: true, Flags: map[string]bool{"Finance": true, "VIOLENCE": true, "HATE": false,
				"WORD": true, "PROFANITY": false, "EMAIL": true, "case": true},
				Matches: []contentcheck.Match{{Text: "two", Category: "WORD"}, {Text: "a@b.test", Category: "EMAIL"},
					{Text: "1", Category: "case"}}}, false},
		"Presidio": {&configv1.Checker{Type: configv1.CheckerType_PRESIDIO, Url: "/analyze", Language: "de"}, "/analyze", "",
			`{"text":"one\n\ntwo","language":"de"}`,
			`[{"analysis_explanation":null,"end":8,"entity_type":"PERSON","recognition_metadata":{"recognizer_name":"SpacyRecognizer"},"score":0.85,"start":5},{"end":3,"entity_type":"PERSON","score":0.4,"start":0}]`,
			contentcheck.Verdict{Flagged: true, Flags: map[string]bool{"PERSON": true},
				Scores: map[string]float64{"PERSON": 0.85}, Matches: []contentcheck.Match{
					{Text: "two", Category: "PERSON", Score: 0.85}, {Text: "one", Category: "PERSON", Score: 0.4}}}, false},
		"Presidio, nothing": {&configv1.Checker{Type: configv1.CheckerType_PRESIDIO, Url: "/analyze",
			Credential: value("k")}, "/analyze", "Authorization: Bearer k", `{"text":"one\n\ntwo","language":"en"}`, `[]`,
			contentcheck.Verdict{Flags: map[string]bool{}, Scores: map[string]float64{}}, false},
		"Presidio, another text": {checker: &configv1.Checker{Type: configv1.CheckerType_PRESIDIO, Url: "/analyze"},
			answer: `[{"entity_type":"PERSON","start":5,"end":9,"score":1}]`, fails: true},
		"Presidio, no list": {checker: &configv1.Checker{Type: configv1.CheckerType_PRESIDIO, Url: "/analyze"},
			answer: `null`, fails: true},
		"a webhook that says what it found": {&configv1.Checker{Type: configv1.CheckerType_WEBHOOK, Url: "/"}, "/", "", "",
			`{"flagged":true,"found":[{"text":"two","category":"name"}]}`, contentcheck.Verdict{Flagged: true,
				Flags: map[string]bool{"name": true}, Matches: []contentcheck.Match{{Text: "two", Category: "name"}}}, false},
		"Bedrock finds nothing": {&configv1.Checker{Type: configv1.CheckerType_BEDROCK, Url: "/g"}, "/g", "", "",
			`{"action":"NONE","outputs":[],"assessments":[{}]}`, contentcheck.Verdict{Flags: map[string]bool{}}, false},
		"Bedrock's error": {checker: &configv1.Checker{Type: configv1.CheckerType_BEDROCK, Url: "/g"},
			answer: `{"message":"no"}`, fails: true},
		"Azure's error": {checker: &configv1.Checker{Type: configv1.CheckerType_AZURE_SHIELD}, answer: `{"error":{"code":"InvalidRequestBody"}}`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			var path, body, header string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path = r.URL.RequestURI()
				text, _ := io.ReadAll(r.Body)
				body = string(text)
				key, _, _ := strings.Cut(c.header, ": ")
				header = key + ": " + r.Header.Get(key)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer s.Close()
			c.checker.Url = s.URL + c.checker.GetUrl()
			v, err := one(t, c.checker).Check(t.Context(), &contentcheck.Call{ID: "x", Texts: []string{"one", "two"}})
			if c.fails {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, &c.want, v)
			require.Equal(t, c.path, path)
			if c.asked != "" {
				require.JSONEq(t, c.asked, body)
			}
			if c.header != "" {
				require.Equal(t, c.header, header)
			}
		})
	}
}

func TestAWebhookIsSigned(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	verify, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)
	problem := make(chan error, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		problem <- verify.Verify(body, r.Header)
		_, _ = io.WriteString(w, `{"flagged":true,"categories":{"a":0.7}}`)
	}))
	defer s.Close()
	c := one(t, &configv1.Checker{Type: configv1.CheckerType_WEBHOOK, Url: s.URL, Credential: value(secret)})
	v, err := c.Check(t.Context(), &contentcheck.Call{ID: "x-1", Texts: []string{"text"},
		Subject: request.Subject{Key: "key_1"}, Model: "m"})
	require.NoError(t, err)
	require.NoError(t, <-problem)
	require.True(t, v.Finds(nil, 0))
	require.True(t, v.Finds([]string{"a"}, 0))
	require.True(t, v.Finds([]string{"a", "b"}, 0.7))
	require.True(t, v.Finds(nil, 0.7))
	require.False(t, v.Finds([]string{"a"}, 0.71))
	require.False(t, v.Finds([]string{"b"}, 0))
	unscored := contentcheck.Verdict{Flagged: true, Flags: map[string]bool{"S1": true}}
	require.True(t, unscored.Finds(nil, 0.9), "what has no score is found as it is flagged")
	require.True(t, unscored.Finds([]string{"S1"}, 0.9))
	require.False(t, unscored.Finds([]string{"S2"}, 0.9))
}

func TestWhatOfTheMatchesARuleFinds(t *testing.T) {
	v := contentcheck.Verdict{Flagged: true, Scores: map[string]float64{"A": 0.9, "B": 0.2},
		Matches: []contentcheck.Match{{Text: "a", Category: "A", Score: 0.9},
			{Text: "little a", Category: "A", Score: 0.3}, {Text: "b", Category: "B"}, {Text: "unscored", Category: "C"}}}
	texts := func(threshold float64, categories ...string) (all []string) {
		for _, m := range v.Found(categories, threshold) {
			all = append(all, m.Text)
		}
		return all
	}
	require.Equal(t, []string{"a", "little a", "b", "unscored"}, texts(0))
	require.Equal(t, []string{"a", "unscored"}, texts(0.5))
	require.Equal(t, []string{"a", "little a"}, texts(0, "A"))
	require.Empty(t, texts(0.5, "B"))
}

func TestLongTextsGoToAzureInPieces(t *testing.T) {
	var mu sync.Mutex
	var pieces []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		text := gjson.GetBytes(body, "text").Str
		mu.Lock()
		defer mu.Unlock()
		pieces = append(pieces, text)
		severity := 0
		if strings.Contains(text, "bad") {
			severity = 6
		}
		_, _ = fmt.Fprintf(w, `{"categoriesAnalysis":[{"category":"Hate","severity":%d}]}`, severity)
	}))
	defer s.Close()
	c := one(t, &configv1.Checker{Type: configv1.CheckerType_AZURE_TEXT, Url: s.URL})
	v, err := c.Check(t.Context(), &contentcheck.Call{Texts: []string{
		strings.Repeat("ü", 9_990) + "around the cut" + strings.Repeat("ü", 15_000), "bad"}})
	require.NoError(t, err)
	require.True(t, v.Finds([]string{"Hate"}, 6))
	require.Len(t, pieces, 3)
	whole := func(text string) bool { return strings.Contains(text, "around the cut") }
	require.True(t, slices.ContainsFunc(pieces, whole), "pieces overlap")
	for _, text := range pieces {
		require.LessOrEqual(t, len([]rune(text)), 10_000)
	}
}

func TestWhatIsNotJudged(t *testing.T) {
	logs, seen := observer.New(zap.WarnLevel)
	block := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer s.Close()
	defer close(block)
	configs := []*configv1.Checker{{Name: "slow", Type: configv1.CheckerType_WEBHOOK, Url: s.URL + "/?token=secret",
		Timeout: durationpb.New(20 * time.Millisecond)},
		{Name: "away", Type: configv1.CheckerType_WEBHOOK, Url: "http://127.0.0.1:1/?token=secret"}}
	all, err := contentcheck.New(configs, nil, zap.New(logs))
	require.NoError(t, err)
	for range 3 {
		require.Empty(t, all.Judge(t.Context(), []string{"slow", "away", "none"},
			&contentcheck.Call{Texts: []string{"a text"}}))
	}
	require.Equal(t, 2, seen.Len(), "a failure is logged once in a while")
	for _, e := range seen.All() {
		require.NotContains(t, fmt.Sprint(e.ContextMap()), "token", "a URL may have a secret")
	}
	_, err = all["away"].Check(t.Context(), &contentcheck.Call{Texts: []string{strings.Repeat("x", 300<<10)}})
	require.ErrorContains(t, err, "too large")
	v, err := all["away"].Check(t.Context(), &contentcheck.Call{})
	require.NoError(t, err, "there is nothing to judge")
	require.False(t, v.Flagged)
	again, err := contentcheck.New(configs, all, zap.NewNop())
	require.NoError(t, err)
	require.Same(t, all["away"], again["away"], "it keeps its connections")
}

func TestTheAuthoritiesOfAChecker(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"flagged":false}`)
	}))
	defer s.Close()
	s.Config.ErrorLog = nil
	call := &contentcheck.Call{Texts: []string{"a"}}
	_, err := one(t, &configv1.Checker{Type: configv1.CheckerType_WEBHOOK, Url: s.URL}).Check(t.Context(), call)
	require.ErrorContains(t, err, "certificate")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	_, err = one(t, &configv1.Checker{Type: configv1.CheckerType_WEBHOOK, Url: s.URL, Ca: ca}).Check(t.Context(), call)
	require.NoError(t, err)
}
