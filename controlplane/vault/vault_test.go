package vault

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/controlplane/vault/vaulttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	two = "secret/data/openai"
	one = "kv/team a/openai"
)

// inProcess takes requests to a handler without a network, so that a test can have a clock of its own.
type inProcess struct{ http.Handler }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	answered := make(chan *http.Response, 1)
	go func() {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		answered <- w.Result()
	}()
	select {
	case a := <-answered:
		return a, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// A bench is a Follower in a bubble with a clock of its own, and its Vault.
type bench struct {
	*secretstore.Follower
	t      *testing.T
	vault  *vaulttest.Vault
	client *client
	file   string // of the token or JWT
	logs   *observer.ObservedLogs
}

// following runs f with a Follower that runs. Options may be changed before.
func following(t *testing.T, change func(*Options), f func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		b := &bench{t: t, vault: vaulttest.New(), file: filepath.Join(t.TempDir(), "token"), logs: logs}
		b.write(vaulttest.Token)
		o := Options{Address: "http://127.0.0.1:8200", TokenFile: b.file, Log: zap.New(core)}
		if change != nil {
			change(&o)
		}
		if o.Role != "" {
			o.TokenFile, o.JWTFile, o.Mount = "", b.file, "kubernetes"
		}
		c, err := newClient(o)
		require.NoError(t, err)
		b.client = c
		c.http.Transport = inProcess{b.vault}
		b.Follower = secretstore.New(secretstore.Options{Store: c, Log: o.Log})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			b.Run(ctx)
			close(ended)
		}()
		f(b)
		stop()
		<-ended
		for _, l := range logs.All() {
			require.NotContains(t, fmt.Sprint(l.Message, l.ContextMap()), "hvs.")
		}
	})
}

func (b *bench) write(token string) {
	require.NoError(b.t, os.WriteFile(b.file+".new", []byte(token+"\n"), 0o600))
	require.NoError(b.t, os.Rename(b.file+".new", b.file))
}

// get returns the field key of a secret, or the error, once all that can happen has.
func (b *bench) get(path string) (string, string) {
	b.t.Helper()
	synctest.Wait()
	v, err := b.Get(path, "key")
	if err == nil {
		return v.Reveal(), ""
	}
	require.NotContains(b.t, err.Error(), "hvs.")
	return v.Reveal(), err.Error()
}

func (b *bench) has(path, want string) {
	b.t.Helper()
	got, message := b.get(path)
	require.Empty(b.t, message)
	require.Equal(b.t, want, got)
}

func (b *bench) fails(path, want string) {
	b.t.Helper()
	got, message := b.get(path)
	require.Empty(b.t, got)
	require.Contains(b.t, message, want)
}

func follow(paths ...string) map[string]bool {
	all := map[string]bool{}
	for _, p := range paths {
		all[p] = true
	}
	return all
}

func TestSecretsOfBothVersionsAreReadAndFollowed(t *testing.T) {
	following(t, func(o *Options) { o.Namespace = "team/a" }, func(b *bench) {
		b.vault.Put(two, map[string]any{"key": " sk-1\n", "n": 7, "empty": " "})
		b.vault.Put(one, map[string]any{"key": "sk-one", "data": map[string]any{"x": "y"},
			"metadata": map[string]any{"owner": "a"}})
		b.fails(two, "it has not been read yet")
		require.True(t, b.Settled(), "there is nothing to read")
		b.Follow(follow(two, one))
		require.False(t, b.Settled())
		b.has(two, "sk-1")
		b.has(one, "sk-one")
		require.True(t, b.Settled())
		require.Len(t, b.Changed(), 1)
		<-b.Changed()
		require.Equal(t, "team/a", b.vault.Header().Get("X-Vault-Namespace"))
		require.Equal(t, "true", b.vault.Header().Get("X-Vault-Request"))

		for field, want := range map[string]string{"n": two + ": the field n is not a text",
			"none": two + ": the secret has no field none", "empty": two + ": the field empty is empty"} {
			_, err := b.Get(two, field)
			require.EqualError(t, err, want)
			require.NotErrorIs(t, err, secretstore.ErrUnread)
		}

		<-time.After(5 * time.Minute)
		synctest.Wait()
		require.Empty(t, b.Changed(), "it is the same")
		reads, _, _ := b.vault.Counts(two)
		require.InDelta(t, 6, reads, 1, "once a minute")
		b.vault.Put(two, map[string]any{"key": "sk-2"})
		<-time.After(time.Minute)
		b.has(two, "sk-2")
		require.Len(t, b.Changed(), 1)

		b.Follow(follow(one))
		b.fails(two, "has not been read")
		synctest.Wait()
		before, _, _ := b.vault.Counts(two)
		<-time.After(time.Hour)
		after, _, _ := b.vault.Counts(two)
		require.Equal(t, before, after, "nothing asks for what nobody names")
	})
}

// Nobody names a Vault: nothing is asked, and what is named is an error.
func TestWithoutVault(t *testing.T) {
	var none *secretstore.Follower
	none.Follow(follow(two))
	require.True(t, none.Settled())
	require.Nil(t, none.Changed())
	require.Zero(t, none.Failures())
	require.Zero(t, none.Stale())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	none.Run(ctx)
}

func status(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// trouble are answers of a Vault that cannot be asked now, and what is said of them.
func trouble() map[string]struct {
	answer http.HandlerFunc
	says   string
} {
	return map[string]struct {
		answer http.HandlerFunc
		says   string
	}{
		"sealed":       {status(503, `{"errors":["Vault is sealed"]}`), "Vault answers 503: Vault is sealed"},
		"broken":       {status(500, `{"errors":["1 error occurred:\n\t* no `+vaulttest.Token+`\n"]}`), "* no [redacted]"},
		"a proxy's":    {status(502, `<html>`), "Vault answers 502"},
		"slow":         {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "did not answer within 10 s"},
		"huge":         {status(200, `{"data":{"key":"`+strings.Repeat("x", 1<<20)+`"}}`), "larger than 1048576 bytes"},
		"not JSON":     {status(200, `<html>hvs.x</html>`), "not JSON as Vault writes it"},
		"no object":    {status(200, `[]`), "not JSON"},
		"no data":      {status(200, `{"data":null}`), "not JSON"},
		"data is text": {status(200, `{"data":"hvs.y"}`), "not JSON"},
		"too many":     {status(429, `{"errors":["request path \"secret\": rate limit quota exceeded"]}`), "429"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://evil.test/v1/"+two, http.StatusTemporaryRedirect)
		}, "redirects to another host"},
		"to clear text": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://127.0.0.1:8200/v1/"+two, http.StatusTemporaryRedirect)
		}, "redirects to another host"},
	}
}

func TestASecretStaysInForceWhileVaultIsAway(t *testing.T) {
	for what, c := range trouble() {
		t.Run(what, func(t *testing.T) {
			following(t, nil, func(b *bench) {
				b.vault.Put(two, map[string]any{"key": "sk-1"})
				b.Follow(follow(two))
				b.has(two, "sk-1")
				<-b.Changed()
				b.vault.Answer(c.answer)
				<-time.After(10 * time.Minute)
				b.has(two, "sk-1")
				require.Empty(t, b.Changed())
				require.Equal(t, 1, b.Stale())
				require.InDelta(t, 15, b.Failures(), 6, "it backs off to a minute")
				require.Equal(t, 1, b.logs.FilterMessageSnippet("stays in force").Len(), "it is said once")
				require.Contains(t, fmt.Sprint(b.logs.All()[0].ContextMap()), c.says)

				b.vault.Answer(nil)
				b.vault.Put(two, map[string]any{"key": "sk-2"})
				<-time.After(time.Minute)
				b.has(two, "sk-2")
				require.Zero(t, b.Stale())
				require.Equal(t, 1, b.logs.FilterMessageSnippet("can be read again").Len())
			})
		})
	}
}

func TestVaultIsAwayFromTheStart(t *testing.T) {
	for what, c := range trouble() {
		t.Run(what, func(t *testing.T) {
			following(t, nil, func(b *bench) {
				b.vault.Put(two, map[string]any{"key": "sk-1"})
				b.vault.Answer(c.answer)
				b.Follow(follow(two))
				<-time.After(11 * time.Second)
				b.fails(two, c.says)
				_, err := b.Get(two, "key")
				require.ErrorIs(t, err, secretstore.ErrUnread)
				require.True(t, b.Settled(), "it was tried")
				require.Len(t, b.Changed(), 1, "the cause is news")
				<-b.Changed()
				require.Zero(t, b.Stale())
				b.vault.Answer(nil)
				<-time.After(time.Minute)
				b.has(two, "sk-1")
				require.Len(t, b.Changed(), 1)
			})
		})
	}
}

// What Vault says of a secret holds, other than that it cannot be asked.
func TestASecretThatIsGoneOrDeniedIsAnError(t *testing.T) {
	following(t, nil, func(b *bench) {
		b.vault.Put(two, map[string]any{"key": "sk-1"})
		b.vault.Put(one, map[string]any{"key": "sk-1"})
		b.vault.Put("kv/denied", map[string]any{"key": "sk-1"})
		b.Follow(follow(two, one, "kv/denied", "kv/none"))
		b.fails("kv/none", "kv/none: Vault answers 404 (there is no such secret)")
		b.vault.Delete(two)
		b.vault.Delete(one)
		b.vault.Deny("kv/denied", true)
		<-time.After(time.Minute)
		for path, want := range map[string]string{two: "404", one: "404", "kv/denied": "403 (the token is not allowed"} {
			b.fails(path, want)
			_, err := b.Get(path, "key")
			require.NotErrorIs(t, err, secretstore.ErrUnread)
		}
		require.Zero(t, b.Stale())
		require.Empty(t, b.logs.All(), "the object has the error")

		b.vault.Answer(status(503, ""))
		<-time.After(10 * time.Minute)
		b.fails(two, "404")
		b.vault.Answer(nil)
		b.vault.Put(two, map[string]any{"key": "sk-2"})
		b.vault.Deny("kv/denied", false)
		<-time.After(time.Minute)
		b.has(two, "sk-2")
		b.has("kv/denied", "sk-1")

		b.vault.Answer(status(200, `{"data":{"data":null,"metadata":{"version":3}}}`))
		<-time.After(time.Minute)
		b.fails(two, "its newest version is deleted")
		b.vault.Answer(status(404, `{"errors":[],"warnings":["Invalid path for a versioned K/V secrets engine"]}`))
		<-time.After(time.Minute)
		b.fails(two, "Invalid path for a versioned K/V secrets engine")
	})
}

func TestALeaseSaysWhenASecretIsReadAgain(t *testing.T) {
	following(t, nil, func(b *bench) {
		b.vault.Put(one, map[string]any{"key": "a"})
		b.vault.Put("kv/short", map[string]any{"key": "a"})
		b.vault.Put("db/creds/x", map[string]any{"key": "a"})
		b.vault.Lease("kv/short", "", 20)
		b.vault.Lease("db/creds/x", "db/creds/x/1", 3600)
		b.Follow(follow(one, "kv/short", "db/creds/x"))
		<-time.After(20 * time.Minute)
		reads := func(path string) int {
			synctest.Wait()
			n, _, _ := b.vault.Counts(path)
			return n
		}
		require.InDelta(t, 21, reads(one), 3, "a long one is not waited for")
		require.InDelta(t, 63, reads("kv/short"), 7)
		require.Equal(t, 1, reads("db/creds/x"), "each reading would make another")
		<-time.After(21 * time.Minute)
		require.Equal(t, 2, reads("db/creds/x"))
	})
}

func TestAnotherTokenIsTakenFromItsFile(t *testing.T) {
	following(t, nil, func(b *bench) {
		b.vault.Put(two, map[string]any{"key": "sk-1"})
		b.Follow(follow(two))
		b.has(two, "sk-1")
		b.vault.Revoke()
		b.vault.Allow("hvs.next")
		<-time.After(10 * time.Minute)
		b.fails(two, "403")
		b.write("hvs.next")
		<-time.After(3 * time.Second)
		b.has(two, "sk-1")

		require.NoError(t, os.Remove(b.file))
		<-time.After(10 * time.Minute)
		b.has(two, "sk-1")
		require.Contains(t, fmt.Sprint(b.logs.All()[0].ContextMap()), "reading the token for Vault")
		for _, bad := range []string{"", "hvs.a\nhvs.b", strings.Repeat("x", 1<<17)} {
			b.write(bad)
			_, err := b.client.tokens.token(t.Context())
			require.Error(t, err)
			require.NotContains(t, err.Error(), "hvs.")
		}
	})
}

func TestARoleIsSignedInToAndItsTokenIsRenewed(t *testing.T) {
	following(t, func(o *Options) { o.Role = "gateway" }, func(b *bench) {
		b.write("hvs.the-jwt")
		b.vault.Role("gateway", "hvs.the-jwt", 3600, 4*3600)
		b.vault.Put(two, map[string]any{"key": "sk-1"})
		b.Follow(follow(two))
		b.has(two, "sk-1")
		counts := func() (int, int) {
			synctest.Wait()
			_, logins, renewed := b.vault.Counts(two)
			return logins, renewed
		}
		logins, renewed := counts()
		require.Equal(t, []int{1, 0}, []int{logins, renewed})
		<-time.After(41 * time.Minute)
		logins, renewed = counts()
		require.Equal(t, []int{1, 1}, []int{logins, renewed}, "before its lease ends")
		<-time.After(24 * time.Hour)
		logins, renewed = counts()
		require.InDelta(t, 7, logins, 1, "a token has a longest life")
		require.InDelta(t, 38, renewed, 6)
		require.Zero(t, b.Failures(), "there is a valid token at any time")

		b.vault.Revoke() // as a Vault does that comes back empty
		<-time.After(time.Minute)
		b.has(two, "sk-1")
		after, _ := counts()
		require.Equal(t, logins+1, after, "it signs in again")
		var denied []string
		for i := range 20 {
			denied = append(denied, fmt.Sprintf("secret/data/denied-%d", i))
			b.vault.Deny(denied[i], true)
		}
		b.Follow(follow(denied...))
		<-time.After(time.Hour)
		b.fails(denied[0], "403")
		last, _ := counts()
		require.Less(t, last, after+125, "but not for each secret that it may not read")
	})
}

func TestALoginThatFailsIsTriedAgain(t *testing.T) {
	following(t, func(o *Options) { o.Role = "gateway" }, func(b *bench) {
		b.write("hvs.the-jwt")
		b.vault.Put(two, map[string]any{"key": "sk-1"})
		b.Follow(follow(two))
		b.fails(two, "signing in to Vault as the role gateway: Vault answers 403")
		_, err := b.Get(two, "key")
		require.ErrorIs(t, err, secretstore.ErrUnread, "it says nothing of the secret")
		require.Contains(t, err.Error(), "service account not authorized: [redacted]")
		b.vault.Role("gateway", "hvs.the-jwt", 600, 0)
		<-time.After(time.Minute)
		b.has(two, "sk-1")

		b.vault.Answer(status(503, `{"errors":["sealed"]}`))
		<-time.After(time.Hour)
		b.has(two, "sk-1")
		b.vault.Answer(func(w http.ResponseWriter, r *http.Request) { // a login without a token
			_ = json.NewEncoder(w).Encode(map[string]any{"auth": nil})
		})
		<-time.After(time.Hour)
		b.has(two, "sk-1")
		b.vault.Answer(nil)
		b.vault.Put(two, map[string]any{"key": "sk-2"})
		<-time.After(time.Minute)
		b.has(two, "sk-2")
	})
}

func TestASlowSecretKeepsNoOtherWaiting(t *testing.T) {
	following(t, nil, func(b *bench) {
		b.vault.Put(one, map[string]any{"key": "sk-1"})
		b.vault.Answer(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "openai") && !strings.Contains(r.URL.Path, "kv") {
				<-r.Context().Done()
				return
			}
			status(200, `{"data":{"key":"sk-1"}}`)(w, r)
		})
		b.Follow(follow(two, one))
		b.has(one, "sk-1")
		require.False(t, b.Settled())
		b.fails(two, "has not been read")
	})
}

func TestAddressesOfVault(t *testing.T) {
	for _, good := range []string{"https://vault.test", "https://vault.test:8200/prefix/", "http://127.0.0.1:8200",
		"http://localhost:8200", "http://[::1]:8200"} {
		_, err := CheckAddress(good)
		require.NoError(t, err, good)
	}
	for _, bad := range []string{"", "vault.test", "http://vault.test", "https://", "https://u:p@vault.test",
		"https://vault.test?x=y", "https://vault.test#x", "ftp://vault.test", "http://127.0.0.1.evil.test", ":"} {
		_, err := CheckAddress(bad)
		require.ErrorIs(t, err, errAddress, bad)
		_, err = New(Options{Address: bad})
		require.Error(t, err)
	}
}
