package hostile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/tokens"
	"github.com/modelgate/modelgate/test/charges"
	"github.com/modelgate/modelgate/test/harness"
)

// A counting vendor counts what it did: the prompts that it got, and the words that it said. Its streams say 50 words
// and then wait, without usage, until the gateway leaves.
type countingVendor struct {
	*httptest.Server

	got func() // is called when the model "late" is asked

	mu             sync.Mutex // guards what follows
	prompts, words int64
	asked, ended   int
}

const vendorWords = 50

func newCountingVendor(t *testing.T) *countingVendor {
	v := &countingVendor{}
	v.Server = httptest.NewServer(v)
	t.Cleanup(v.Close)
	return v
}

// did counts a prompt and words.
func (v *countingVendor) did(prompt, words int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.prompts, v.words = v.prompts+prompt, v.words+words
}

// counts returns what the vendor did since the last call.
func (v *countingVendor) counts() (prompts, words int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	prompts, words = v.prompts, v.words
	v.prompts, v.words = 0, 0
	return prompts, words
}

// running returns how many of its streams have not ended.
func (v *countingVendor) running() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked - v.ended
}

// ServeHTTP implements http.Handler.
func (v *countingVendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/v1/realtime" {
		v.talk(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	if len(body) == 0 {
		_, _ = w.Write([]byte(`{"object":"list","data":[]}`))
		return
	}
	v.mu.Lock()
	v.asked++
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		v.ended++
		v.mu.Unlock()
	}()
	v.did(int64(strings.Count(string(body), sentence))*perSentence(), 0)
	if strings.Contains(string(body), `"model":"late"`) {
		v.got()
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	say := func(text string) {
		_, _ = io.WriteString(w, text)
		_ = http.NewResponseController(w).Flush()
	}
	responses := strings.HasSuffix(r.URL.Path, "/responses")
	if responses {
		say("event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_v\",\"object\":\"response\",\"status\":\"in_progress\",\"output\":[]}}\n\n")
	}
	for i := range vendorWords {
		if responses {
			say(fmt.Sprintf("event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":%d,\"delta\":\" word\"}\n\n", i+1))
		} else {
			say("data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n")
		}
		v.did(0, 1)
	}
	<-r.Context().Done()
}

// talk serves a session of the Realtime API. It reports nothing of what it gets.
func (v *countingVendor) talk(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	c, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer c.Close()
	prompt := int64(0)
	for {
		_, b, err := c.ReadMessage()
		if err != nil {
			return
		}
		prompt += int64(bytes.Count(b, []byte(sentence))) * perSentence()
		if !bytes.Contains(b, []byte("response.create")) {
			continue
		}
		v.did(prompt, vendorWords)
		_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type":"response.created","response":{"id":"r"}}`))
		for range vendorWords {
			_ = c.WriteMessage(websocket.TextMessage, []byte(`{"type":"response.output_text.delta","delta":" word"}`))
		}
	}
}

const sentence = "the gateway charges what a provider has done for it. "

func perSentence() int64 { return tokens.Count("openai", "m", sentence+sentence) / 2 }

// A biller is a gateway whose providers count.
type biller struct {
	*harness.Gateway
	t      *testing.T
	vendor *countingVendor
}

// A bill is what the ledger has of an organization.
type bill struct {
	Input, Output int64
	Records       int
	Outcomes      []string
}

// admin asks the admin API, to change something if there is a body.
func (b *biller) admin(path string, body, into any) error {
	method, text := http.MethodGet, []byte(nil)
	if body != nil {
		method = http.MethodPut
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.Admin+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+b.File(b.t, "admin-token"))
	answer, err := b.Client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s: %s", path, answer.Status)
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

func (b *biller) bill(organization string) (sum bill, err error) {
	var page struct {
		Items []struct {
			Outcome      string `json:"outcome"`
			InputTokens  int64  `json:"input_tokens"`
			OutputTokens int64  `json:"output_tokens"`
		} `json:"items"`
	}
	err = b.admin("/admin/v1/requests?limit=100&organization="+organization, nil, &page)
	for _, r := range page.Items {
		sum.Input, sum.Output, sum.Records = sum.Input+r.InputTokens, sum.Output+r.OutputTokens, sum.Records+1
		sum.Outcomes = append(sum.Outcomes, r.Outcome)
	}
	return sum, err
}

// settles waits until the ledger has what the vendor did, and checks that it has not much more.
func (b *biller) settles(organization string) {
	b.t.Helper()
	prompts, words := b.vendor.counts()
	require.Positive(b.t, prompts)
	var got bill
	harness.Eventually(b.t, "the ledger has it", func() (err error) {
		got, err = b.bill(organization)
		if err == nil && (float64(got.Input) < charges.Least*float64(prompts) ||
			float64(got.Output) < charges.Least*float64(words)) {
			err = fmt.Errorf("%+v for %d and %d", got, prompts, words)
		}
		return err
	})
	frame := float64(charges.Frame * got.Records)
	require.LessOrEqual(b.t, float64(got.Input), charges.Most*float64(prompts)+frame)
	require.LessOrEqual(b.t, float64(got.Output), charges.Most*float64(words)+frame)
}

// ask sends a request, and returns the answer with a function that leaves.
func (b *biller) ask(key, path, body string) (answer *http.Response, leave func()) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+path, strings.NewReader(body))
	require.NoError(b.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	answer, err = b.Client.Do(r)
	require.NoError(b.t, err)
	return answer, func() { cancel(); _ = answer.Body.Close() }
}

// reads reads a stream until it has said all words, and returns the first text between two marks.
func reads(t *testing.T, answer *http.Response, before, after string) (found string) {
	t.Helper()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	lines, said := bufio.NewScanner(answer.Body), 0
	for said < vendorWords && lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), before); ok && found == "" {
			found, _, _ = strings.Cut(rest, after)
		}
		said += strings.Count(lines.Text(), `" word"`)
	}
	require.Equal(t, vendorWords, said)
	return found
}

// startBiller starts a gateway with providers of the counting vendor. A million tokens cost a dollar.
func startBiller(t *testing.T) *biller {
	b := &biller{Gateway: harness.Run(t, t.TempDir()), t: t, vendor: newCountingVendor(t)}
	provider := func(name, vendor string) *configv1.Provider {
		return &configv1.Provider{Name: name, Vendor: vendor, Endpoint: b.vendor.URL + "/v1",
			Credential: &configv1.Credential{Source: &configv1.Credential_Value{Value: "sk"}}}
	}
	b.Apply(t, provider("comp", "compatible"), provider("oai", "openai"),
		&configv1.Catalog{Name: "default", Models: []*configv1.ModelFacts{{Models: []string{"*"},
			Price: &configv1.Price{Input: "1", Output: "1"}}}},
		&configv1.Organization{Name: "poor", Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "0.002"}}},
		&configv1.Organization{Name: "crowd", Budgets: []*configv1.Budget{{Unit: configv1.Unit_MONTH, Usd: "0.02"}}})
	var jobs map[string]any
	require.NoError(t, b.admin("/admin/v1/jobservices/default", nil, &jobs))
	delete(jobs, "status")
	jobs["stored_responses"] = map[string]any{}
	require.NoError(t, b.admin("/admin/v1/jobservices/default?wait=10", jobs, &jobs))
	return b
}

// TestWhatAVendorDidIsCharged has a vendor count what it did, for clients that leave, cancel, delete and close in its
// midst, and compares it with the ledger.
func TestWhatAVendorDidIsCharged(t *testing.T) {
	t.Parallel()
	b := startBiller(t)
	for name, test := range map[string]func(*testing.T){"streams": b.streams, "background": b.background,
		"a session": b.session, "before the answer": b.early, "a spent budget": b.spent, "a crowd": b.crowd} {
		t.Run(name, func(t *testing.T) {
			b.t = t
			b.vendor.counts()
			test(t)
		})
	}
	t.Run("killed", func(t *testing.T) { // at last
		b.t = t
		b.vendor.counts()
		b.killed(t)
	})
}

// prompt is what clients of these cases ask.
var prompt = strings.Repeat(sentence, 400)

// streams are cut in every dialect, with the prompt in places and by names that were free.
func (b *biller) streams(t *testing.T) {
	for name, c := range map[string]struct{ path, body string }{
		"chat":      {"/v1/chat/completions", `{"model":"comp/m","stream":true,"messages":[{"role":"user","content":"%s"}]}`},
		"escaped":   {"/v1/chat/completions", `{"model":"comp/m","stream":true,"\u006dessages":[{"role":"user","\u0063ontent":"%s"}]}`},
		"responses": {"/v1/responses", `{"model":"oai/m","stream":true,"store":false,"\u0069nput":"%s"}`},
		"document":  {"/v1/messages", `{"model":"comp/m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"%s"}}]}]}`},
		"result":    {"/v1beta/models/comp/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"hi"}]},{"role":"model","parts":[{"functionCall":{"id":"c1","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"id":"c1","name":"f","response":{"r":"%s"}}}]}],"tools":[{"functionDeclarations":[{"name":"f"}]}]}`},
		"stored":    {"/v1/responses", `{"model":"oai/m","stream":true,"input":"%s"}`},
	} {
		_, key := b.CreateKey(t, name, "")
		answer, leave := b.ask(key, c.path, strings.Replace(c.body, "%s", prompt, 1))
		said := bufio.NewScanner(answer.Body)
		for n := 0; n < vendorWords && said.Scan(); n += strings.Count(said.Text(), " word") {
		}
		require.Equal(t, http.StatusOK, answer.StatusCode, name)
		leave()
		b.settles(name)
	}
}

// background responses are cancelled and deleted.
func (b *biller) background(t *testing.T) {
	for name, end := range map[string]struct{ method, suffix string }{
		"cancelled": {http.MethodPost, "/cancel"}, "deleted": {http.MethodDelete, ""}} {
		_, key := b.CreateKey(t, name, "")
		answer, leave := b.ask(key, "/v1/responses", `{"model":"oai/m","background":true,"stream":true,"input":"`+prompt+`"}`)
		id := reads(t, answer, `"id":"`, `"`)
		require.NoError(t, b.As(key).Try(end.method, "/v1/responses/"+id+end.suffix, new(any)))
		harness.Eventually(t, "the request to the vendor has ended", func() error {
			if n := b.vendor.running(); n > 0 {
				return fmt.Errorf("%d run", n)
			}
			return nil
		})
		leave()
		b.settles(name)
	}
}

// early is a client that leaves before the answer begins.
func (b *biller) early(t *testing.T) {
	_, key := b.CreateKey(t, "early", "")
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.URL+"/v1/chat/completions",
		strings.NewReader(`{"model":"comp/late","messages":[{"role":"user","content":"`+prompt+`"}]}`))
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	b.vendor.got = cancel
	_, err = b.Client.Do(r)
	require.ErrorIs(t, err, context.Canceled)
	b.settles("early")
}

// session closes a session before its response is reported.
func (b *biller) session(t *testing.T) {
	_, key := b.CreateKey(t, "talk", "")
	transport, ok := b.Client.Transport.(*http.Transport)
	require.True(t, ok)
	d := websocket.Dialer{HandshakeTimeout: 10 * time.Second,
		TLSClientConfig: &tls.Config{RootCAs: transport.TLSClientConfig.RootCAs, MinVersion: tls.VersionTLS12}}
	c, answer, err := d.DialContext(t.Context(), "wss"+strings.TrimPrefix(b.URL, "https")+"/v1/realtime?model=oai/m",
		http.Header{"Authorization": {"Bearer " + key}})
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.NoError(t, c.WriteMessage(websocket.TextMessage,
		[]byte(`{"type":"conversation.item.create","item":{"role":"user","content":[{"type":"input_text","text":"`+prompt+`"}]}}`)))
	require.NoError(t, c.WriteMessage(websocket.TextMessage, []byte(`{"type":"response.create"}`)))
	for range vendorWords + 1 {
		_, _, err := c.ReadMessage()
		require.NoError(t, err)
	}
	require.NoError(t, c.Close())
	b.settles("talk")
}

// spent has a budget answer on every path, also for a background response that is streamed, whose client would wait.
func (b *biller) spent(t *testing.T) {
	_, key := b.CreateKey(t, "poor", "")
	const text = sentence + sentence + sentence
	asked := func(path, body string) int {
		answer, leave := b.ask(key, path, strings.ReplaceAll(body, "%s", strings.Repeat(text, 30)))
		defer leave()
		return answer.StatusCode
	}
	paths := map[string][]string{
		"/v1/chat/completions": {`{"model":"comp/m","messages":[{"role":"user","content":"%s"}]`},
		"/v1/completions":      {`{"model":"comp/m","prompt":"%s"`},
		"/v1/messages":         {`{"model":"comp/m","max_tokens":9,"messages":[{"role":"user","content":"%s"}]`},
		"/v1/responses": {`{"model":"oai/m","input":"%s","background":true`, `{"model":"oai/m","input":"%s"`,
			`{"model":"oai/m","input":"%s","store":false`, `{"model":"comp/m","input":"%s","background":true`},
		"/v1beta/models/comp/m:generateContent":               {`{"contents":[{"parts":[{"text":"%s"}]}]`},
		"/v1beta/models/comp/m:streamGenerateContent?alt=sse": {`{"contents":[{"parts":[{"text":"%s"}]}]`},
		"/v1/embeddings": {`{"model":"comp/m","input":"%s"`},
	}
	// One request that runs holds most of the budget: no path may pass it, and none may hang.
	answer, leave := b.ask(key, "/v1/chat/completions", `{"model":"comp/m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"`+
		strings.Repeat(text, 35)+`"}]}`)
	reads(t, answer, `"id":"`, `"`)
	every := func(when string) {
		for path, bodies := range paths {
			for _, body := range bodies {
				for _, stream := range []string{"}", `,"stream":true}`} {
					if stream != "}" && (strings.Contains(path, "v1beta") || strings.Contains(path, "embeddings")) {
						continue
					}
					require.Equal(t, http.StatusTooManyRequests, asked(path, body+stream), "%s: %s %s%s", when, path, body, stream)
				}
			}
		}
	}
	every("reserved")
	leave()
	harness.Eventually(t, "it is charged", func() error {
		got, err := b.bill("poor")
		if err == nil && got.Input < 1000 {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	every("spent")
}

// crowd sends many requests at once, and leaves all of them: they do not pass a budget.
func (b *biller) crowd(t *testing.T) {
	_, key := b.CreateKey(t, "crowd", "")
	body := `{"model":"comp/m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"` +
		prompt + `"}]}`
	var wait sync.WaitGroup
	for range 40 {
		wait.Go(func() {
			answer, leave := b.ask(key, "/v1/chat/completions", body)
			defer leave()
			if answer.StatusCode == http.StatusOK {
				reads(t, answer, `"id":"`, `"`)
			}
		})
	}
	wait.Wait()
	b.settles("crowd")
	got, err := b.bill("crowd")
	require.NoError(t, err)
	require.LessOrEqual(t, got.Input+got.Output, int64(20_000), "of a dollar a million")
}

// killed kills the gateway in the midst of streams, of a background response too.
func (b *biller) killed(t *testing.T) {
	_, key := b.CreateKey(t, "killed", "")
	answer, leave := b.ask(key, "/v1/chat/completions", `{"model":"comp/m","stream":true,"messages":[{"role":"user","content":"`+prompt+`"}]}`)
	reads(t, answer, `"id":"`, `"`)
	behind, gone := b.ask(key, "/v1/responses", `{"model":"oai/m","background":true,"stream":true,"input":"`+prompt+`"}`)
	reads(t, behind, `"id":"`, `"`)
	prompts, _ := b.vendor.counts()
	b.Kill()
	leave()
	gone()
	b.Gateway = harness.Run(t, b.Dir)
	harness.Eventually(t, "the ledger has what was sent", func() error {
		got, err := b.bill("killed")
		if err == nil && float64(got.Input) < charges.Least*float64(prompts) {
			err = fmt.Errorf("%+v for %d", got, prompts)
		}
		return err
	})
}
