package controlplane

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/proto"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	openaiapi "github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	probeTimeout = 10 * time.Second
	maxFinding   = 500 // bytes
	maxNames     = 1000
	maxSaid      = 8 << 10 // bytes of an error that are read for what it says
)

// probes are the providers that are being asked.
type probes struct {
	mu      sync.Mutex // guards running
	running map[string]bool
}

func (p *probes) begin(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == nil {
		p.running = map[string]bool{}
	}
	if p.running[name] {
		return false
	}
	p.running[name] = true
	return true
}

func (p *probes) end(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.running, name)
}

// TestProvider asks a provider for its models with its credential, as the data plane would: from this machine, at the
// endpoint of its configuration and nowhere else. It takes at most 10 s. While the same provider is being asked, it is
// an error of the client.
func (s *Server) TestProvider(ctx context.Context, p *configv1.Provider) (adminapi.ProviderTest, error) {
	if !s.probes.begin(p.GetName()) {
		return adminapi.ProviderTest{}, openaiapi.CodeTestRunning.New("The provider is being tested already. Wait for that to end.")
	}
	defer s.probes.end(p.GetName())
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p = proto.CloneOf(p)
	p.Disabled = false // whether it would work is asked before it is enabled
	resolved, err := s.ownResolver().provider(p)
	if err != nil {
		return adminapi.ProviderTest{Message: "The credential cannot be had: " + err.Error()}, nil
	}
	a := &probe{vendor: s.config.Providers[p.GetVendor()], config: p, credential: secret.New(resolved.GetCredential())}
	started := time.Now()
	api, done, err := a.client()
	var models []string
	if err == nil {
		defer done()
		models, err = a.ask(ctx, api)
	}
	found := adminapi.ProviderTest{OK: err == nil, Status: a.status, LatencyMS: time.Since(started).Milliseconds(),
		Models: len(models), ModelNames: models[:min(len(models), maxNames)]}
	if err == nil {
		found.Operations = a.operations(ctx, api)
	}
	switch {
	case err != nil:
		found.Message = a.scrubbed(explained(ctx, a.status, a.said, err))
	case a.vendor.Models == nil:
		found.Message = "It answers and takes the credential. It has no list of models." + besides(found.Operations)
	default:
		found.Message = fmt.Sprintf("It answers and takes the credential. It lists %d models.", len(models)) + besides(found.Operations)
	}
	return found, nil
}

// explained says what an error means. Said is what the vendor says of it.
func explained(ctx context.Context, status int, said string, err error) string {
	switch {
	case ctx.Err() != nil:
		return fmt.Sprintf("It did not answer within %d s.", int(probeTimeout.Seconds()))
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		if said != "" {
			said = " It says: " + said
		}
		return fmt.Sprintf("It refused the credential, with status %d.%s", status, said)
	}
	if e, ok := errors.AsType[*openaiapi.Error](err); ok {
		return fmt.Sprintf("It answered with status %d: %s", status, e.Message)
	}
	return err.Error()
}

// A probe asks one provider. It is used by one goroutine.
type probe struct {
	vendor     provider.Provider
	config     *configv1.Provider
	credential secret.Value
	status     int    // of the last answer
	said       string // by the last answer, if it is an error
}

// client returns a client of the provider's API, and what ends its connections.
func (p *probe) client() (*provider.Client, func(), error) {
	endpoint, err := p.vendor.Endpoint(p.config)
	if err != nil {
		return nil, nil, fmt.Errorf("endpoint: %w", err)
	}
	transport, err := transportTo(endpoint, p.config.GetTls())
	if err != nil {
		return nil, nil, err
	}
	// A redirect would take the credential elsewhere.
	client := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &provider.Client{
		Config: p.config, DecodeError: p.vendor.DecodeError,
		Send: func(r *http.Request) (*http.Response, error) {
			signed, err := p.sign(r, endpoint)
			if err != nil {
				return nil, err
			}
			answer, err := client.Do(signed)
			if err == nil {
				err = p.note(answer)
			}
			return answer, err
		},
	}, transport.CloseIdleConnections, nil
}

// note keeps what an answer says. The errors that clients get do not say why a credential is refused.
func (p *probe) note(answer *http.Response) error {
	p.status, p.said = answer.StatusCode, ""
	if p.status < http.StatusBadRequest {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxSaid))
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), answer.Body), answer.Body}
	for _, path := range []string{"error.message", "message", "detail", "error"} {
		if found := gjson.GetBytes(text, path); p.said == "" && found.Type == gjson.String {
			p.said = found.String()
		}
	}
	return err
}

// ask returns the names of the models, sorted, if there is a list.
func (p *probe) ask(ctx context.Context, api *provider.Client) ([]string, error) {
	if p.vendor.Models != nil {
		models, err := p.vendor.Models(ctx, api)
		var names []string
		for _, m := range models {
			names = append(names, m.GetId())
		}
		slices.Sort(names)
		return names, err
	}
	answer, err := api.Do(ctx, http.MethodGet, "/models", "", nil)
	switch {
	case err == nil:
		return nil, answer.Body.Close()
	case p.status == http.StatusNotFound, p.status == http.StatusMethodNotAllowed:
		return nil, errors.New("it answers, but has no list of models, by which the credential could be tested")
	}
	return nil, err
}

// sign addresses a request of the vendor's API and adds what the data plane adds.
func (p *probe) sign(r *http.Request, e provider.Endpoint) (*http.Request, error) {
	request := provider.Request{Path: r.URL.RequestURI(), Header: r.Header.Clone()}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		request.Body = body
	}
	err := p.vendor.Sign(&request, provider.Signing{Config: p.config, Credential: p.credential, Method: r.Method,
		Endpoint: e, Now: time.Now()})
	if err != nil {
		return nil, fmt.Errorf("the credential cannot be used: %w", err)
	}
	scheme := "http"
	if e.TLS {
		scheme = "https"
	}
	signed, err := http.NewRequestWithContext(r.Context(), r.Method, scheme+"://"+e.Authority()+e.Join(request.Path),
		strings.NewReader(string(request.Body)))
	if err != nil {
		return nil, err
	}
	signed.Header = request.Header
	for name, value := range p.config.GetHeaders() {
		signed.Header.Set(name, value)
	}
	return signed, nil
}

// transportTo reaches an endpoint directly, verified as the data plane verifies it.
func transportTo(e provider.Endpoint, o *configv1.UpstreamTLS) (*http.Transport, error) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.GetServerName()}
	if o.GetCa() != "" {
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM([]byte(o.GetCa())) {
			return nil, errors.New("tls.ca: holds no certificate in PEM")
		}
	}
	t := &http.Transport{TLSClientConfig: secure, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10}
	if e.Pipe != "" {
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", e.Pipe)
		}
	}
	return t, nil
}

// scrubbed returns what was found without the credential, and without the headers that the operator has set: what a
// provider says may repeat what it was sent.
func (p *probe) scrubbed(s string) string {
	secrets := append(strings.Split(p.credential.Reveal(), ":"), p.credential.Reveal()) // some have parts
	for _, value := range p.config.GetHeaders() {
		secrets = append(secrets, value)
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, v := range secrets {
		if len(v) >= 6 { // what is shorter may stand in a text by chance
			s = strings.NewReplacer(v, secret.Redacted, url.QueryEscape(v), secret.Redacted).Replace(s)
		}
	}
	s = provider.WithoutKeys(s)
	return strings.ToValidUTF8(s[:min(len(s), maxFinding)], "")
}
