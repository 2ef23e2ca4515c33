package providertest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/protojson"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/catalog"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/translate"
)

// facts returns the models of the built-in catalog.
var facts = catalog.New(nil)

// Credential is what requests are signed with in tests. It must appear nowhere but in a request to the vendor.
const Credential = "sk-test-credential-0123456789"

// inputSections are the sections of a case that -update keeps, in the order of the file.
func inputSections() []string {
	return []string{"endpoint", "request.json", "target", "config.json", "credential", "provider-response",
		"provider-frames"}
}

// goldenSections returns the sections that -update writes, in the order of the file, after the inputs.
func goldenSections() []string {
	return []string{"provider-request", "dropped", "adjusted", "client-response", "usage", "error"}
}

// A testCase is one txtar archive.
type testCase struct {
	path       string
	archive    *txtar.Archive
	endpoint   translate.Endpoint
	request    []byte
	target     provider.Target
	credential string
	response   *response // nil if there is none
}

// A response is an HTTP response as recorded.
type response struct {
	status int
	header http.Header
	body   []byte
}

func readCase(t testing.TB, vendor, path string) *testCase {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	c := &testCase{path: path, archive: txtar.Parse(data), endpoint: translate.Chat, credential: credential(t)}
	for _, f := range c.archive.Files {
		require.True(t, slices.Contains(slices.Concat(inputSections(), goldenSections()), f.Name), "unknown section %q",
			f.Name)
	}
	if e := c.section("endpoint"); e != nil {
		c.endpoint = translate.Endpoint(strings.TrimSpace(string(e)))
	}
	if own := c.section("credential"); own != nil {
		c.credential = strings.TrimSpace(string(own))
	}
	c.request = bytes.TrimSuffix(c.section("request.json"), []byte("\n"))
	require.NotEmpty(t, c.request, "the case has no request.json")
	c.target = provider.Target{Last: true, Config: &configv1.Provider{Name: vendor, Vendor: vendor},
		Model: strings.TrimSpace(string(c.section("target")))}
	require.NotEmpty(t, c.target.Model, "the case has no target")
	if config := c.section("config.json"); config != nil {
		require.NoError(t, protojson.Unmarshal(config, c.target.Config))
	}
	c.target.Facts = facts.Facts(vendor, c.target.Model)
	if recorded := c.section("provider-response"); recorded != nil {
		c.response, err = parseResponse(recorded)
		require.NoError(t, err, "reading provider-response")
	}
	if recorded := c.section("provider-frames"); recorded != nil {
		c.response, err = parseResponse(recorded)
		require.NoError(t, err, "reading provider-frames")
		c.response.body = chunksToFrames(c.response.body)
	}
	return c
}

// credential returns what the vendor's requests are signed with if a case does not say: the file
// testdata/credential, for vendors whose credentials have a form of their own, or else Credential itself.
func credential(t testing.TB) string {
	t.Helper()
	own, err := os.ReadFile("testdata/credential")
	if errors.Is(err, fs.ErrNotExist) {
		return Credential
	}
	require.NoError(t, err)
	require.Contains(t, string(own), Credential,
		"a credential of a test holds providertest.Credential, which must be seen nowhere")
	return strings.TrimSpace(string(own))
}

// section returns a section's text, or nil if the archive has none of that name.
func (c *testCase) section(name string) []byte {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// update writes the case with the golden sections that got holds.
func (c *testCase) update(t *testing.T, got map[string][]byte) {
	t.Helper()
	out := &txtar.Archive{Comment: c.archive.Comment}
	for _, name := range inputSections() {
		if data := c.section(name); data != nil {
			out.Files = append(out.Files, txtar.File{Name: name, Data: data})
		}
	}
	for _, name := range goldenSections() {
		if data := got[name]; data != nil {
			out.Files = append(out.Files, txtar.File{Name: name, Data: data})
		}
	}
	require.NoError(t, os.WriteFile(c.path, txtar.Format(out), 0o644))
}

// parseResponse reads a status line, header lines, a blank line and a body.
func parseResponse(recorded []byte) (*response, error) {
	r := bufio.NewReader(bytes.NewReader(recorded))
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("reading the status line: %w", err)
	}
	status, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return nil, fmt.Errorf("reading the status: %w", err)
	}
	header, err := textproto.NewReader(r).ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the headers: %w", err)
	}
	body, err := io.ReadAll(r)
	return &response{status: status, header: http.Header(header), body: body}, err
}

// appendMessage renders the head of an HTTP message and its body.
func appendMessage(first string, header http.Header, body []byte) []byte {
	out := []byte(first + "\n")
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			out = fmt.Appendf(out, "%s: %s\n", name, value)
		}
	}
	return withNewline(append(append(out, '\n'), body...))
}

// withNewline ends data with a line feed, as every section of a txtar archive does.
func withNewline(data []byte) []byte {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	return data
}
