package configv1

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of metadata, for keys and for objects of OpenAI's API.
const (
	MaxMetadata      = 16
	MaxMetadataKey   = 64  // characters
	MaxMetadataValue = 512 // characters
)

func (k *Key) check(v *validator) {
	v.limits(k.GetLimits())
	v.budgets(k.GetBudgets())
	v.metadata(k.GetMetadata())
}

func (o *Organization) check(v *validator) {
	v.limits(o.GetLimits())
	v.budgets(o.GetBudgets())
	if o.GetSuccessor() != "" {
		if name, err := AccountName(o.GetSuccessor()); err != nil || name != o.GetSuccessor() {
			v.fail("successor", "must be the name of an account")
		}
	}
}

func (p *Project) check(v *validator) {
	organization, project, _ := strings.Cut(p.GetName(), "/")
	if !isID(organization) || !isID(project) {
		v.fail("name", "must be <organization>/<project>, each 1 to %d letters, digits, _ and -", maxName)
	}
	v.limits(p.GetLimits())
	v.budgets(p.GetBudgets())
}

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
