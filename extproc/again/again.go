// Package again sends attempts that Envoy does not make: those after an answer that began with a status of success and
// then failed, before the client has got any of it. Envoy retries by the status alone. An attempt goes as a request to
// a listener of Envoy that only this process reaches, which sends it over the provider's own cluster. The answer comes
// back here.
//
// Most likely mistake: to send a request whose credential is for another place than its cluster leads to. Both come
// from one target of one plan.
package again

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/extproc/message"
)

// A Request is an attempt.
type Request struct {
	Cluster string
	Header  message.Headers // including path
	Body    []byte
	Timeout time.Duration // until the headers of the answer
}

// A Client sends attempts. It is safe for concurrent use.
type Client struct {
	socket    string
	transport *http.Transport
}

// Beside returns the client of the Envoy that finds this process at a listener. Without a Unix socket there is none.
func Beside(l net.Listener) *Client {
	at, ok := l.Addr().(*net.UnixAddr)
	if !ok {
		return nil
	}
	socket, dialer := envoy.AgainSocket(at.Name), &net.Dialer{Timeout: time.Second}
	return &Client{socket, &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
		DisableCompression: true, MaxIdleConnsPerHost: 64, IdleConnTimeout: 30 * time.Second,
	}}
}

// Listens reports whether Envoy takes attempts. An Envoy that others run may not.
func (c *Client) Listens() bool {
	_, err := os.Stat(c.socket)
	return err == nil
}

// An Answer is a provider's. The caller closes its body, which fails if it breaks off.
type Answer struct {
	Header message.Headers
	Body   io.ReadCloser
}

// ErrUnreached is the error of an attempt that Envoy could not make, and ErrNoEnvoy that of one that it did not get.
var (
	ErrUnreached = errors.New("the provider gave no answer")
	ErrNoEnvoy   = errors.New("the listener of Envoy is away")
)

// Do makes an attempt. It ends with the context, also while the body is read.
func (c *Client) Do(ctx context.Context, r *Request) (*Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(r.Timeout, cancel)
	if r.Timeout == 0 {
		late.Stop()
	}
	response, err := c.transport.RoundTrip(outgoing(ctx, r))
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		err = errors.Join(ErrNoEnvoy, err)
	}
	if err == nil && !late.Stop() && r.Timeout > 0 {
		err = errors.Join(context.DeadlineExceeded, response.Body.Close())
	}
	if err == nil && response.Header.Get(envoy.HeaderDetails) != "" { // it is Envoy's own
		err = errors.Join(errors.New(response.Header.Get(envoy.HeaderDetails)), response.Body.Close())
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("%w: %w", ErrUnreached, err)
	}
	a := &Answer{Header: message.Headers{{Name: ":status", Value: strconv.Itoa(response.StatusCode)}},
		Body: body{response.Body, cancel}}
	for name, values := range response.Header {
		for _, value := range values {
			a.Header = append(a.Header, message.Header{Name: strings.ToLower(name), Value: value})
		}
	}
	if response.ContentLength > 0 && a.Header.Get("content-length") == "" {
		a.Header = append(a.Header, message.Header{Name: "content-length",
			Value: strconv.FormatInt(response.ContentLength, 10)})
	}
	return a, nil
}

// outgoing returns the request for Envoy. Its headers are the attempt's, and no others.
func outgoing(ctx context.Context, r *Request) *http.Request {
	path := r.Header.Get(":path")
	out := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Scheme: "http", Host: "envoy", Opaque: path}, Host: "envoy",
		Header: http.Header{"User-Agent": {""}}, // none
		Body:   io.NopCloser(bytes.NewReader(r.Body)), ContentLength: int64(len(r.Body)),
	}).WithContext(ctx)
	for _, h := range r.Header {
		if h.Name[0] != ':' && h.Name != "content-length" {
			out.Header.Set(h.Name, h.Value)
		}
	}
	out.Header.Set(envoy.HeaderCluster, r.Cluster)
	return out
}

type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close ends the attempt, also if its answer is not complete.
func (b body) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}
