package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
)

// maxJSON bounds a JSON answer of a provider's API, in bytes.
const maxJSON = 16 << 20

// A Client calls the API of one provider for jobs, outside the request path. Paths are relative to the provider's
// endpoint and may have a query. Send adds the credential. A Client is safe for concurrent use.
type Client struct {
	// Config is the configured provider, without its credential.
	Config *configv1.Provider
	// Send sends a request, whose URL has only a path and a query. It returns every answer of the provider. An error
	// means that there was no answer.
	Send func(*http.Request) (*http.Response, error)
	// DecodeError is the vendor's DecodeError.
	DecodeError func(status int, header http.Header, body []byte) *openai.Error
}

// Do sends a request and returns the answer, whose body the caller closes. If the status is 400 or above, the error is
// an *openai.Error. The body may be nil; contentType is then empty.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, path, body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return c.do(r)
}

func (c *Client) do(r *http.Request) (*http.Response, error) {
	answer, err := c.Send(r)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	if answer.StatusCode < http.StatusBadRequest {
		return answer, nil
	}
	defer func() { _ = answer.Body.Close() }() // the rest is not needed
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxJSON))
	if err != nil {
		return nil, fmt.Errorf("%s %s: status %d: %w", r.Method, r.URL, answer.StatusCode, err)
	}
	return nil, c.DecodeError(answer.StatusCode, answer.Header, text)
}

// JSON sends in as JSON and decodes the answer into out. Both may be nil.
func (c *Client) JSON(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return fmt.Errorf("%s %s: %w", method, path, err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.Ask(r, out)
}

// Ask sends a request and decodes the JSON answer into out, which may be nil.
func (c *Client) Ask(r *http.Request, out any) error {
	answer, err := c.do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // it was read to its end
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxJSON))
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, r.URL, err)
	}
	if out == nil {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s %s: %w: %w", r.Method, r.URL, ErrNotAnAnswer, err)
	}
	return nil
}
