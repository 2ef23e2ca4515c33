// Package request has what everything that decides about a request of a client asks of it.
package request

import configv1 "github.com/modelgate/modelgate/api/config/v1"

// A Subject is who a request is from. Limits, policies, guardrails, caches, checkers and the ledger all use this one.
type Subject struct {
	Key                   string
	KeyName               string // the key's name for people
	Organization, Project string // empty: the key has none
	// User is the one that a token proves, or else the one that the request names. It is empty until one is known.
	User    string
	Token   map[string][]string // claims of the token that acts as the key; nil: there is none
	Address string              // in Envoy's format
}

// Client returns what the scope of an object is compared with.
func (s *Subject) Client() configv1.Client {
	return configv1.Client{Key: s.Key, Organization: s.Organization, Project: s.Project}
}
