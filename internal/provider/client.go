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

// A Client calls the API of one provider outside the request path, for jobs. Paths are relative to the provider's
// endpoint and may have a query; who sends the request adds the credential. It is safe for concurrent use.
type Client struct {
	// Config is the provider as configured, without its credential.
	Config *configv1.Provider
	// Send sends a request whose URL has a path and a query only, and returns any answer that the provider gives. An
	// error means that there was none.
	Send func(*http.Request) (*http.Response, error)
	// DecodeError is the vendor's.
	DecodeError func(status int, header http.Header, body []byte) *openai.Error
}

// Do sends a request and returns the answer, whose body the caller closes. The error of an answer with a status of 400
// or above is an *openai.Error. A body of nil is none; contentType is then empty.
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
	defer func() { _ = answer.Body.Close() }() // nothing more is wanted of it
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxJSON))
	if err != nil {
		return nil, fmt.Errorf("%s %s: status %d: %w", r.Method, r.URL, answer.StatusCode, err)
	}
	return nil, c.DecodeError(answer.StatusCode, answer.Header, text)
}

// JSON sends in as JSON, unless it is nil, and decodes the answer into out, unless that is nil.
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

// Ask sends a request and decodes the answer, which is JSON, into out, unless that is nil.
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
