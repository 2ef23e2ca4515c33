package admin

import (
	"net/url"
	"strconv"
	"time"
)

// Percent returns how much of the budget an amount is, such as Spent or Forecast.
func (b BudgetUse) Percent(amount string) int {
	whole, errWhole := strconv.ParseFloat(b.USD, 64)
	part, errPart := strconv.ParseFloat(amount, 64)
	switch {
	case errWhole != nil || errPart != nil || part <= 0:
		return 0
	case whole <= 0:
		return 100
	}
	return int(min(100*part/whole, 1e6))
}

// A Page is a part of a list, with what asks for the next.
type Page[T any] struct {
	Items []T `json:"items"`
	// Next is the value of the query parameter after that asks for what follows; empty if nothing does.
	Next string `json:"next,omitempty"`
}

// An AuditEntry is one thing that somebody did.
type AuditEntry struct {
	ID string    `json:"id"`
	At time.Time `json:"at"`
	// Actor is the account or the token that did it.
	Actor   string `json:"actor"`
	Role    string `json:"role,omitempty"`
	Address string `json:"address"`
	// Action is create, update, delete, rotate, sign_in, sign_in_failed, sign_out, ...
	Action string `json:"action"`
	Kind   string `json:"kind,omitempty"`
	Name   string `json:"name,omitempty"`
	// Diff is a unified diff of the object as YAML, secrets masked.
	Diff      string `json:"diff,omitempty"`
	RequestID string `json:"request_id,omitempty"`
	// Sequence is the place of the entry in the chain of all entries, from 1. An entry outside the chain has none of
	// these.
	Sequence int64 `json:"sequence,omitempty"`
	// Previous is the hash of the entry before. Hash is over it and everything else in the entry.
	Previous string `json:"previous,omitempty"`
	Hash     string `json:"hash,omitempty"`
	// Tenants are those whose people see the entry, and how. They are outside the chain: the hash does not cover
	// them, and no answer contains them.
	Tenants []AuditTenant `json:"tenants,omitempty"`
}

// An AuditTenant is how people of an organization, or of a project, see an entry.
type AuditTenant struct {
	// Tenant is "organization" or "organization/project".
	Tenant string `json:"tenant"`
	// Inside is true if the actor acted within the tenant. Of anybody else its people learn nothing.
	Inside bool `json:"inside,omitempty"`
	// Partial is true if they see the object, or one of its states, in part or not at all. Diff is then what they see.
	Partial bool   `json:"partial,omitempty"`
	Diff    string `json:"diff,omitempty"`
	// Action takes the place of the entry's: join or leave, of an object that came from outside or went there.
	Action string `json:"action,omitempty"`
}

// ActorOutside replaces the actor of an entry, for people of a tenant, if the actor acted from outside the tenant.
const ActorOutside = "(outside)"

// For returns the entry as people of a tenant see it. It has nothing by which the entries of others could be counted.
func (e AuditEntry) For(t AuditTenant) AuditEntry {
	e.Sequence, e.Previous, e.Hash, e.Tenants = 0, "", "", nil
	if !t.Inside {
		e.Actor, e.Role, e.Address, e.RequestID = ActorOutside, "", "", ""
	}
	if t.Partial {
		e.Diff = t.Diff
	}
	if t.Action != "" {
		e.Action = t.Action
	}
	return e
}

// Owner says whose quotas they are, such as "Project acme/web".
func (q TenantQuotas) Owner() string {
	switch {
	case q.Project != "":
		return "Project " + q.Organization + "/" + q.Project
	case q.Organization != "":
		return "Organization " + q.Organization
	}
	return "Key " + q.Key
}

// Percent is the used part.
func (q QuotaUse) Percent() int64 { return 100 * q.Used / max(q.Limit, 1) }

// ListOptions choose a part of a list.
type ListOptions struct {
	After string // Next of the page before
	Limit int    // 0: the server's choice
	// Query are words that items must contain, in their names or, of keys, display names and hints.
	Query string
	// Filters are other query parameters, such as organization.
	Filters map[string]string
}

func (o ListOptions) values() url.Values {
	q := url.Values{}
	for name, value := range o.Filters {
		if value != "" {
			q.Set(name, value)
		}
	}
	if o.After != "" {
		q.Set("after", o.After)
	}
	if o.Limit != 0 {
		q.Set("limit", strconv.Itoa(o.Limit))
	}
	if o.Query != "" {
		q.Set("q", o.Query)
	}
	return q
}
