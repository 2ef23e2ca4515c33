package catalog

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// A Known is a model that a catalog names, or the versions of one.
type Known struct {
	// Vendor is empty if the entry is for all vendors.
	Vendor string
	// Name is the vendor's name of the model. If it is not Exact, versions of the model have names that begin with it, or
	// contain it.
	Name  string
	Exact bool
	// Facts are what [Catalog.Facts] returns, and must not be modified.
	Facts *configv1.ModelFacts
}

// dated is what the pattern of a model's dated versions has after the model's name.
var dated = regexp.MustCompile(`^(-preview)?-(0|2|20\d\d(-\d\d)?)$`)

// Known returns the models that the entries of the catalog name, by vendor and name. A pattern is taken as a model if
// it has a price. A pattern of capabilities is only taken if no other name of the vendor falls under it.
func (c *Catalog) Known() []Known {
	priced, others := map[string][]string{}, map[string][]string{}
	for _, e := range c.entries {
		into := others
		if e.GetPrice() != nil {
			into = priced
		}
		vendors := e.GetVendors()
		if len(vendors) == 0 {
			vendors = []string{""}
		}
		for _, vendor := range vendors {
			into[vendor] = append(into[vendor], e.GetModels()...)
		}
	}
	var all []Known
	for vendor := range vendorsOf(priced, others) {
		for _, pattern := range namesOf(priced[vendor], others[vendor]) {
			name := strings.TrimPrefix(pattern, "*")
			if family := strings.TrimSuffix(name, "*"); !strings.HasSuffix(family, "-") {
				name = family
			}
			exact := !strings.Contains(strings.TrimPrefix(pattern, "*"), "*")
			all = append(all, Known{Vendor: vendor, Name: name, Exact: exact, Facts: c.Facts(vendor, name)})
		}
	}
	slices.SortFunc(all, func(a, b Known) int {
		return cmp.Or(strings.Compare(a.Vendor, b.Vendor), strings.Compare(a.Name, b.Name))
	})
	return slices.CompactFunc(all, func(a, b Known) bool { return a.Vendor == b.Vendor && a.Name == b.Name })
}

func vendorsOf(lists ...map[string][]string) map[string]bool {
	all := map[string]bool{}
	for _, list := range lists {
		for vendor := range list {
			all[vendor] = true
		}
	}
	return all
}

// namesOf returns the patterns of a vendor that stand for a model.
func namesOf(priced, others []string) []string {
	names := slices.Clone(priced)
	for _, p := range others {
		if !strings.Contains(p, "*") {
			names = append(names, p)
		}
	}
	all := slices.Concat(names, others)
	for _, p := range others {
		family, ok := strings.CutSuffix(p, "*")
		if !ok || strings.ContainsAny(family, "*:") || strings.HasSuffix(family, "-") {
			continue
		}
		if !slices.ContainsFunc(all, func(other string) bool { return other != p && holdsName(p, other) }) {
			names = append(names, p)
		}
	}
	slices.SortFunc(names, byExactness)
	var kept []string
	for _, name := range names {
		of := strings.Trim(name, "*")
		if !slices.ContainsFunc(kept, func(k string) bool {
			rest, found := strings.CutPrefix(of, strings.Trim(k, "*"))
			return found && (rest == "" || dated.MatchString(rest) && of != name)
		}) {
			kept = append(kept, name)
		}
	}
	return kept
}

// holdsName reports whether a pattern holds for the models of another.
func holdsName(pattern, other string) bool {
	return configv1.Matches(pattern, strings.Trim(other, "*"))
}

// byExactness sorts names before patterns of them, and shorter ones first.
func byExactness(a, b string) int {
	return cmp.Or(cmp.Compare(len(strings.Trim(a, "*")), len(strings.Trim(b, "*"))), cmp.Compare(len(a), len(b)))
}
