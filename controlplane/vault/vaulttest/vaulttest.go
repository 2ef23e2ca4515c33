// Package vaulttest has a Vault for tests. It follows the HTTP API of Vault and OpenBao as far as package vault uses
// it: both versions of the key/value engine, tokens, the login of Kubernetes, and the renewal of tokens.
//
// It answers as the documentation says. What a real one answers is known by the tests with a real one alone.
package vaulttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Token is valid from the start.
const Token = "hvs.of-the-tests-own-token"

// A Vault is one. It is safe for concurrent use.
type Vault struct {
	// URL is empty for one that only serves requests in the process.
	URL string

	mu      sync.Mutex // guards what follows
	tokens  map[string]*grant
	secrets map[string]*stored
	denied  map[string]bool
	roles   map[string]string // role: jwt
	lease   int64             // of logins, in seconds
	longest int64             // life of a login; 0: for ever
	over    http.HandlerFunc  // answers in place of this one
	reads   map[string]int
	logins  int
	renewed int
	last    http.Header // of the last request
}

type grant struct {
	since, expires time.Time // expires is zero for one that does not
}

type stored struct {
	two     bool
	version int
	fields  map[string]any // nil: deleted
	lease   int64
	leaseID string
}

// New returns a Vault that serves no address.
func New() *Vault {
	return &Vault{tokens: map[string]*grant{Token: {}}, secrets: map[string]*stored{}, denied: map[string]bool{},
		roles: map[string]string{}, reads: map[string]int{}}
}

// Serve returns a Vault at a loopback address, until the test ends.
func Serve(t testing.TB) *Vault {
	v := New()
	s := httptest.NewServer(v)
	t.Cleanup(s.Close)
	v.URL = s.URL
	return v
}

// Put writes a secret of the key/value engine: of version 2 if the path has data in it.
func (v *Vault) Put(path string, fields map[string]any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.secrets[path]
	if s == nil {
		s = &stored{two: strings.Contains(path, "/data/"), lease: 2764800}
		if s.two {
			s.lease = 0
		}
		v.secrets[path] = s
	}
	s.version++
	s.fields = fields
}

// Lease says what lease comes with a secret; an id makes it one of its own.
func (v *Vault) Lease(path, id string, seconds int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secrets[path].lease, v.secrets[path].leaseID = seconds, id
}

// Delete deletes a secret, or its newest version.
func (v *Vault) Delete(path string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.secrets[path].fields = nil
}

// Deny has every token be refused a path, or not any more.
func (v *Vault) Deny(path string, denied bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.denied[path] = denied
}

// Allow makes a token valid.
func (v *Vault) Allow(token string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tokens[token] = &grant{}
}

// Revoke makes all tokens invalid.
func (v *Vault) Revoke() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.tokens)
}

// Role lets a JWT sign in to a role, for a lease of some seconds, which can be renewed until the longest life ends.
func (v *Vault) Role(role, jwt string, lease, longest int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.roles[role], v.lease, v.longest = jwt, lease, longest
}

// Answer has a function answer in place of the Vault; nil ends that.
func (v *Vault) Answer(over http.HandlerFunc) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = over
}

// Counts returns how often a path was read, and how many logins and renewals there were.
func (v *Vault) Counts(path string) (reads, logins, renewed int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reads[path], v.logins, v.renewed
}

// Header returns that of the last request.
func (v *Vault) Header() http.Header {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.last.Clone()
}

// ServeHTTP answers a request of the API.
func (v *Vault) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	v.last = r.Header.Clone()
	path := strings.TrimPrefix(r.URL.Path, "/v1/")
	if r.Method == http.MethodGet {
		v.reads[path]++
	}
	if over := v.over; over != nil {
		v.mu.Unlock()
		over(w, r)
		return
	}
	defer v.mu.Unlock()
	token := r.Header.Get("X-Vault-Token")
	g := v.tokens[token]
	switch {
	case r.Method == http.MethodPost && strings.HasPrefix(path, "auth/") && strings.HasSuffix(path, "/login"):
		v.login(w, r)
	case g == nil || !g.expires.IsZero() && time.Now().After(g.expires):
		fail(w, http.StatusForbidden, "2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n")
	case r.Method == http.MethodPost && path == "auth/token/renew-self":
		v.renew(w, token, g)
	case v.denied[path]:
		fail(w, http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
	case r.Method == http.MethodGet:
		v.read(w, path)
	default:
		fail(w, http.StatusMethodNotAllowed, "unsupported operation")
	}
}

func (v *Vault) login(w http.ResponseWriter, r *http.Request) {
	var q struct{ Role, JWT string }
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.JWT == "" {
		fail(w, http.StatusBadRequest, "missing jwt")
		return
	}
	if v.roles[q.Role] != q.JWT {
		fail(w, http.StatusForbidden, "service account not authorized: "+q.JWT)
		return
	}
	v.logins++
	token := fmt.Sprintf("hvs.login-%d", v.logins)
	now := time.Now()
	v.tokens[token] = &grant{since: now, expires: now.Add(time.Duration(v.lease) * time.Second)}
	v.grant(w, token, v.lease)
}

func (v *Vault) renew(w http.ResponseWriter, token string, g *grant) {
	v.renewed++
	lease := v.lease
	if v.longest > 0 {
		lease = min(lease, v.longest-int64(time.Since(g.since).Seconds()))
	}
	g.expires = time.Now().Add(time.Duration(lease) * time.Second)
	v.grant(w, token, lease)
}

func (v *Vault) grant(w http.ResponseWriter, token string, lease int64) {
	reply(w, http.StatusOK, map[string]any{"request_id": "1", "lease_id": "", "lease_duration": 0, "data": nil,
		"auth": map[string]any{"client_token": token, "accessor": "a", "policies": []string{"default"},
			"lease_duration": lease, "renewable": true, "token_type": "service"}})
}

func (v *Vault) read(w http.ResponseWriter, path string) {
	s := v.secrets[path]
	if s == nil || s.fields == nil && !s.two {
		reply(w, http.StatusNotFound, map[string]any{"errors": []string{}})
		return
	}
	body := map[string]any{"request_id": "1", "lease_id": s.leaseID, "renewable": s.leaseID != "",
		"lease_duration": s.lease, "data": s.fields, "wrap_info": nil, "warnings": nil, "auth": nil, "mount_type": "kv"}
	status := http.StatusOK
	if s.two {
		metadata := map[string]any{"created_time": "2026-01-01T00:00:00.0Z", "custom_metadata": nil, "deletion_time": "",
			"destroyed": false, "version": s.version}
		if s.fields == nil {
			status = http.StatusNotFound
			metadata["deletion_time"] = "2026-01-02T00:00:00.0Z"
		}
		body["data"] = map[string]any{"data": s.fields, "metadata": metadata}
	}
	reply(w, status, body)
}

func fail(w http.ResponseWriter, status int, text string) {
	reply(w, status, map[string]any{"errors": []string{text}})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
