package harness

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/test/cases"
)

// A Client asks a gateway for files and jobs with one key.
type Client struct{ *cases.Gateway }

// As returns a client with a key.
func (g *Gateway) As(key string) Client {
	c := g.AsCases()
	c.Key = key
	return Client{c}
}

// A Batch is the batch object as a client reads it.
type Batch struct {
	ID           string  `json:"id"`
	Status       string  `json:"status"`
	InputFileID  string  `json:"input_file_id"`
	OutputFileID *string `json:"output_file_id"`
	ErrorFileID  *string `json:"error_file_id"`
	Counts       struct {
		Total     int `json:"total"`
		Completed int `json:"completed"`
		Failed    int `json:"failed"`
	} `json:"request_counts"`
	Usage *struct {
		InputTokens  int64 `json:"input_tokens"`
		OutputTokens int64 `json:"output_tokens"`
		TotalTokens  int64 `json:"total_tokens"`
	} `json:"usage"`
	Errors *struct {
		Data []BatchError `json:"data"`
	} `json:"errors"`
}

// A BatchError is what is wrong with a line of a batch's input.
type BatchError struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
	Line    *int    `json:"line"`
}

// Over reports whether nothing happens to the batch any more.
func (b Batch) Over() bool {
	switch b.Status {
	case "failed", "completed", "expired", "cancelled":
		return true
	}
	return false
}

// A Result is a line of an output or error file.
type Result struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response *struct {
		StatusCode int             `json:"status_code"`
		RequestID  string          `json:"request_id"`
		Body       json.RawMessage `json:"body"`
	} `json:"response"`
	Error *struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// Line is a line of a batch's input.
func Line(customID, url, body string) string {
	return fmt.Sprintf(`{"custom_id":%q,"method":"POST","url":%q,"body":%s}`, customID, url, body)
}

// ChatLine is a line that says a text to a model.
func ChatLine(customID, model, text string) string {
	return Line(customID, "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`,
		model, text))
}

// Form is the body of an upload and its content type.
func Form(t testing.TB, name, content string, fields ...string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		require.NoError(t, w.WriteField(fields[i], fields[i+1]))
	}
	part, err := w.CreateFormFile("file", name)
	require.NoError(t, err)
	_, err = io.WriteString(part, content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String(), w.FormDataContentType()
}

// Upload creates a file and returns its id.
func (c Client) Upload(t testing.TB, purpose, content string) string {
	t.Helper()
	body, contentType := Form(t, "lines.jsonl", content, "purpose", purpose)
	a := c.Do(t, http.MethodPost, "/v1/files", body, "Content-Type", contentType)
	require.Equal(t, 200, a.Status, "%s", a.Body)
	return a.JSON(t)["id"].(string)
}

// Begin creates a batch of lines, all for one endpoint, and returns its id.
func (c Client) Begin(t testing.TB, endpoint string, lines ...string) string {
	t.Helper()
	return c.BeginWith(t, endpoint, c.Upload(t, "batch", strings.Join(lines, "\n")+"\n"))
}

// BeginWith creates a batch of a file and returns its id.
func (c Client) BeginWith(t testing.TB, endpoint, file string) string {
	t.Helper()
	a := c.Do(t, http.MethodPost, "/v1/batches",
		fmt.Sprintf(`{"input_file_id":%q,"endpoint":%q,"completion_window":"24h"}`, file, endpoint))
	require.Equal(t, 200, a.Status, "%s", a.Body)
	return a.JSON(t)["id"].(string)
}

// Try asks where the gateway may be away, and decodes the answer, which must be a success.
func (c Client) Try(method, path string, into any) error {
	r, err := http.NewRequest(method, c.URL+path, http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.Key)
	response, err := c.Client.Do(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: status %d: %s", method, path, response.StatusCode, body)
	}
	return json.Unmarshal(body, into)
}

// Batch reads a batch.
func (c Client) Batch(t testing.TB, id string) Batch {
	t.Helper()
	var b Batch
	require.NoError(t, c.Try(http.MethodGet, "/v1/batches/"+id, &b))
	return b
}

// Await waits until a batch is over.
func (c Client) Await(t testing.TB, id string) (b Batch) {
	t.Helper()
	Eventually(t, "the batch ends", func() error {
		if err := c.Try(http.MethodGet, "/v1/batches/"+id, &b); err != nil {
			return err
		}
		if !b.Over() {
			return fmt.Errorf("%s, %+v", b.Status, b.Counts)
		}
		return nil
	})
	return b
}

// Content reads a file.
func (c Client) Content(t testing.TB, file string) string {
	t.Helper()
	a := c.Do(t, http.MethodGet, "/v1/files/"+file+"/content", "")
	require.Equal(t, 200, a.Status, "%s", a.Body)
	require.NoError(t, a.Err)
	return string(a.Body)
}

// Results reads the lines of an output or error file, or none where there is no such file. No custom_id is there
// twice.
func (c Client) Results(t testing.TB, file *string) map[string]Result {
	t.Helper()
	results := map[string]Result{}
	if file == nil {
		return results
	}
	for line := range strings.Lines(c.Content(t, *file)) {
		var r Result
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		require.NotContains(t, results, r.CustomID, "twice in one file")
		require.True(t, strings.HasSuffix(line, "\n"), "a line that does not end: %s", line)
		results[r.CustomID] = r
	}
	return results
}
