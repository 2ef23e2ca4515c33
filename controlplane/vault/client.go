// Package vault reads secrets from HashiCorp Vault or OpenBao.
package vault

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	maxAnswer    = 1 << 20 // bytes
	maxRedirects = 3
)

// Options say where Vault is and how to sign in to it: with a TokenFile, or with a Role.
type Options struct {
	// Address is Vault's URL: https, or http to this machine.
	Address string
	// TLS is the configuration of connections to it. Nil: the system's authorities are trusted.
	TLS *tls.Config
	// Namespace is sent with every request. Optional.
	Namespace string
	// TokenFile is a file with a token. Something else renews it.
	TokenFile string
	// Role is signed in to at auth/MOUNT/login with the JWT in a file.
	Role, JWTFile, Mount string
	// Interval is how often each secret is read. 0: a minute.
	Interval time.Duration
	Log      *zap.Logger
}

// ErrNone is the error if there is no Vault.
var ErrNone = errors.New("the control plane knows no Vault: start it with --vault-addr")

var (
	errAddress   = errors.New("it must be an https URL, or http to a loopback address, without user, query and fragment")
	errTooLarge  = fmt.Errorf("the answer is larger than %d bytes", maxAnswer)
	errElsewhere = errors.New("it redirects to another host, which is not followed")
)

// A client asks Vault. It is safe for concurrent use.
type client struct {
	base      *url.URL
	namespace string
	http      *http.Client
	tokens    tokens
}

// New returns a Follower of secrets in Vault that reads nothing before Run.
func New(o Options) (*secretstore.Follower, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	return secretstore.New(secretstore.Options{Store: c, Interval: o.Interval, Log: o.Log}), nil
}

func newClient(o Options) (*client, error) {
	base, err := CheckAddress(o.Address)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = o.TLS
	transport.MaxResponseHeaderBytes = 64 << 10
	c := &client{base: base, namespace: o.Namespace,
		http: &http.Client{Transport: transport, Timeout: secretstore.Timeout, CheckRedirect: sameHost}}
	if o.Role != "" {
		c.tokens = &login{client: c, role: o.Role, jwtFile: o.JWTFile, mount: o.Mount, now: time.Now}
	} else {
		c.tokens = &tokenFile{path: o.TokenFile}
	}
	return c, nil
}

// CheckAddress returns the URL of a Vault that tokens may be sent to.
func CheckAddress(address string) (*url.URL, error) {
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, errAddress
	}
	switch {
	case base.Scheme == "https":
	case base.Scheme == "http" && loopback(base.Hostname()):
	default:
		return nil, errAddress
	}
	base.Path = strings.TrimRight(base.Path, "/")
	base.RawPath = ""
	return base, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// sameHost lets a redirect lead to another path. A token goes nowhere else.
func sameHost(r *http.Request, via []*http.Request) error {
	if r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme || len(via) > maxRedirects {
		return errElsewhere
	}
	return nil
}

// Read reads a secret. If the token is refused and there may be a better one, it tries once more.
func (c *client) Read(ctx context.Context, path string) (secretstore.Found, error) {
	for again := true; ; again = false {
		token, err := c.tokens.token(ctx)
		if err != nil {
			return secretstore.Found{}, err // which says nothing of the secret
		}
		a, err := c.do(ctx, request{method: http.MethodGet, path: path, token: token})
		e, answered := errors.AsType[*statusError](err)
		if again && answered && e.status == http.StatusForbidden && c.tokens.refused(token) {
			continue
		}
		var fields *secretstore.Fields
		if err == nil {
			fields, err = fieldsOf(a.Data)
		}
		if final(err) {
			err = &secretstore.RefusedError{Err: err}
		}
		return secretstore.Found{Fields: fields, Lease: secretstore.Lease{Of: a.LeaseID, Duration: seconds(a.Lease)}}, err
	}
}

// Tend keeps the token valid.
func (c *client) Tend(ctx context.Context) bool { return c.tokens.tend(ctx) }

// A request is one of Vault's API.
type request struct {
	method string
	path   string         // below /v1/
	token  secret.Value   // may be zero
	body   any            // nil: none
	hidden []secret.Value // what is in the body and must not be repeated
}

// do sends a request. No error repeats a token.
func (c *client) do(ctx context.Context, q request) (answer, error) {
	var body io.Reader
	if q.body != nil {
		text, err := json.Marshal(q.body)
		if err != nil {
			return answer{}, err
		}
		body = bytes.NewReader(text)
	}
	u := *c.base
	u.Path += "/v1/" + q.path
	r, err := http.NewRequestWithContext(ctx, q.method, u.String(), body)
	if err != nil {
		return answer{}, errors.New("the path is not one of a URL")
	}
	r.Header.Set("X-Vault-Request", "true")
	if !q.token.IsZero() {
		r.Header.Set("X-Vault-Token", q.token.Reveal())
	}
	if c.namespace != "" {
		r.Header.Set("X-Vault-Namespace", c.namespace)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return answer{}, c.explained(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return answer{}, c.explained(err)
	case len(text) > maxAnswer:
		return answer{}, errTooLarge
	}
	var a answer
	err = json.Unmarshal(text, &a)
	if response.StatusCode != http.StatusOK {
		return answer{}, &statusError{status: response.StatusCode,
			said: quoted(append(a.Errors, a.Warnings...), append(q.hidden, q.token))}
	}
	if err != nil {
		return answer{}, errNotVault
	}
	return a, nil
}

// explained returns why Vault did not answer.
func (c *client) explained(err error) error {
	return secretstore.Explained("Vault at "+c.base.Host, err)
}
