package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"cel.dev/cel-go/cel"
	rlsv3 "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/limit"
)

// A RateLimit is ready for use. It is immutable.
type RateLimit struct {
	domain      string
	descriptors []*rlsv3.RateLimitDescriptor
	when        cel.Program // true for the requests that the limit is for; nil: all
}

// NewRateLimit makes a limit ready for use.
func NewRateLimit(c *rlsv3.RateLimitConfig) (*RateLimit, error) {
	l := &RateLimit{domain: c.GetDomain(), descriptors: c.GetDescriptors()}
	if d := c.GetDescriptors(); len(d) == 1 && d[0].GetKey() == configv1.WhenDescriptor {
		when, err := (&configv1.RateLimit{When: d[0].GetValue()}).Program()
		if err != nil {
			return nil, fmt.Errorf("when: %w", err)
		}
		l.when, l.descriptors = when, d[0].GetDescriptors()
	}
	return l, nil
}

// entries are the values that descriptors of rate limits match, by entry. An absent value is "".
type entries [entryCount]string

type entry int

const (
	entryKey entry = iota
	entryUser
	entryOrganization
	entryProject // <organization>/<project>
	entryModel
	entryProvider
	entryCount
)

var entryNames = [entryCount]string(configv1.RateLimitKeys())

// entriesOf returns the entries of a client's request.
func entriesOf(k *Client, user, model, provider string) entries {
	e := entries{entryKey: k.Name, entryUser: user, entryOrganization: k.Organization, entryModel: model,
		entryProvider: provider}
	if k.Project != "" {
		e[entryProject] = k.Organization + "/" + k.Project
	}
	return e
}

// descriptors adds the rules of the matching descriptors, and of the descriptors below them. Of siblings with the same
// key only the most specific applies, as in Envoy's rate limit service: an equal value, then the longest pattern, then
// no value. Path has the entries from the root, as counters name them.
func (b *Rules) descriptors(m limit.Measure, of Scope, siblings []*rlsv3.RateLimitDescriptor, e *entries,
	path string) {
	for key := range entryCount {
		if e[key] == "" {
			continue
		}
		best := -1
		for _, d := range siblings {
			if d.GetKey() == entryNames[key] {
				best = max(best, specificity(d.GetValue(), e[key]))
			}
		}
		for _, d := range siblings {
			if best < 0 || d.GetKey() != entryNames[key] || specificity(d.GetValue(), e[key]) != best {
				continue
			}
			at := path + "/" + entryNames[key] + "=" + counterValue(key, d.GetValue(), e)
			b.descriptor(m, of, d, at)
			b.descriptors(m, of, d.GetDescriptors(), e, at)
		}
	}
}

// descriptor adds the rule of a descriptor, if it has one.
func (b *Rules) descriptor(m limit.Measure, of Scope, d *rlsv3.RateLimitDescriptor, path string) {
	policy := d.GetRateLimit()
	w, name := windowOf(m, int32(policy.GetUnit()))
	if policy == nil || policy.GetUnlimited() || name == "" {
		return
	}
	b.add(of, limit.Rule{
		Counter: of.Kind + "/" + of.Name + "/" + m.String() + "/" + name + path,
		Measure: m, Window: w, Limit: int64(policy.GetRequestsPerUnit()), Shadow: d.GetShadowMode(),
	})
}

// specificity returns how specific a descriptor's value is for an entry, or -1 if it does not match.
func specificity(value, entry string) int {
	switch {
	case value == "":
		return 0
	case value == entry:
		return 1 << 30
	case configv1.Matches(value, entry):
		return len(value)
	}
	return -1
}

// counterValue returns the name of an entry in a counter. All entries that match a pattern share one counter. A user
// belongs to an organization, or to a key without organization, because tenants choose the names of their users.
func counterValue(key entry, value string, e *entries) string {
	if value == "" {
		value = e[key]
	}
	if key != entryUser {
		return value
	}
	tenant := "organization/" + e[entryOrganization]
	if e[entryOrganization] == "" {
		tenant = "key/" + e[entryKey]
	}
	sum := sha256.Sum256([]byte(tenant + "\x00" + value))
	return hex.EncodeToString(sum[:12])
}

// limitsUsers reports whether a descriptor depends on the user.
func limitsUsers(descriptors []*rlsv3.RateLimitDescriptor) bool {
	for _, d := range descriptors {
		if d.GetKey() == entryNames[entryUser] || limitsUsers(d.GetDescriptors()) {
			return true
		}
	}
	return false
}
