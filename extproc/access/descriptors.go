package access

import (
	"cmp"
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

// A counterPath has the entries from the root of the descriptors, as counters name them.
type counterPath struct {
	own string
	// shared is the same without the values that a client has chosen, so that counters can have it in common; empty: the
	// client has chosen none.
	shared string
}

// descriptors adds the rules of the matching descriptors, and of the descriptors below them. Of siblings with the same
// key only the most specific applies, as in Envoy's rate limit service: an equal value, then the longest pattern, then
// no value.
func (b *builder) descriptors(m limit.Measure, of Scope, siblings []*rlsv3.RateLimitDescriptor, path counterPath) {
	for key := range entryCount {
		if b.e[key] == "" {
			continue
		}
		best := -1
		for _, d := range siblings {
			if d.GetKey() == entryNames[key] {
				best = max(best, specificity(d.GetValue(), b.e[key]))
			}
		}
		for _, d := range siblings {
			if best < 0 || d.GetKey() != entryNames[key] || specificity(d.GetValue(), b.e[key]) != best {
				continue
			}
			at := path.below(key, d.GetValue(), b.e)
			b.descriptor(m, of, d, at)
			b.descriptors(m, of, d.GetDescriptors(), at)
		}
	}
}

// below returns the path of a descriptor that has matched an entry by its value.
func (p counterPath) below(key entry, value string, e *entries) counterPath {
	next := "/" + entryNames[key] + "=" + counterValue(key, value, e)
	chosen := value == "" && (key == entryUser || key == entryModel)
	switch {
	case chosen:
		p.shared = cmp.Or(p.shared, p.own) + "/" + entryNames[key] + "=others"
	case p.shared != "":
		p.shared += next
	}
	p.own += next
	return p
}

// descriptor adds the rule of a descriptor, if it has one.
func (b *builder) descriptor(m limit.Measure, of Scope, d *rlsv3.RateLimitDescriptor, path counterPath) {
	policy := d.GetRateLimit()
	w, name := windowOf(m, int32(policy.GetUnit()))
	if policy == nil || policy.GetUnlimited() || name == "" {
		return
	}
	subject := of.Kind + "/" + of.Name + "/" + m.String() + "/" + name
	counter := subject + path.own
	if path.shared != "" && !b.names.admit(b.e, counter, w, b.at, b.now) {
		counter = subject + path.shared + "/" + sharedCounter(b.e[entryKey], counter)
		b.shared = true
	}
	b.add(of, limit.Rule{
		Counter: counter, Measure: m, Window: w, Limit: int64(policy.GetRequestsPerUnit()), Shadow: d.GetShadowMode(),
	})
}

// sharedCounter returns the name of one of the 256 counters that a key has where there is no room for one of its own.
func sharedCounter(key, counter string) string {
	sum := sha256.Sum256([]byte(counter))
	return key + "/" + hex.EncodeToString(sum[:1])
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
	sum := sha256.Sum256([]byte(tenantOf(e[entryOrganization], e[entryKey]) + "\x00" + value))
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
