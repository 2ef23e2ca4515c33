package providertest

import (
	"bytes"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/golden"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
	"github.com/modelgate/modelgate/internal/translate"
)

// Run plays every case in testdata/*.txtar of the calling package against p, and what holds for every provider.
func Run(t *testing.T, p provider.Provider) {
	paths, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, paths, "the provider has no cases in testdata")
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			runCase(t, p, readCase(t, p.Name, path))
		})
	}
	t.Run("any answer with an error status is a well-formed error", func(t *testing.T) { runErrors(t, p) })
}

// runCase plays a case and compares it with its golden sections.
func runCase(t *testing.T, p provider.Provider, c *testCase) {
	original := bytes.Clone(c.request)
	r, err := translate.Parse(p, c.endpoint, c.request)
	require.NoError(t, err, "the case's request is refused before it reaches the provider")
	got := map[string][]byte{}
	answer := encode(t, p, c, r, got)
	if c.response != nil {
		require.NotNil(t, answer, "the case has a provider-response to a request that is refused")
		o := decode(t, p, answer, newEnvelope(p, r, c.target), c.response, 1<<20)
		render(got, o)
	}
	require.Equal(t, string(original), string(c.request), "the client's request was modified")
	for _, section := range []string{"client-response", "error", "dropped", "adjusted"} {
		require.NotContains(t, string(got[section]), Credential, "the credential is in %s", section)
	}
	if golden.Update() {
		c.update(t, got)
		return
	}
	for _, name := range goldenSections() {
		if diff := cmp.Diff(string(c.section(name)), string(got[name])); diff != "" {
			t.Errorf("%s: %s differs (-want +got); run the test with -update where this is right:\n%s", c.path, name, diff)
		}
	}
}

// encode plays the way to the vendor.
func encode(t *testing.T, p provider.Provider, c *testCase, r *translate.Request,
	got map[string][]byte) provider.Answer {
	t.Helper()
	unsent := c.target
	unsent.Unsent = true
	_, _, cannot := r.Encode(unsent)
	req, answer, err := r.Encode(c.target)
	require.Equal(t, err, cannot, "whether the vendor can honour a request does not depend on whether it is sent")
	if err != nil {
		var o outcome
		o.failWhole(err)
		requireError(t, o.Client)
		render(got, o)
		return nil
	}
	endpoint, err := p.Endpoint(c.target.Config)
	require.NoError(t, err)
	if req.Header == nil {
		req.Header = http.Header{}
	}
	require.NoError(t, p.Sign(&req, provider.Signing{
		Config: c.target.Config, Credential: secret.New(c.credential), Method: http.MethodPost, Endpoint: endpoint,
		Now: time.Unix(created, 0),
	}))
	again, _, err := r.Encode(c.target)
	require.NoError(t, err)
	require.Equal(t, string(req.Body), string(again.Body), "the same request is encoded the same way")
	require.True(t, strings.HasPrefix(req.Path, "/"), "a path begins with a slash: %s", req.Path)
	require.NotContains(t, req.Path, Credential)
	require.NotContains(t, string(req.Body), Credential)
	got["provider-request"] = appendMessage("POST "+req.Path, req.Header, req.Body)
	if len(req.Dropped) > 0 {
		got["dropped"] = []byte(strings.Join(req.Dropped, "\n") + "\n")
	}
	if len(req.Adjusted) > 0 {
		got["adjusted"] = []byte(strings.Join(req.Adjusted, "\n") + "\n")
	}
	return answer
}

// decode plays the way back, whole and in pieces: see eachCutting for fed.
func decode(t *testing.T, p provider.Provider, answer provider.Answer, e envelope, recorded *response,
	fed int) outcome {
	t.Helper()
	if recorded.status != http.StatusOK {
		err := p.DecodeError(recorded.status, recorded.header, recorded.body)
		requireError(t, err)
		var o outcome
		o.failWhole(err)
		return o
	}
	r := e.request
	if !r.Stream {
		o := playUnary(answer, r, recorded.body)
		if o.Err == "" {
			e.requireAnswer(t, o)
		}
		return o
	}
	whole := playStream(answer, r, [][]byte{recorded.body})
	if whole.Status == http.StatusOK {
		e.requireChunks(t, whole)
	}
	eachCutting(recorded.body, fed, func(pieces [][]byte) {
		o := playStream(answer, r, pieces)
		if !same(whole, o, recorded.body) {
			require.Empty(t, cmp.Diff(whole, o),
				"the outcome depends on where the body was cut: %d pieces, the first of %d bytes", len(pieces), len(pieces[0]))
		}
	})
	return whole
}

// render writes what came back as golden sections.
func render(got map[string][]byte, o outcome) {
	if o.Err != "" {
		got["error"] = withNewline([]byte(o.Err))
	}
	if o.Status != 0 {
		got["client-response"] = appendMessage(strconv.Itoa(o.Status), o.Header, []byte(o.Body))
	}
	if !o.Usage.IsZero() {
		got["usage"] = withNewline(o.Usage.AppendJSON(nil))
	}
}

// runErrors checks that no answer, however strange, makes an error that clients cannot read or that shows a
// credential.
func runErrors(t *testing.T, p provider.Provider) {
	bodies := []string{
		"", "{", "null", "[]", "[1]", "<html><body>502 Bad Gateway</body></html>", `{"error":null}`, `{"error":{}}`,
		`{"error":[]}`,
		`{"error":{"message":null,"type":null,"code":null}}`, `{"error":{"message":7,"type":8,"code":9,"param":[]}}`,
		`{"error":"text"}`,
		`{"message":"text"}`, `{"detail":[{"msg":"text"}]}`, "\xff\xfe", `{"error":{"message":"\ud800"}}`,
		fmt.Sprintf(
			`{"error":{"message":"Incorrect API key provided: %s.","type":"authentication_error","code":"invalid_api_key"}}`,
			Credential),
	}
	for _, status := range []int{400, 401, 402, 403, 404, 408, 409, 413, 422, 424, 429, 498, 499, 500, 502, 503, 504, 529,
		599} {
		for _, body := range bodies {
			e := p.DecodeError(status, nil, []byte(body))
			requireError(t, e)
			if status == http.StatusUnauthorized {
				require.Equal(t, http.StatusBadGateway, e.Status, "the gateway's credential is not the client's business")
			}
			require.NotContains(t, e.Error(), Credential, "a vendor's error shows the credential: status %d", status)
		}
	}
}
