package configv1

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxHint        = 4
	maxListedOfKey = 256 // elements of each list of a key
)

// Bounds of metadata, for keys and for objects of OpenAI's API.
const (
	MaxMetadata      = 16
	MaxMetadataKey   = 64  // characters
	MaxMetadataValue = 512 // characters
)

var endpointPattern = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._*/-]*$`)

func (v *validator) key(k *Key) {
	v.id("name", k.GetName())
	v.text("display_name", k.GetDisplayName())
	v.hash("hash", k.GetHash())
	v.hint("hint", k.GetHint())
	v.optionalID("organization", k.GetOrganization())
	v.optionalID("project", k.GetProject())
	v.list("models", k.GetModels(), v.required)
	v.list("endpoints", k.GetEndpoints(), v.endpoint)
	v.list("addresses", k.GetAddresses(), func(field, s string) {
		if _, err := ParseAddress(s); err != nil {
			v.fail(field, "%v", err)
		}
	})
	v.limits(k.GetLimits())
	v.budgets(k.GetBudgets())
	v.metadata(k.GetMetadata())
	v.bodies(k.GetBodies())
	if r := k.GetRetired(); r != nil {
		if len(r.GetHash()) == 0 {
			v.fail("retired.hash", "missing")
		}
		v.hash("retired.hash", r.GetHash())
		v.hint("retired.hint", r.GetHint())
		if r.GetExpiresAt() == nil {
			v.fail("retired.expires_at", "missing: a key that was replaced must end")
		}
		v.time("retired.expires_at", r.GetExpiresAt())
	}
	v.time("expires_at", k.GetExpiresAt())
	v.time("created_at", k.GetCreatedAt())
}

func (v *validator) organization(o *Organization) {
	v.id("name", o.GetName())
	v.text("display_name", o.GetDisplayName())
	v.limits(o.GetLimits())
	v.budgets(o.GetBudgets())
	v.quotas(o.GetQuotas())
	v.bodies(o.GetBodies())
	v.time("created_at", o.GetCreatedAt())
	if _, ok := KeysOfLeavers_name[int32(o.GetKeysOfLeavers())]; !ok {
		v.fail("keys_of_leavers", "must be DISABLE or KEEP")
	}
	if o.GetSuccessor() != "" {
		if name, err := AccountName(o.GetSuccessor()); err != nil || name != o.GetSuccessor() {
			v.fail("successor", "must be the name of an account")
		}
	}
}

func (v *validator) project(p *Project) {
	organization, project, _ := strings.Cut(p.GetName(), "/")
	if !isID(organization) || !isID(project) {
		v.fail("name", "must be <organization>/<project>, each 1 to %d letters, digits, _ and -", maxName)
	}
	v.text("display_name", p.GetDisplayName())
	v.limits(p.GetLimits())
	v.budgets(p.GetBudgets())
	v.quotas(p.GetQuotas())
	v.bodies(p.GetBodies())
	v.time("created_at", p.GetCreatedAt())
}

func isID(s string) bool { return len(s) <= maxName && idPattern.MatchString(s) }

// ParseAddress reads an address or a range of addresses for a key: "10.1.2.3", "10.0.0.0/8", "2001:db8::/32".
func ParseAddress(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("must be an IP address such as 10.1.2.3, or a range such as 10.0.0.0/8")
	case p.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("is a range of IPv4 in IPv6; write it as IPv4")
	case p != p.Masked():
		return netip.Prefix{}, fmt.Errorf("has bits that its length leaves out; the range is %s", p.Masked())
	}
	return p, nil
}

// list checks the elements of a list without duplicates.
func (v *validator) list(field string, list []string, check func(field, s string)) {
	if len(list) > maxListedOfKey {
		v.fail(field, "must have at most %d elements", maxListedOfKey)
		return
	}
	for i, s := range list {
		check(element(field, i), s)
	}
	v.distinct(field, list)
}

func (v *validator) endpoint(field, s string) {
	switch {
	case strings.HasPrefix(strings.TrimPrefix(s, "/"), "v1/") || strings.HasPrefix(s, "/"):
		v.fail(field, "must be a path under /v1/ without that, such as chat/completions")
	case len(s) > maxText || !endpointPattern.MatchString(s):
		v.fail(field, "must be a path under /v1/ such as chat/completions, or a pattern such as audio/*")
	}
}

func (v *validator) metadata(m map[string]string) {
	if len(m) > MaxMetadata {
		v.fail("metadata", "must have at most %d pairs", MaxMetadata)
	}
	control := func(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }
	for _, key := range slices.Sorted(maps.Keys(m)) {
		switch {
		case key == "", utf8.RuneCountInString(key) > MaxMetadataKey, control(key):
			v.fail("metadata", "%.70q must be 1 to %d characters without control characters", key, MaxMetadataKey)
		case utf8.RuneCountInString(m[key]) > MaxMetadataValue, control(m[key]):
			v.fail("metadata."+key, "must be at most %d characters without control characters", MaxMetadataValue)
		}
	}
}

func (v *validator) hash(field string, hash []byte) {
	if n := len(hash); n != 0 && n != hashSize {
		v.fail(field, "must be %d bytes", hashSize)
	}
}

func (v *validator) hint(field, hint string) {
	if len(hint) > maxHint {
		v.fail(field, "must be at most %d characters", maxHint)
	}
}

// CheckHashes returns an error if the key has no valid hash. A stored key may not have one yet.
func (k *Key) CheckHashes() error {
	if n := len(k.GetHash()); n != hashSize {
		return fmt.Errorf("hash: has %d bytes, not %d", n, hashSize)
	}
	if n := len(k.GetRetired().GetHash()); k.GetRetired() != nil && n != hashSize {
		return fmt.Errorf("retired.hash: has %d bytes, not %d", n, hashSize)
	}
	return nil
}
