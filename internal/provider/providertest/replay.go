package providertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/recordings"
	"github.com/modelgate/modelgate/internal/translate"
)

// replayed is the model by which clients know the one that answered.
const replayed = "replayed/model"

// Replay plays the exchanges of the three endpoints that are recorded for the vendor (package recordings), and
// single answers, against p. Recordings of operations that p does not use, such as an older version of the vendor's
// API, are left out. It compares what the client gets with what the vendor said, read by other code than the
// codec's.
func Replay(t *testing.T, p provider.Provider, vendor string) {
	played := 0
	play := func(name string, rec *recording) {
		if rec == nil || !speaks(p, rec) {
			return
		}
		played++
		t.Run(name, func(t *testing.T) { replay(t, p, rec) })
	}
	files := recordings.Of(t, vendor)
	for _, pattern := range []string{"*/meta.json", "response-only/*"} {
		paths, err := fs.Glob(files, pattern)
		require.NoError(t, err)
		for _, name := range paths {
			if pattern == "*/meta.json" {
				play(path.Dir(name), readRecording(t, files, path.Dir(name)))
			} else {
				play(path.Base(name), readAnswer(t, files, name))
			}
		}
	}
	require.NotZero(t, played, "nothing recorded of %s is of an operation that %s uses", vendor, p.Name)
}

// speaks reports whether p, asked what the recorder asked, would use the operation that was recorded.
func speaks(p provider.Provider, rec *recording) bool {
	if rec.endpoint == translate.Completions && p.Completion == nil || rec.endpoint == translate.Embeddings &&
		p.Embedding == nil {
		return false
	}
	if rec.path == "" || rec.response.status != http.StatusOK {
		return true
	}
	r, err := translate.Parse(p, rec.endpoint, rec.client("", false))
	if err != nil {
		return false
	}
	target := replayTarget(p, rec.model)
	req, _, err := r.Encode(target)
	if err != nil {
		return false
	}
	endpoint, err := p.Endpoint(target.Config)
	if err != nil {
		return false
	}
	asked, _, _ := strings.Cut(req.Path, "?")
	ours, theirs := operation(endpoint.Path+asked), operation(rec.path)
	if rec.dialect == openAI && strings.HasSuffix(ours, theirs) {
		return true // under whatever path vendors serve it
	}
	return ours == theirs || strings.HasSuffix(rec.path, ours)
}

// version is the beginning of a path that names the version of an API.
var version = regexp.MustCompile(`^/v\d`)

// operation returns the part of a path that says what is done: converse of /model/m/converse, generateContent of
// /v1beta/models/m:generateContent, /v2/chat of /v2/chat.
func operation(path string) string {
	if i := strings.LastIndexByte(path, ':'); i >= 0 && !strings.Contains(path[i:], "/") {
		return path[i+1:]
	}
	if version.MatchString(path) && strings.Count(path, "/") == 2 {
		return path
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

// replayTarget is a target that has all that any vendor's configuration needs.
func replayTarget(p provider.Provider, model string) provider.Target {
	c := &configv1.Provider{Name: p.Name, Vendor: p.Name, Project: "PROJECT", Region: "us-east5"}
	if p.DefaultEndpoint == "" && p.BaseURL == nil {
		c.Endpoint = "https://resource.example.com/v1"
	}
	return provider.Target{Config: c, Model: model, Facts: facts.Facts(p.Name, model)}
}

// client returns the smallest request of a client that could have led to the recording. Members are added to it.
func (rec *recording) client(members string, includeUsage bool) []byte {
	what := `"messages":[{"role":"user","content":"x"}],"max_tokens":64000`
	switch rec.endpoint {
	case translate.Completions:
		what = `"prompt":"x"`
	case translate.Embeddings:
		what = `"input":["x"]`
	}
	if rec.streamed {
		what += `,"stream":true`
	}
	if includeUsage {
		what += `,"stream_options":{"include_usage":true}`
	}
	return []byte(`{"model":"` + replayed + `",` + what + members + `}`)
}

func replay(t *testing.T, p provider.Provider, rec *recording) {
	if rec.dialect == openAI && rec.endpoint == translate.Chat && rec.request != nil {
		replayRequest(t, p, rec)
	}
	if status := rec.response.status; status != http.StatusOK {
		e := p.DecodeError(status, rec.response.header, rec.response.body)
		requireError(t, e)
		requireStatusClass(t, status, e.Status)
		return
	}
	want := readFacts(rec)
	for _, includeUsage := range []bool{false, true} {
		if includeUsage && !rec.streamed {
			continue
		}
		r, err := translate.Parse(p, rec.endpoint, rec.client(want.tools(), includeUsage))
		require.NoError(t, err)
		target := replayTarget(p, rec.model)
		_, answer, err := r.Encode(target)
		require.NoError(t, err)
		o := decode(t, p, answer, newEnvelope(p, r, target), &rec.response, 256<<10)
		switch {
		case rec.unjudged, want.open && o.Err != "":
		case want.fails:
			require.NotEmpty(t, o.Err, "an answer that is an error or has no end is an error")
		default:
			require.Empty(t, o.Err)
			want.require(t, r, o)
		}
		if rec.endpoint == translate.Chat {
			for _, d := range otherDialects {
				d.replay(t, p, rec, want, o.Err != "")
			}
		}
	}
}

// replayRequest checks that a recorded request of OpenAI's dialect is accepted, unless the vendor refused it too.
// If the vendor's answers pass as they came, its requests do, and no member is changed but those that the gateway
// must change.
func replayRequest(t *testing.T, p provider.Provider, rec *recording) {
	t.Helper()
	body := rec.request
	if gjson.GetBytes(body, "model").Str == "" { // Azure has it in the path
		body = translate.Ask(rec.endpoint, body, rec.model, false, false)
	}
	r, err := openai.ParseChatRequest(body)
	if err != nil && rec.response.status == http.StatusBadRequest {
		return
	}
	require.NoError(t, err)
	_, err = r.Chat()
	require.NoError(t, err)
	for _, model := range []string{r.Model, "another"} {
		target := replayTarget(p, model)
		target.Config.UnsupportedParameters = configv1.UnsupportedParameters_DROP
		req, _, err := p.Chat.Encode(r, target)
		require.NoError(t, err)
		if p.Name != "openai" {
			continue
		}
		before, after := members(t, r.Body), members(t, req.Body)
		require.Equal(t, model, after["model"])
		for _, mayChange := range []string{"model", "stream_options", "max_tokens", "max_completion_tokens"} {
			delete(before, mayChange)
			delete(after, mayChange)
		}
		require.True(t, reflect.DeepEqual(before, after), "a member was changed that must not be")
	}
}

func members(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(body, &m))
	return m
}

// requireStatusClass checks that a vendor's error is the client's where it is the client's mistake, and else a
// server's.
func requireStatusClass(t *testing.T, vendor, client int) {
	t.Helper()
	switch vendor {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusBadRequest:
		// A credential that the vendor refuses is not the client's mistake, whatever the vendor's status.
		require.Contains(t, []int{vendor, http.StatusBadRequest, http.StatusNotFound, http.StatusTooManyRequests,
			http.StatusBadGateway}, client)
	case http.StatusPaymentRequired:
		require.Equal(t, http.StatusTooManyRequests, client)
	case http.StatusRequestTimeout, http.StatusFailedDependency, 498, 499:
		require.GreaterOrEqual(t, client, 500)
	default:
		require.Equal(t, vendor/100, client/100)
	}
}

// tools returns the member of a client's request that offers the tools which were called.
func (f *answerFacts) tools() string {
	var b bytes.Buffer
	seen := map[string]bool{}
	for _, c := range f.calls {
		if name, _, _ := strings.Cut(c, " "); !seen[name] && toolName.MatchString(name) {
			seen[name] = true
			fmt.Fprintf(&b, `,{"type":"function","function":{"name":%q,"parameters":{"type":"object"}}}`, name)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return `,"tools":[` + b.String()[1:] + `]`
}

var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
