package vault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	maxTokenFile = 64 << 10 // bytes
	// loginPause is how long a token must have been used before a new login may mend that it is refused.
	loginPause = 30 * time.Second
	// renewPause is how long after a renewal that failed another one is tried.
	renewPause = 5 * time.Second
)

// tokens give the token that requests are sent with. They are safe for concurrent use.
type tokens interface {
	// token returns a token. It may ask Vault for one.
	token(context.Context) (secret.Value, error)
	// refused takes a token that Vault has refused, and reports whether the next one is another.
	refused(secret.Value) bool
	// tend keeps the token valid, and reports whether there is another one than at the last time.
	tend(context.Context) bool
}

// secretFile reads a file with a token.
func secretFile(path string) (secret.Value, error) {
	f, err := os.Open(path)
	if err != nil {
		return secret.Value{}, fmt.Errorf("reading the token for Vault: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	v := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return secret.Value{}, fmt.Errorf("reading the token for Vault: %w", err)
	case v == "":
		return secret.Value{}, fmt.Errorf("the file %s of the token for Vault is empty", path)
	case len(text) > maxTokenFile, strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }):
		return secret.Value{}, fmt.Errorf("the file %s holds no token for Vault", path)
	}
	return secret.New(v), nil
}

// A tokenFile is a file with a token, which is read each time.
type tokenFile struct {
	path string

	mu   sync.Mutex
	seen secret.Value // by tend; guarded by mu
}

func (t *tokenFile) token(context.Context) (secret.Value, error) { return secretFile(t.path) }

func (t *tokenFile) refused(used secret.Value) bool {
	now, err := secretFile(t.path)
	return err == nil && now != used
}

func (t *tokenFile) tend(context.Context) bool {
	now, err := secretFile(t.path)
	if err != nil {
		return false // while it is being replaced
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	other := now != t.seen
	t.seen = now
	return other
}

// A login is a role with a JWT for the sign-in, such as the token of a Kubernetes service account.
type login struct {
	client               *client
	role, jwtFile, mount string
	now                  func() time.Time

	mu        sync.Mutex // guards what follows; held while Vault is asked
	value     secret.Value
	since     time.Time     // of the login
	whole     time.Duration // lease of the login
	renewAt   time.Time     // zero: never
	expires   time.Time     // zero: never
	renewable bool
}

func (l *login) token(ctx context.Context) (secret.Value, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.value.IsZero() && (l.expires.IsZero() || l.now().Before(l.expires)) {
		return l.value, nil
	}
	if err := ctx.Err(); err != nil { // it waited for the login of another
		return secret.Value{}, errors.New("signing in to Vault takes too long")
	}
	if err := l.signIn(ctx); err != nil {
		return secret.Value{}, err
	}
	return l.value, nil
}

func (l *login) refused(used secret.Value) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.value != used {
		return true
	}
	if l.now().Sub(l.since) < loginPause {
		return false
	}
	l.value = secret.Value{}
	return true
}

// tend renews the token before its lease ends. One that cannot be renewed, or not for long, is replaced.
func (l *login) tend(ctx context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.value.IsZero() || l.renewAt.IsZero() || l.now().Before(l.renewAt) {
		return false
	}
	if l.renewable {
		err := l.renew(ctx)
		if err == nil {
			return false
		}
		if _, answered := errors.AsType[*statusError](err); !answered {
			l.renewAt = l.now().Add(renewPause)
			return false
		}
	}
	if err := l.signIn(ctx); err != nil {
		l.renewAt = l.now().Add(renewPause) // the one there is stays until its end
		return false
	}
	return true
}

// signIn replaces the token. The lock is held.
func (l *login) signIn(ctx context.Context) error {
	jwt, err := secretFile(l.jwtFile)
	if err != nil {
		return err
	}
	a, err := l.client.do(ctx, request{method: http.MethodPost, path: "auth/" + l.mount + "/login",
		body:   map[string]string{"role": l.role, "jwt": jwt.Reveal()},
		hidden: []secret.Value{jwt}})
	if err == nil && (a.Auth == nil || a.Auth.Token == "") {
		err = errNotVault
	}
	if err != nil {
		return fmt.Errorf("signing in to Vault as the role %s: %w", l.role, err)
	}
	l.value, l.since, l.whole = secret.New(a.Auth.Token), l.now(), seconds(a.Auth.Lease)
	l.keep(*a.Auth)
	return nil
}

// renew extends the lease of the token. The lock is held.
func (l *login) renew(ctx context.Context) error {
	a, err := l.client.do(ctx, request{method: http.MethodPost, path: "auth/token/renew-self", token: l.value,
		body: map[string]string{}})
	if err != nil {
		return err
	}
	if a.Auth == nil {
		return errNotVault
	}
	if seconds(a.Auth.Lease) < l.whole/2 { // near the longest life of a token
		return l.signIn(ctx)
	}
	l.keep(*a.Auth)
	return nil
}

func (l *login) keep(a auth) {
	l.renewable, l.renewAt, l.expires = a.Renewable, time.Time{}, time.Time{}
	if d := seconds(a.Lease); d > 0 {
		l.renewAt, l.expires = l.now().Add(time.Duration(secretstore.LeaseShare*float64(d))), l.now().Add(d)
	}
}
