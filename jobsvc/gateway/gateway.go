// Package gateway sends the requests of jobs to providers, through Envoy's internal listener, so that routing,
// fallback, limits, prices and translation are the same as for every other request. The job service has no credential
// of a provider.
//
// The address is not for clients. On this listener Envoy trusts the headers that identify the client, and admits only
// the job service.
package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"go.opentelemetry.io/otel/propagation"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/envoy"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/jobsvc/config"
)

// A Gateway sends requests to providers. It is safe for concurrent use.
type Gateway struct {
	base string // scheme and host
	http *http.Client
}

// New returns a gateway at unix:///path or host:port. The latter uses mutual TLS. It keeps up to connections
// connections open.
func New(address string, secure *tls.Config, connections int) (*Gateway, error) {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	t := &http.Transport{
		MaxIdleConns: connections, MaxIdleConnsPerHost: connections, IdleConnTimeout: time.Minute,
		DisableCompression: true, TLSClientConfig: secure, WriteBufferSize: 32 << 10, ReadBufferSize: 32 << 10,
	}
	g := &Gateway{base: "https://" + address}
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		g.base = "http://jobs"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	} else {
		if secure == nil {
			return nil, fmt.Errorf("the gateway at %s needs mutual TLS", address)
		}
		t.DialContext = dialer.DialContext
	}
	// A redirect is returned like any other answer: following it would lead to another place.
	keep := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	g.http = &http.Client{Transport: t, CheckRedirect: keep}
	return g, nil
}

// Close closes idle connections.
func (g *Gateway) Close() { g.http.CloseIdleConnections() }

// An Ask is a request to OpenAI's API on behalf of a key.
type Ask struct {
	Key string // name of the Key object
	// Project that has the job, within the key's organization. A token may have named another one than the key's.
	Project string
	Charge  string // id under which an exchange that finishes is charged once, even if it is repeated; may be empty
	// Again says that the caller asks again if waiting may help.
	Again  bool
	Method string
	Path   string
	Header http.Header // of the client; may be nil
	Body   []byte
}

// Ask sends a request, which joins the trace of ctx. The caller closes the body of the answer, with any status.
func (g *Gateway) Ask(ctx context.Context, a Ask) (*http.Response, error) {
	var body io.Reader
	if a.Body != nil {
		body = bytes.NewReader(a.Body)
	}
	r, err := http.NewRequestWithContext(ctx, a.Method, g.base+a.Path, body)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, a.Header)
	r.Header.Set(envoy.HeaderKey, a.Key)
	if a.Project != "" {
		r.Header.Set(envoy.HeaderProject, url.QueryEscape(a.Project))
	}
	if a.Charge != "" {
		charge := a.Charge
		if a.Again {
			charge += envoy.ChargeAgain
		}
		r.Header.Set(envoy.HeaderCharge, charge)
	}
	if a.Body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(r.Header))
	return g.http.Do(r)
}

// Find returns the name of a model in the configuration: the given name, or "<provider>/<model>" if exactly one
// provider lists it. If the key may use no such model, the error is the 404 that a request would get.
func (g *Gateway) Find(ctx context.Context, key, model string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	answer, err := g.Ask(ctx, Ask{Key: key, Method: http.MethodGet, Path: "/v1/models/" + url.PathEscape(model)})
	if err != nil {
		return "", fmt.Errorf("look up model: %w", err)
	}
	defer func() { _ = answer.Body.Close() }() // the rest is not needed
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxError))
	if err != nil {
		return "", fmt.Errorf("look up model: %w", err)
	}
	switch said := gjson.ParseBytes(text); answer.StatusCode {
	case http.StatusOK:
		if id := said.Get("id").String(); id != "" {
			return id, nil
		}
	case http.StatusNotFound, http.StatusUnauthorized:
		e := openai.ModelNotFound(model)
		if openai.Code(said.Get("error.code").String()) == e.Code {
			e.Message = said.Get("error.message").String() // it suggests models
		}
		return "", e
	}
	return "", fmt.Errorf("look up model: status %d", answer.StatusCode)
}

// MayUse reports whether a key may use an existing model.
func (g *Gateway) MayUse(ctx context.Context, key, model string) (bool, error) {
	_, err := g.Find(ctx, key, model)
	if _, unknown := errors.AsType[*openai.Error](err); unknown {
		return false, nil
	}
	return err == nil, err
}

// Provider returns a client of a provider's own API.
func (g *Gateway) Provider(p *config.Provider) *provider.Client {
	name := p.Config.GetName()
	return &provider.Client{
		Config:      p.Config,
		DecodeError: p.Vendor.DecodeError,
		Send: func(r *http.Request) (*http.Response, error) {
			at, err := url.Parse(g.base + r.URL.RequestURI())
			if err != nil {
				return nil, err
			}
			r = r.Clone(r.Context())
			r.URL, r.Host = at, ""
			r.Header.Set(envoy.HeaderProvider, name)
			answer, err := g.http.Do(r)
			if err == nil && answer.StatusCode == http.StatusNotFound {
				answer, err = unlessUnknown(answer)
			}
			return answer, err
		},
	}
}

// ErrNoProvider means that the gateway does not have the provider. It is not an answer of the provider.
var ErrNoProvider = errors.New("the provider is not configured, or disabled")

// unlessUnknown returns an answer with status 404, or ErrNoProvider if it is the gateway's own.
func unlessUnknown(answer *http.Response) (*http.Response, error) {
	body := answer.Body
	text, err := io.ReadAll(io.LimitReader(body, maxError))
	if err == nil && openai.Code(gjson.GetBytes(text, "error.code").String()) == openai.CodeProviderNotFound {
		return nil, errors.Join(ErrNoProvider, body.Close())
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), body), body}
	return answer, nil
}

// maxError bounds the part of an error that is read, in bytes.
const maxError = 4 << 10
