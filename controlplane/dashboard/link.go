package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/api"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/auth"
	"github.com/modelgate/modelgate/internal/httpapi"
)

const (
	linksPrefix = root + "links/"
	linkLife    = 24 * time.Hour
)

// A link lets somebody make an owner's account, once. It is stored under the hash of its token.
type link struct {
	// First means that the link is good only as long as there is no owner.
	First bool `json:"first"`

	lease clientv3.LeaseID
}

type links struct{ etcd *clientv3.Client }

func (l *links) make(ctx context.Context, first bool) (token string, err error) {
	value, err := json.Marshal(link{First: first})
	if err != nil {
		return "", err
	}
	lease, err := l.etcd.Grant(ctx, int64(linkLife/time.Second))
	if err != nil {
		return "", fmt.Errorf("make a link: %w", err)
	}
	token = rand.Text()
	if _, err := l.etcd.Put(ctx, hashed(linksPrefix, token), string(value), clientv3.WithLease(lease.ID)); err != nil {
		return "", fmt.Errorf("make a link: %w", err)
	}
	return token, nil
}

// find returns a link, or nil.
func (l *links) find(ctx context.Context, token string) (*link, error) {
	r, err := l.etcd.Get(ctx, hashed(linksPrefix, token))
	if err != nil {
		return nil, fmt.Errorf("read a link: %w", err)
	}
	if len(r.Kvs) == 0 {
		return nil, nil
	}
	found := &link{lease: clientv3.LeaseID(r.Kvs[0].Lease)}
	return found, json.Unmarshal(r.Kvs[0].Value, found)
}

// take removes a link. It is false if somebody else has taken it.
func (l *links) take(ctx context.Context, token string) (bool, error) {
	r, err := l.etcd.Delete(ctx, hashed(linksPrefix, token))
	if err != nil {
		return false, fmt.Errorf("take a link: %w", err)
	}
	return r.Deleted == 1, nil
}

// putBack makes a link good again that came to nothing.
func (l *links) putBack(ctx context.Context, token string, k *link) error {
	value, err := json.Marshal(k)
	if err != nil {
		return err
	}
	if _, err := l.etcd.Put(ctx, hashed(linksPrefix, token), string(value), clientv3.WithLease(k.lease)); err != nil {
		return fmt.Errorf("put a link back: %w", err)
	}
	return nil
}

// FirstLink returns a new link that makes the first owner's account, once and within a day; empty if there is an
// owner.
func (d *Dashboard) FirstLink(ctx context.Context) (string, error) {
	owned, err := d.owned(ctx)
	if owned || err != nil {
		return "", err
	}
	token, err := d.links.make(ctx, true)
	return d.linkURL(token), err
}

func (d *Dashboard) linkURL(token string) string {
	return d.config.BaseURL + "/sign-in/first?token=" + url.QueryEscape(token)
}

// owned reports whether there is an owner who can sign in.
func (d *Dashboard) owned(ctx context.Context) (bool, error) {
	client := api.InProcess(d.config.API, authz.Principal{Name: "dashboard", Role: "owner",
		Scopes: authz.ScopesOf(configv1.Role_OWNER)})
	accounts, err := client.List(ctx, configv1.KindOf((*configv1.Account)(nil)))
	if err != nil {
		return false, fmt.Errorf("look for an owner: %w", err)
	}
	for _, item := range accounts {
		if a, ok := item.Object.(*configv1.Account); ok && a.GetRole() == configv1.Role_OWNER && !a.Barred() {
			return true, nil
		}
	}
	return false, nil
}

// makeLink makes a link for whoever has the root token: a program, so it answers with JSON.
func (d *Dashboard) makeLink(w http.ResponseWriter, r *http.Request) {
	httpapi.Handler(d.config.Log, func(w http.ResponseWriter, r *http.Request) error {
		address := addressOf(r)
		if wait := d.addresses.take(network(address)); wait > 0 {
			return errTooMany(wait)
		}
		given, ok := auth.FromHeader(r.Header.Get("Authorization"))
		sum, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(d.config.RootToken.Reveal()))
		if !ok || d.config.RootToken.IsZero() || subtle.ConstantTimeCompare(sum[:], want[:]) != 1 {
			return openai.CodeInvalidAdminToken.New("Send the admin token of the gateway's data directory in an Authorization header using Bearer auth.")
		}
		d.addresses.giveBack(network(address))
		token, err := d.links.make(r.Context(), false)
		if err != nil {
			return err
		}
		d.audit(r.Context(), authz.Principal{Name: "root", Role: "token", Address: address}, "sign_in_link", "")
		return httpapi.WriteJSON(w, http.StatusCreated,
			map[string]any{"url": d.linkURL(token), "expires_in_seconds": int(linkLife / time.Second)})
	}).ServeHTTP(w, r)
}
