package incidents

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/attention"
)

// models has those that fail for another cause than their providers, which have a trouble of their own in found.
func models(f attention.Facts, found []Trouble) []Trouble {
	ill := map[string]bool{}
	for _, t := range found {
		if name, ok := strings.CutPrefix(t.Subject, "provider/"); ok {
			ill[name] = true
		}
	}
	sums := map[string]*attention.Traffic{}
	for _, t := range f.Traffic {
		if ill[t.Provider] || t.Model == "" {
			continue
		}
		if sums[t.Model] == nil {
			sums[t.Model] = &attention.Traffic{}
		}
		sums[t.Model].Requests += t.Requests
		sums[t.Model].Failed += t.Failed
	}
	var all []Trouble
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		s := sums[name]
		if s.Failed < fewest || 100*s.Failed < failing*s.Requests {
			continue
		}
		said := fmt.Sprintf("%d of %d requests in 15 minutes failed, and not because of one provider.", s.Failed, s.Requests)
		all = append(all, Trouble{Subject: "model/" + name, What: "The model " + name + " fails", Detail: said,
			Requests: map[string]string{"model": name, "outcome": "error"}, Without: slices.Sorted(maps.Keys(ill)),
			Attention: adminapi.Attention{Kind: adminapi.AttentionModelFailing, Severity: adminapi.SeverityError,
				Object: "Model " + name, Path: attention.PathOf("Model", name),
				Message: "The model fails: " + said}})
	}
	return all
}

// limits has one trouble for each limit that refuses many requests. A budget that is spent has a trouble of its own.
func limits(f attention.Facts) []Trouble {
	sums := map[string]int64{}
	for _, r := range f.Refusals {
		if strings.Contains(r.By, " limit ") {
			sums[r.By] += r.Requests
		}
	}
	var all []Trouble
	for _, by := range slices.Sorted(maps.Keys(sums)) {
		if sums[by] < fewest {
			continue
		}
		owner, rule, _ := strings.Cut(by, " limit ")
		kind, name, _ := strings.Cut(owner, "/")
		t := Trouble{Subject: "limit/" + by, What: "The limit of " + rule + " of " + owner + " refuses requests",
			Detail:   fmt.Sprintf("%d in 15 minutes.", sums[by]),
			Requests: map[string]string{"refused_by": by},
			Attention: adminapi.Attention{Kind: adminapi.AttentionLimit, Severity: adminapi.SeverityWarning,
				Path: "/rate-limits", Message: fmt.Sprintf("%d requests in 15 minutes were refused by: %s.", sums[by], by)}}
		switch kind {
		case "key", "organization", "project":
			kind = strings.ToUpper(kind[:1]) + kind[1:]
			t.Object, t.Path = kind+" "+name, attention.PathOf(kind, name)
		}
		all = append(all, t)
	}
	return all
}

// keys has those that are refused often, but not by a limit, a budget or a guardrail without its checker, which are
// causes of their own.
func keys(f attention.Facts) []Trouble {
	type refused struct {
		attention.Refusals
		codes, by map[string]int64
	}
	sums := map[string]*refused{}
	for _, r := range f.Refusals {
		if strings.Contains(r.By, " limit ") || strings.HasPrefix(r.By, "budget ") ||
			strings.HasPrefix(r.By, "guardrail ") || r.Key == "" {
			continue
		}
		s := sums[r.Key]
		if s == nil {
			s = &refused{Refusals: r, codes: map[string]int64{}, by: map[string]int64{}}
			s.Requests = 0
			sums[r.Key] = s
		}
		s.Requests += r.Requests
		s.codes[cmp.Or(r.Code, r.By)] += r.Requests
		s.by[r.By] += r.Requests
	}
	var all []Trouble
	for _, id := range slices.Sorted(maps.Keys(sums)) {
		s := sums[id]
		if s.Requests < fewest || s.Requests < s.Served {
			continue
		}
		codes := slices.SortedFunc(maps.Keys(s.codes), func(a, b string) int {
			return cmp.Or(cmp.Compare(s.codes[b], s.codes[a]), cmp.Compare(a, b))
		})
		said := fmt.Sprintf("%d requests in 15 minutes were refused: %s.", s.Requests, listed(codes))
		t := Trouble{Subject: "key/" + id, What: "The key " + cmp.Or(s.Name, id) + " is refused", Detail: said,
			Requests: map[string]string{"key": id, "outcome": "rejected"}, By: slices.Sorted(maps.Keys(s.by)),
			Attention: adminapi.Attention{Kind: adminapi.AttentionKeyRefused, Severity: adminapi.SeverityWarning,
				Object: "Key " + id, Path: attention.PathOf("Key", id), Message: said}}
		if !s.Known {
			t.What, t.Requests = "A key that is not known, which ends with "+id+", is used", map[string]string{"key_hint": id}
			t.Object, t.Path, t.Message = "", "/requests?key_hint="+url.QueryEscape(id), t.What+": "+said
		}
		all = append(all, t)
	}
	return all
}
