package respcache_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/provider/all"
	"github.com/modelgate/modelgate/internal/respcache"
)

// vectorOfWords is what the simulated model makes of a text: texts with the same words are the same, and each other
// word makes them less similar.
func vectorOfWords(text string) []float32 {
	const length = 256
	v := make([]float32, length)
	for word := range strings.FieldsSeq(text) {
		h := fnv.New64a()
		_, _ = io.WriteString(h, strings.ToLower(word))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		for i := range v {
			v[i] += float32(r.NormFloat64())
		}
	}
	return v
}

// An embeddings service is simulated. Asked has the texts that it got.
type embeddings struct {
	*httptest.Server
	mu     sync.Mutex
	asked  []string
	answer func(w http.ResponseWriter, r *http.Request, text string)
	keys   []string
}

func newEmbeddings(t *testing.T) *embeddings {
	t.Helper()
	e := &embeddings{answer: func(w http.ResponseWriter, _ *http.Request, text string) {
		writeVector(w, vectorOfWords(text))
	}}
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Model, Input string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Model != "small" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		e.mu.Lock()
		e.asked, e.keys = append(e.asked, asked.Input), append(e.keys, r.Header.Get("Authorization"))
		answer := e.answer
		e.mu.Unlock()
		answer(w, r, asked.Input)
	}))
	t.Cleanup(e.Close)
	return e
}

func writeVector(w io.Writer, v []float32) {
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "model": "small",
		"data": []any{map[string]any{"object": "embedding", "index": 0, "embedding": v}}})
}

func (e *embeddings) set(answer func(w http.ResponseWriter, r *http.Request, text string)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func (e *embeddings) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked)
}

func (e *embeddings) config(change ...func(*configv1.ResponseCache)) *configv1.ResponseCache {
	c := &configv1.ResponseCache{Name: "c", Organization: "acme", MaxTemperature: 1, Similar: &configv1.SimilarAnswers{
		Url: e.URL, Model: "small", Threshold: 0.8, Timeout: durationpb.New(10 * time.Second)},
		Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "sk-e"}}}
	for _, f := range change {
		f(c)
	}
	return c
}

func compared(t *testing.T, configs ...*configv1.ResponseCache) *respcache.Cache {
	t.Helper()
	caches, err := respcache.Compile(configs, []byte("pepper"), nil, nil, nil, zap.NewNop())
	require.NoError(t, err)
	return caches[0]
}

func chat(text string) string {
	quoted, _ := json.Marshal(text)
	return `{"model":"m","messages":[{"role":"system","content":"Be brief."},{"role":"user","content":` + string(quoted) + `}]}`
}

// keep has a request answered by its own text.
func keep(t *testing.T, c *respcache.Cache, q *respcache.Question, at time.Time) {
	t.Helper()
	compared := c.Comparison(q)
	require.NotNil(t, compared)
	_, how := c.Similar(t.Context(), compared, at, time.Hour)
	require.Equal(t, respcache.ComparedDone, how)
	k := c.Key(q)
	c.Keep(k, &respcache.Answer{At: at, Body: q.Sent.Body})
	c.Learn(compared, k, at)
}

// similar returns the answer of a similar request; nil if there is none.
func similar(t *testing.T, c *respcache.Cache, q *respcache.Question, at time.Time) *respcache.Answer {
	t.Helper()
	compared := c.Comparison(q)
	if compared == nil {
		return nil
	}
	a, how := c.Similar(t.Context(), compared, at, time.Hour)
	require.Equal(t, respcache.ComparedDone, how)
	return a
}

const question1 = "how do I reset the password of my account please"

func TestASimilarQuestionHasTheSameAnswer(t *testing.T) {
	e := newEmbeddings(t)
	c := compared(t, e.config())
	now := time.Now()
	keep(t, c, question(chat(question1)), now)
	keep(t, c, question(chat("where is the nearest office of your company")), now)

	a := similar(t, c, question(chat("How do I reset the password of my account")), now)
	require.NotNil(t, a)
	require.Contains(t, string(a.Body), question1)
	require.InDelta(t, 0.95, a.Similarity, 0.04)
	require.Nil(t, similar(t, c, question(chat("how can we delete the photo of a friend now")), now))
	require.Nil(t, similar(t, c, question(chat(question1)), now.Add(2*time.Hour)), "it has expired")
	require.Equal(t, []string{"Bearer sk-e"}, e.keys[:1])
	require.Equal(t, question1, e.asked[0], "nothing else of the request is sent")
}

// TestOnlyTheLastTextMayDiffer changes one thing at a time, in two requests whose texts are the same to the model.
func TestOnlyTheLastTextMayDiffer(t *testing.T) {
	e := newEmbeddings(t)
	c := compared(t, e.config())
	now := time.Now()
	other := strings.ToUpper(question1)
	keep(t, c, question(chat(question1)), now)
	require.NotNil(t, similar(t, c, question(chat(other)), now), "or else this proves nothing")
	for name, change := range map[string]func(*respcache.Question){
		"organization": func(q *respcache.Question) { q.Organization = "evil" },
		"operation":    func(q *respcache.Question) { q.Operation = "anthropic messages" },
		"path":         func(q *respcache.Question) { q.Path += "/" },
		"betas":        func(q *respcache.Question) { q.Betas = "x" },
		"stream":       func(q *respcache.Question) { q.Stream = true },
		"model":        func(q *respcache.Question) { q.Model = "n" },
		"served":       func(q *respcache.Question) { q.Served = []byte{1} },
		"guards":       func(q *respcache.Question) { q.Guards = "pii " },
	} {
		q := question(chat(other))
		change(q)
		require.Nil(t, similar(t, c, q, now), name)
	}
	for name, body := range map[string]string{
		"system prompt": strings.Replace(chat(other), "Be brief.", "Be brief!", 1),
		"history":       strings.Replace(chat(other), `"messages":[`, `"messages":[{"role":"user","content":"hello"},`, 1),
		"a name":        strings.Replace(chat(other), `{"role":"user"`, `{"name":"ann","role":"user"`, 1),
		"parts":         strings.Replace(chat(other), `"`+other+`"`, `[{"type":"text","text":"`+other+`"}]`, 1),
	} {
		require.Nil(t, similar(t, c, question(body), now), name)
	}
}

// TestSimilarRequestsAreTheSameToEveryProvider: whatever two requests share an answer, each vendor gets the same for
// both once their last texts are the same. Every text is close to the model here.
func TestSimilarRequestsAreTheSameToEveryProvider(t *testing.T) {
	e := newEmbeddings(t)
	e.set(func(w http.ResponseWriter, _ *http.Request, _ string) { writeVector(w, []float32{1, 2, 3}) })
	c := compared(t, e.config())
	now := time.Now()
	r := rand.New(rand.NewPCG(20, 7))
	texts := []string{`"the first question"`, `"another question"`, `"another question "`, `"anothe\u0072 question"`}
	same := strings.NewReplacer(texts[1], texts[0], texts[2], texts[0], texts[3], texts[0])
	found := 0
	for range 1500 {
		body := randomRequest(r)
		for _, hi := range []string{`"hi"`, `"hi "`, `"h\u0069"`} {
			body = strings.ReplaceAll(body, hi, texts[r.IntN(len(texts))])
		}
		q := question(body)
		a := similar(t, c, q, now)
		if a == nil {
			keep(t, c, q, now)
			continue
		}
		found++
		for name, p := range all.Providers() {
			require.Equal(t, encoded(t, p, same.Replace(string(a.Body))), encoded(t, p, same.Replace(body)), "%s: %s and %s",
				name, a.Body, body)
		}
	}
	require.Greater(t, found, 200, "what proves nothing")
}

func TestWhatIsCompared(t *testing.T) {
	e := newEmbeddings(t)
	c := compared(t, e.config())
	user := func(content string) string {
		return `{"model":"m","messages":[{"role":"user","content":` + content + `}]}`
	}
	long := "what is the meaning of this"
	for name, body := range map[string]string{
		"a text":           user(`"` + long + `"`),
		"parts":            user(`[{"type":"text","text":"what is the meaning"},{"text":"of this","type":"text","cache_control":{"type":"ephemeral"}}]`),
		"white space":      " { \"messages\" : [ { \"content\" : \"" + long + "\" , \"role\" : \"user\" } ] } ",
		"responses":        `{"model":"m","input":"` + long + `"}`,
		"responses, items": `{"input":[{"role":"assistant","content":"x"},{"type":"message","role":"user","content":[{"type":"input_text","text":"` + long + `"}]}]}`,
		"gemini":           `{"contents":[{"role":"user","parts":[{"text":"` + long + `"}]}]}`,
		"escapes":          user(`"what is \"the\" meaning \u006ff this"`),
	} {
		require.NotNil(t, c.Comparison(question(body)), name)
	}
	for name, body := range map[string]string{
		"an image":            user(`[{"type":"text","text":"` + long + `"},{"type":"image_url","image_url":{"url":"x"}}]`),
		"a result of a tool":  user(`[{"type":"tool_result","tool_use_id":"1","content":"` + long + `"}]`),
		"a part's text twice": user(`[{"type":"text","text":"` + long + `","text":"` + long + `"}]`),
		"no part":             user(`[]`),
		"null":                user(`null`),
		"another role":        `{"messages":[{"role":"tool","content":"` + long + `"}]}`,
		"no role":             `{"messages":[{"content":"` + long + `"}]}`,
		"two roles":           `{"messages":[{"role":"user","role":"system","content":"` + long + `"}]}`,
		"a role in disguise":  `{"messages":[{"role":"user","r\u006fle":"system","content":"` + long + `"}]}`,
		"two contents":        `{"messages":[{"role":"user","content":"` + long + `","content":"` + long + `"}]}`,
		"two lists":           `{"messages":[{"role":"user","content":"` + long + `"}],"messages":[]}`,
		"lists in disguise":   `{"messages":[{"role":"user","content":"` + long + `"}],"m\u0065ssages":[]}`,
		"two dialects":        `{"messages":[{"role":"user","content":"` + long + `"}],"input":"` + long + `"}`,
		"no message":          `{"messages":[]}`,
		"no list":             `{"messages":"` + long + `"}`,
		"text in a list":      `{"messages":["` + long + `"]}`,
		"a prompt":            `{"prompt":"` + long + `"}`,
		"short":               user(`"why not?"`),
		"long":                user(`"` + strings.Repeat("abcdefghi ", 801) + `"`),
	} {
		require.Nil(t, c.Comparison(question(body)), name)
	}
	require.Nil(t, compile(t, nil, &configv1.ResponseCache{Name: "c"})[0].Comparison(question(chat(long))),
		"the cache does not say so")
	require.Zero(t, e.count())
}

// Numbers and their order decide, although a model may find the texts close.
func TestTextsWithOtherNumbersAreNotSimilar(t *testing.T) {
	e := newEmbeddings(t)
	e.set(func(w http.ResponseWriter, _ *http.Request, _ string) { writeVector(w, []float32{1, 2, 3}) }) // all are close
	c := compared(t, e.config())
	now := time.Now()
	for _, text := range []string{"what is 12 times 7 for me", "what is the sum for me", "pay invoice 2024-17 for ½ kg"} {
		keep(t, c, question(chat(text)), now)
	}
	for text, found := range map[string]bool{
		"tell me 12 times 7":           true,
		"tell me 7 times 12":           false,
		"tell me 13 times 7":           false,
		"tell me 127 times":            false,
		"tell me 12 times":             false,
		"tell me 12 times 7 times 7":   false,
		"tell me ١٢ times 7":           false,
		"tell me the product":          true,
		"the invoice 2024 17 and ½ kg": true,
		"the invoice 2024 17 and ¼ kg": false,
		"the invoice 202417 and ½ kg":  false,
	} {
		require.Equal(t, found, similar(t, c, question(chat(text)), now) != nil, text)
	}
}

func TestTheThreshold(t *testing.T) {
	e := newEmbeddings(t)
	now := time.Now()
	e.set(func(w http.ResponseWriter, _ *http.Request, text string) {
		switch {
		case strings.HasPrefix(text, "first"):
			writeVector(w, []float32{1, 0})
		case strings.HasPrefix(text, "close"): // a cosine of 0.9
			writeVector(w, []float32{0.9, 0.43588989})
		case strings.HasPrefix(text, "opposite"):
			writeVector(w, []float32{-1, 0})
		}
	})
	for threshold, found := range map[float64]bool{0.5: true, 0.897: true, 0.903: false, 1: false, 0: false} {
		c := compared(t, e.config(func(c *configv1.ResponseCache) { c.Similar.Threshold = threshold }))
		keep(t, c, question(chat("first question")), now)
		require.Equal(t, found, similar(t, c, question(chat("close question")), now) != nil, threshold)
		require.Nil(t, similar(t, c, question(chat("opposite question")), now))
		a := similar(t, c, question(chat("first of all, a question")), now)
		require.NotNil(t, a, threshold)
		require.InDelta(t, 1.0, a.Similarity, 1e-12)
	}
}

func TestTheMostSimilarAnswerThatIsFreshIsFound(t *testing.T) {
	e := newEmbeddings(t)
	c := compared(t, e.config())
	now := time.Now()
	keep(t, c, question(chat(question1+" now")), now.Add(-30*time.Minute))
	keep(t, c, question(chat(question1+" now thanks")), now)
	a := similar(t, c, question(chat(question1+" now .")), now)
	require.Contains(t, string(a.Body), `now"`)
	young := c.Comparison(question(chat(question1 + " now .")))
	a, _ = c.Similar(t.Context(), young, now, time.Minute)
	require.Contains(t, string(a.Body), "thanks", "the closest is too old for the client")
}

func TestAServiceThatIsNotThere(t *testing.T) {
	e := newEmbeddings(t)
	core, logs := observer.New(zap.InfoLevel)
	caches, err := respcache.Compile([]*configv1.ResponseCache{e.config(func(c *configv1.ResponseCache) {
		c.Similar.Timeout = durationpb.New(100 * time.Millisecond)
	})}, []byte("pepper"), nil, nil, nil, zap.New(core))
	require.NoError(t, err)
	c := caches[0]
	ask := func(ctx context.Context) respcache.Compared {
		compared := c.Comparison(question(chat(question1)))
		a, how := c.Similar(ctx, compared, time.Now(), time.Hour)
		require.Nil(t, a)
		c.Learn(compared, respcache.Key{}, time.Now()) // without a vector, this does nothing
		return how
	}
	fixed := func(text string) func(http.ResponseWriter, *http.Request, string) {
		return func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, text) }
	}
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, string){
		"an error":     func(w http.ResponseWriter, _ *http.Request, _ string) { w.WriteHeader(http.StatusTooManyRequests) },
		"no JSON":      fixed(`<html>`),
		"no vector":    fixed(`{"data":[]}`),
		"two":          fixed(`{"data":[{"embedding":[1]},{"embedding":[1]}]}`),
		"empty":        fixed(`{"data":[{"embedding":[]}]}`),
		"zero":         fixed(`{"data":[{"embedding":[0,0,0]}]}`),
		"not a number": fixed(`{"data":[{"embedding":[NaN,1]}]}`),
		"too large":    fixed(`{"data":[{"embedding":[1e400,1]}]}`),
		"texts":        fixed(`{"data":[{"embedding":["1"]}]}`),
		"base64":       fixed(`{"data":[{"embedding":"AACAPw=="}]}`),
		"too long":     fixed(`{"data":[{"embedding":[` + strings.Repeat("1,", 4096) + `1]}]}`),
		"huge": func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = io.WriteString(w, `{"data":[{"embedding":[1`+strings.Repeat(" ", 2<<20)+`]}]}`)
		},
		"slow": func(_ http.ResponseWriter, r *http.Request, _ string) { <-r.Context().Done() },
		"another place, which is not followed": func(w http.ResponseWriter, r *http.Request, _ string) {
			http.Redirect(w, r, "/else", http.StatusTemporaryRedirect)
		},
	} {
		e.set(answer)
		c.Rested()
		before := e.count()
		require.Equal(t, respcache.ComparedFailed, ask(t.Context()), name)
		require.Equal(t, before+1, e.count(), name)
		require.Equal(t, respcache.ComparedFailed, ask(t.Context()), name)
		require.Equal(t, before+1, e.count(), "nobody asks again at once")
	}
	require.Equal(t, 1, logs.FilterMessageSnippet("unavailable").Len(), "it is logged once")
	require.Contains(t, caches.Trouble(), "of the ResponseCache "+c.Name()+".")
	for _, entry := range logs.All() {
		require.NotContains(t, fmt.Sprint(entry.ContextMap()), "password", "no text is logged")
	}
	require.Zero(t, c.Bytes())

	c.Rested()
	left, leave := context.WithCancel(t.Context())
	e.set(func(_ http.ResponseWriter, r *http.Request, _ string) {
		leave()
		<-r.Context().Done()
	})
	require.Empty(t, ask(left), "a client that leaves is no failure")
	e.set(func(w http.ResponseWriter, _ *http.Request, text string) { writeVector(w, vectorOfWords(text)) })
	require.Equal(t, respcache.ComparedDone, ask(t.Context()))
	require.Equal(t, 1, logs.FilterMessageSnippet("is back").Len())
	require.Empty(t, caches.Trouble())
}

// A flood of requests asks the service for no more than so many vectors at once. The others are not compared.
func TestAFloodAsksForFewVectorsAtOnce(t *testing.T) {
	e := newEmbeddings(t)
	var under, most atomic.Int64
	arrived, release := make(chan struct{}, 1000), make(chan struct{})
	e.set(func(w http.ResponseWriter, _ *http.Request, text string) {
		if n := under.Add(1); n > most.Load() {
			most.Store(n)
		}
		arrived <- struct{}{}
		<-release
		under.Add(-1)
		writeVector(w, vectorOfWords(text))
	})
	c := compared(t, e.config())
	outcomes := make(chan respcache.Compared, 1000)
	var asking sync.WaitGroup
	for i := range 200 {
		asking.Go(func() {
			q := question(chat(question1 + strings.Repeat("x", i)))
			_, how := c.Similar(t.Context(), c.Comparison(q), time.Now(), time.Hour)
			outcomes <- how
		})
	}
	for range 64 {
		<-arrived
	}
	for range 136 {
		require.Equal(t, respcache.ComparedFull, <-outcomes)
	}
	close(release)
	asking.Wait()
	require.EqualValues(t, 64, most.Load())
}

func TestVectorsAreBounded(t *testing.T) {
	e := newEmbeddings(t)
	c := compared(t, e.config(func(c *configv1.ResponseCache) { c.MaxBytes = 100_000 }))
	now := time.Now()
	for i := range 500 { // each is a bucket of its own, as its number is another
		keep(t, c, question(chat(fmt.Sprint(question1, " ", i))), now)
		require.LessOrEqual(t, c.Bytes(), 200_000)
	}
	require.NotNil(t, similar(t, c, question(chat(fmt.Sprint("Please ", question1, " 499"))), now))
	require.Nil(t, similar(t, c, question(chat(fmt.Sprint("Please ", question1, " 1"))), now))
	for i := range 500 { // all are in one bucket
		keep(t, c, question(chat(question1+strings.Repeat(" x", i))), now)
		require.LessOrEqual(t, c.Bytes(), 200_000)
	}
	require.NotNil(t, similar(t, c, question(chat(question1+strings.Repeat(" x", 500))), now))
}

// Another credential does not empty the cache, and is used.
func TestANewCredentialIsUsed(t *testing.T) {
	e := newEmbeddings(t)
	before, err := respcache.Compile([]*configv1.ResponseCache{e.config()}, nil, nil, nil, nil, zap.NewNop())
	require.NoError(t, err)
	keep(t, before[0], question(chat(question1)), time.Now())
	next := proto.CloneOf(e.config())
	next.Credential = &configv1.Credential{Source: &configv1.Credential_Value{Value: "sk-2"}}
	after, err := respcache.Compile([]*configv1.ResponseCache{next}, nil, nil, nil, before, zap.NewNop())
	require.NoError(t, err)
	require.NotNil(t, similar(t, after[0], question(chat(question1+" now")), time.Now()))
	require.Equal(t, []string{"Bearer sk-e", "Bearer sk-2"}, e.keys)
}
