// Package report says, for a period, who could do what, what was changed, and what was used: what an audit asks for.
package report

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// A Report is about a period. Who may do what is as of the time when it was made; what changed that within the period
// is in RightsChanged.
type Report struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Made time.Time `json:"made"`

	AuditLog AuditLog `json:"audit_log"`
	People   []Person `json:"people"`
	Tokens   []Token  `json:"tokens"`
	Groups   []Group  `json:"groups"`
	Issuers  []Issuer `json:"issuers"`
	Keys     []Keys   `json:"keys"`

	RightsChanged []adminapi.AuditEntry `json:"rights_changed"`
	Changes       []Changes             `json:"changes"`

	ByOrganization []Usage `json:"by_organization"`
	ByModel        []Usage `json:"by_model"`
}

// An AuditLog says whether the entries can be relied on.
type AuditLog struct {
	Entries int    `json:"entries"` // within the period
	Intact  bool   `json:"intact"`
	Head    string `json:"head"`
	// Sequence of the newest entry.
	Sequence int64 `json:"sequence"`
	// Since is the time of the oldest entry. A report of an earlier time lacks what has expired.
	Since *time.Time `json:"since,omitempty"`
}

// A Person is somebody with an account.
type Person struct {
	Name        string   `json:"name"`
	Role        string   `json:"role,omitempty"` // of the whole gateway
	Memberships []string `json:"memberships,omitempty"`
	Provider    string   `json:"provider,omitempty"` // where the person signs in; empty: with a password
	ReadBodies  bool     `json:"read_bodies,omitempty"`
	Disabled    bool     `json:"disabled,omitempty"`
}

// A Token is one of the admin API.
type Token struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Scopes  []string   `json:"scopes"`
	Expires *time.Time `json:"expires,omitempty"`
}

// A Group is one of people elsewhere, who have its role as they sign in.
type Group struct {
	Provider     string `json:"provider"`
	Group        string `json:"group"`
	Role         string `json:"role"`
	Organization string `json:"organization,omitempty"`
	Project      string `json:"project,omitempty"`
}

// An Issuer lets clients without keys act as some.
type Issuer struct {
	Kind string   `json:"kind"`
	Name string   `json:"name"`
	Keys []string `json:"keys"`
}

// Keys are how many a tenant has.
type Keys struct {
	Organization string `json:"organization"`
	Project      string `json:"project"`
	Active       int    `json:"active"`
	Inactive     int    `json:"inactive"` // disabled or expired
}

// Changes are how often somebody did something to objects of a kind.
type Changes struct {
	Actor  string `json:"actor"`
	Action string `json:"action"`
	Kind   string `json:"kind"`
	Count  int    `json:"count"`
}

// Make returns the report of a period.
func Make(ctx context.Context, client *adminapi.Client, from, to, now time.Time) (*Report, error) {
	r := &Report{From: from.UTC(), To: to.UTC(), Made: now.UTC(),
		People: []Person{}, Tokens: []Token{}, Groups: []Group{}, Issuers: []Issuer{}, Keys: []Keys{},
		RightsChanged: []adminapi.AuditEntry{}, Changes: []Changes{}}
	for _, part := range []func(context.Context, *adminapi.Client) error{r.rights, r.clients, r.audit, r.usage} {
		if err := part(ctx, client); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// usage finds what was used.
func (r *Report) usage(ctx context.Context, client *adminapi.Client) (err error) {
	if r.ByOrganization, err = Used(ctx, client, "organization", r.From, r.To, nil); err == nil {
		r.ByModel, err = Used(ctx, client, "model", r.From, r.To, nil)
	}
	return err
}

// rights finds who may administer the gateway.
func (r *Report) rights(ctx context.Context, client *adminapi.Client) error {
	accounts, err := admincli.Objects[*configv1.Account](ctx, client)
	if err != nil {
		return err
	}
	for _, a := range accounts {
		p := Person{Name: a.GetName(), ReadBodies: a.GetReadBodies(),
			Disabled: a.GetDisabled() || a.GetProvisioning().GetInactive(),
			Provider: cmp.Or(a.GetIdentity().GetIssuer(), a.GetProvisioning().GetProvider())}
		if a.GetRole() != configv1.Role_ROLE_UNSPECIFIED {
			p.Role = a.GetRole().String()
		}
		for _, m := range a.GetMemberships() {
			p.Memberships = append(p.Memberships, m.GetRole().String()+" of "+tenant(m.GetOrganization(), m.GetProject()))
		}
		r.People = append(r.People, p)
	}
	tokens, err := admincli.Objects[*configv1.AdminToken](ctx, client)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		token := Token{ID: t.GetName(), Name: t.GetDisplayName(), Scopes: t.GetScopes()}
		if t.GetExpiresAt() != nil {
			expires := t.GetExpiresAt().AsTime()
			token.Expires = &expires
		}
		r.Tokens = append(r.Tokens, token)
	}
	providers, err := admincli.Objects[*configv1.IdentityProvider](ctx, client)
	for _, p := range providers {
		if p.GetDefaultRole() != configv1.Role_ROLE_UNSPECIFIED {
			r.Groups = append(r.Groups, Group{Provider: p.GetName(), Group: "*", Role: p.GetDefaultRole().String()})
		}
		for _, g := range p.GetRoles() {
			r.Groups = append(r.Groups, Group{Provider: p.GetName(), Group: g.GetGroup(), Role: g.GetRole().String(),
				Organization: g.GetOrganization(), Project: g.GetProject()})
		}
	}
	return err
}

// clients finds who may send requests.
func (r *Report) clients(ctx context.Context, client *adminapi.Client) error {
	keys, err := admincli.Objects[*configv1.Key](ctx, client)
	if err != nil {
		return err
	}
	counts := map[[2]string]*Keys{}
	for _, k := range keys {
		at := [2]string{k.GetOrganization(), k.GetProject()}
		if counts[at] == nil {
			counts[at] = &Keys{Organization: at[0], Project: at[1]}
		}
		if k.GetDisabled() || k.GetExpiresAt() != nil && !k.GetExpiresAt().AsTime().After(r.Made) {
			counts[at].Inactive++
		} else {
			counts[at].Active++
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(counts), func(a, b [2]string) int {
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	}) {
		r.Keys = append(r.Keys, *counts[at])
	}
	tokens, err := admincli.Objects[*configv1.TokenIssuer](ctx, client)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		r.issuer(t, t.GetDisabled(), bound(t.GetBindings()))
	}
	certificates, err := admincli.Objects[*configv1.CertificateIssuer](ctx, client)
	for _, c := range certificates {
		r.issuer(c, c.GetDisabled(), bound(c.GetBindings()))
	}
	return err
}

func (r *Report) issuer(o configv1.Object, disabled bool, keys []string) {
	if !disabled {
		r.Issuers = append(r.Issuers, Issuer{Kind: configv1.KindOf(o).Name, Name: o.GetName(), Keys: keys})
	}
}

// bound returns the keys of bindings, each once.
func bound[B interface{ GetKey() string }](bindings []B) []string {
	var keys []string
	for _, b := range bindings {
		if !slices.Contains(keys, b.GetKey()) {
			keys = append(keys, b.GetKey())
		}
	}
	return keys
}

// givesRights reports whether the kind with a name decides who may do what.
func givesRights(name string) bool {
	kind, ok := configv1.FindKind(name)
	return ok && kind.Area() != "config"
}

// audit counts what was done, and lists what changed rights.
func (r *Report) audit(ctx context.Context, client *adminapi.Client) error {
	verified, err := client.VerifyAudit(ctx, adminapi.ListOptions{})
	if err != nil {
		return err
	}
	r.AuditLog = AuditLog{Intact: verified.Intact, Head: verified.Head, Sequence: verified.Last, Since: verified.FirstAt}
	counts := map[Changes]int{}
	o := adminapi.ListOptions{Limit: 1000, Filters: map[string]string{"start": strconv.FormatInt(r.From.Unix(), 10),
		"end": strconv.FormatInt(r.To.Unix(), 10)}}
	for more := true; more; {
		page, err := client.Audit(ctx, o)
		if err != nil {
			return err
		}
		for _, e := range page.Items {
			r.AuditLog.Entries++
			counts[Changes{Actor: e.Actor, Action: e.Action, Kind: e.Kind}]++
			if givesRights(e.Kind) {
				e.Diff = "" // it is in the log
				r.RightsChanged = append(r.RightsChanged, e)
			}
		}
		more = page.Next != "" && page.Next != o.After
		o.After = page.Next
	}
	for c, n := range counts {
		c.Count = n
		r.Changes = append(r.Changes, c)
	}
	slices.SortFunc(r.Changes, func(a, b Changes) int {
		return cmp.Or(cmp.Compare(a.Actor, b.Actor), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Action, b.Action))
	})
	return nil
}

// tenant names an organization or a project of it.
func tenant(organization, project string) string {
	if project == "" {
		return organization
	}
	return organization + "/" + project
}
