package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/authz"
)

const (
	// root is where the dashboard keeps its own in etcd.
	root           = "/modelgate/dashboard/v1/"
	sessionsPrefix = root + "sessions/"

	sessionCookie = "__Host-modelgate"
	formCookie    = "__Host-modelgate-form"
	themeCookie   = "__Host-modelgate-theme"
	tenantCookie  = "__Host-modelgate-tenant"

	sessionIdle = 12 * time.Hour
	sessionLife = 7 * 24 * time.Hour
	// sessionTouch is how often the time of the last use is written.
	sessionTouch = 10 * time.Minute
)

// A session is of somebody who is signed in. It is stored under the hash of its id, which only the browser has.
type session struct {
	Account string `json:"account"`
	// Fingerprint of the account as it was at sign-in: a change of its password or role ends the session.
	Fingerprint string    `json:"fingerprint"`
	Created     time.Time `json:"created"`
	Seen        time.Time `json:"seen"`
	// Ends is when the session ends at the latest, if that is sooner than for all.
	Ends time.Time `json:"ends,omitzero"`
	// Terminal means that a command line has the session. Its token is good for the admin API, but not as a cookie.
	Terminal bool `json:"terminal,omitempty"`
	// Provider and IDToken end the session at the identity provider too.
	Provider string `json:"provider,omitempty"`
	IDToken  string `json:"id_token,omitempty"`

	lease    clientv3.LeaseID
	revision int64
}

// sessions keeps sessions in etcd, under leases, so that they are gone when nobody uses them.
type sessions struct {
	etcd *clientv3.Client
	now  func() time.Time
}

func hashed(prefix, id string) string {
	sum := sha256.Sum256([]byte(id))
	return prefix + hex.EncodeToString(sum[:])
}

// fingerprint hashes the account fields that end a session when they change.
func fingerprint(a *configv1.Account) string {
	of := fmt.Appendf(nil, "%q %q %d", a.GetName(), a.GetPasswordHash(), a.GetRole())
	// An account of the same name that is made later is another one.
	of = fmt.Appendf(of, " %d.%d", a.GetCreatedAt().GetSeconds(), a.GetCreatedAt().GetNanos())
	if id := a.GetIdentity(); id != nil {
		of = fmt.Appendf(of, " %q %q", id.GetIssuer(), id.GetSubject())
	}
	for _, m := range a.GetMemberships() {
		of = fmt.Appendf(of, " %q %q %d", m.GetOrganization(), m.GetProject(), m.GetRole())
	}
	sum := sha256.Sum256(of)
	return hex.EncodeToString(sum[:16])
}

// begin makes a session of an account under a new id, which it returns. Began says how, if that was not a password.
func (s *sessions) begin(ctx context.Context, a *configv1.Account, began session) (id string, err error) {
	now := s.now()
	began.Account, began.Fingerprint, began.Created, began.Seen = a.GetName(), fingerprint(a), now, now
	value, err := json.Marshal(began)
	if err != nil {
		return "", err
	}
	lease, err := s.etcd.Grant(ctx, int64(sessionIdle/time.Second))
	if err != nil {
		return "", fmt.Errorf("begin a session: %w", err)
	}
	id = rand.Text()
	if _, err := s.etcd.Put(ctx, hashed(sessionsPrefix, id), string(value), clientv3.WithLease(lease.ID)); err != nil {
		return "", fmt.Errorf("begin a session: %w", err)
	}
	return id, nil
}

// find returns a session that has not ended, and nil if there is none. Used says that its owner uses it now.
func (s *sessions) find(ctx context.Context, id string, used bool) (*session, error) {
	key := hashed(sessionsPrefix, id)
	r, err := s.etcd.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read a session: %w", err)
	}
	if len(r.Kvs) == 0 {
		return nil, nil
	}
	found := &session{lease: clientv3.LeaseID(r.Kvs[0].Lease), revision: r.Kvs[0].ModRevision}
	if err := json.Unmarshal(r.Kvs[0].Value, found); err != nil {
		return nil, nil //nolint:nilerr // what is not a session lets nobody in
	}
	now := s.now()
	over := !found.Ends.IsZero() && !now.Before(found.Ends)
	if over || now.Sub(found.Seen) >= sessionIdle || now.Sub(found.Created) >= sessionLife {
		return nil, s.end(ctx, id)
	}
	if !used || now.Sub(found.Seen) < sessionTouch {
		return found, nil
	}
	return found, s.touch(ctx, key, found)
}

// touch notes that a session is used. One that has ended in the meantime does not come back.
func (s *sessions) touch(ctx context.Context, key string, found *session) error {
	found.Seen = s.now()
	value, err := json.Marshal(found)
	if err != nil {
		return err
	}
	_, err = s.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", found.revision)).
		Then(clientv3.OpPut(key, string(value), clientv3.WithLease(found.lease))).Commit()
	if err == nil {
		_, err = s.etcd.KeepAliveOnce(ctx, found.lease)
	}
	if errors.Is(err, rpctypes.ErrNoSpace) {
		return nil // whoever makes room in an etcd that is full may be signed in here
	}
	if err != nil {
		return fmt.Errorf("note the use of a session: %w", err)
	}
	return nil
}

// end ends a session.
func (s *sessions) end(ctx context.Context, id string) error {
	if _, err := s.etcd.Delete(ctx, hashed(sessionsPrefix, id)); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

// setCookie sets a cookie that only this host gets, over TLS only. Without a life it ends with the browser.
func setCookie(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(life / time.Second),
	})
}

// sessionIDOf returns the id that a browser has, or nothing.
func sessionIDOf(r *http.Request) string {
	if c, err := r.Cookie(sessionCookie); err == nil {
		return c.Value
	}
	return ""
}

// formCookieOf returns what the forms of somebody who is not signed in depend on, and sets it if it is not there.
func formCookieOf(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(formCookie); err == nil && c.Value != "" {
		return c.Value
	}
	value := rand.Text()
	setCookie(w, formCookie, value, 0)
	return value
}

// actsFor returns under which membership somebody wants to act, as [authz.PrincipalOfAccount] takes it. One that the
// account does not have any more is none.
func actsFor(r *http.Request, a *configv1.Account) string {
	c, err := r.Cookie(tenantCookie)
	if err != nil || !slices.ContainsFunc(a.GetMemberships(), func(m *configv1.Membership) bool {
		return authz.Tenant{Organization: m.GetOrganization(), Project: m.GetProject()}.String() == c.Value
	}) {
		return ""
	}
	return c.Value
}

func themeOf(r *http.Request) string {
	c, err := r.Cookie(themeCookie)
	if err != nil || c.Value != "light" && c.Value != "dark" {
		return ""
	}
	return c.Value
}
