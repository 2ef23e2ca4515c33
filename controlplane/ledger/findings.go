package ledger

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
)

const (
	// foundMost is how many requests with findings are summed up.
	foundMost = 50_000
	// maxFindings is how many rules and actions an answer names.
	maxFindings = 1000
	// maxExamples is how many requests are named for each.
	maxExamples = 5

	ofGuardrail = adminapi.FindingOfGuardrail + " "
	ofPolicy    = adminapi.FindingOfPolicy + " "
)

// findingActions are the possible actions of a rule.
func findingActions() []string {
	return []string{adminapi.FindingObserve, adminapi.FindingMask, adminapi.FindingBlock, adminapi.FindingFailed}
}

// A foundBy names a rule of a guardrail or a policy, or such an object with all its rules.
type foundBy struct{ kind, name string }

// foundByOf reads a name as people write it: "personal/contact", "guardrail personal/contact", "policy office" .
func foundByOf(name string) foundBy {
	if name, ok := strings.CutPrefix(name, ofPolicy); ok {
		return foundBy{adminapi.FindingOfPolicy, name}
	}
	return foundBy{adminapi.FindingOfGuardrail, strings.TrimPrefix(name, ofGuardrail)}
}

// has reports whether a rule is meant.
func (f foundBy) has(rule foundBy) bool {
	return f.kind == rule.kind && (rule.name == f.name || strings.HasPrefix(rule.name, f.name+"/"))
}

// text returns how a finding names it. Guardrails' rules have no kind there.
func (f foundBy) text() string {
	if f.kind == adminapi.FindingOfPolicy {
		return ofPolicy + f.name
	}
	return f.name
}

// A found is one finding of a request.
type found struct {
	foundBy
	action  string
	matches int64
}

// findingsOf returns the findings of a request, each rule and action once. A rule that has refused it is among them
// even where the details are not kept.
func findingsOf(guards []string, refusedBy, errorCode string) []found {
	var all []found
	for _, text := range guards {
		if f, ok := findingOf(text); ok {
			all = addFound(all, f)
		}
	}
	kind, name, _ := strings.Cut(refusedBy, " ")
	by := foundBy{kind, name}
	if kind != adminapi.FindingOfGuardrail && kind != adminapi.FindingOfPolicy {
		return all
	}
	refused := found{by, adminapi.FindingBlock, 1}
	if errorCode == string(openai.CodeCheckerUnavailable) {
		refused.action = adminapi.FindingFailed
	}
	if !slices.ContainsFunc(all, func(f found) bool { return f.foundBy == by && f.action == refused.action }) {
		all = append(all, refused)
	}
	return all
}

// addFound adds a finding to a request's. There may be one of the request and one of the answer.
func addFound(all []found, f found) []found {
	for i := range all {
		if all[i].foundBy == f.foundBy && all[i].action == f.action {
			all[i].matches += f.matches
			return all
		}
	}
	return append(all, f)
}

// findingOf reads a finding as it is kept: "mask personal/contact in the request: 2".
func findingOf(text string) (f found, ok bool) {
	action, rest, _ := strings.Cut(text, " ")
	colon, in := strings.LastIndex(rest, ": "), strings.LastIndex(rest, " in the ")
	if !slices.Contains(findingActions(), action) || in < 0 || colon < in {
		return f, false
	}
	n, err := strconv.ParseInt(rest[colon+2:], 10, 64)
	return found{foundByOf(rest[:in]), action, max(n, 1)}, err == nil
}

// Findings sums up what rules have found in the latest requests, as [adminapi.Client.Findings] says. It returns an
// error of OpenAI's if the options are wrong.
func (l requestReader) Findings(ctx context.Context, o adminapi.ListOptions) (adminapi.Findings, error) {
	t := foundTally{only: foundByOf(text(o.Filters["rule"])), action: text(o.Filters["action"]),
		items: map[foundKey]*adminapi.Finding{}, buckets: map[int64]*adminapi.FindingBucket{}}
	t.all = t.only.name == ""
	if t.action != "" && !slices.Contains(findingActions(), t.action) {
		return adminapi.Findings{}, openai.CodeInvalidValue.On("action",
			"Invalid value for 'action': it must be observe, mask, block or failed.")
	}
	filters := maps.Clone(o.Filters)
	delete(filters, "action")
	delete(filters, "rule") // the rule is searched in the rows that are read
	c, err := l.countOf(adminapi.ListOptions{Query: o.Query, Filters: filters})
	if err != nil {
		return adminapi.Findings{}, err
	}
	c.From, c.To, t.width = c.from, c.to, c.width
	out := adminapi.Findings{Start: time.UnixMicro(c.From).UTC(), End: time.UnixMicro(c.To).UTC(), Width: c.width}
	found := segment.Any(segment.Begins(segment.Guards, ""), segment.Begins(segment.RefusedBy, ofGuardrail, ofPolicy))
	if c.Where != nil {
		found = segment.All(found, c.Where)
	}
	c.Where, c.Limit, c.Columns = found, foundMost+1, []segment.Column{segment.StartedAt, segment.ID, segment.Requests,
		segment.RefusedBy, segment.ErrorCode, segment.Guards}
	rows, err := l.search(ctx, c.Query)
	if err != nil {
		return out, fmt.Errorf("summing up findings: %w", err)
	}
	if len(rows) > foundMost {
		from := time.UnixMicro(rows[foundMost].StartedAt).UTC()
		out.CountedFrom = &from
	}
	for i := range rows {
		t.add(&rows[i])
	}
	t.result(&out)
	return out, nil
}

// A foundKey identifies a sum of findings.
type foundKey struct {
	foundBy
	action string
}

// A foundTally sums findings up. Requests come newest first.
type foundTally struct {
	only    foundBy
	all     bool // rules are counted
	action  string
	width   int64
	items   map[foundKey]*adminapi.Finding
	buckets map[int64]*adminapi.FindingBucket
}

func (t *foundTally) add(r *segment.Row) {
	seen := map[string]bool{}
	for _, f := range findingsOf(r.Guards, r.RefusedBy, r.ErrorCode) {
		if t.action != "" && f.action != t.action || !t.all && !t.only.has(f.foundBy) {
			continue
		}
		key := foundKey{f.foundBy, f.action}
		item := t.items[key]
		if item == nil {
			item = &adminapi.Finding{Kind: f.kind, Rule: f.name, Action: f.action, Last: time.UnixMicro(r.StartedAt).UTC()}
			t.items[key] = item
		}
		item.Requests, item.Matches = item.Requests+r.Requests, item.Matches+f.matches
		if len(item.Examples) < maxExamples {
			item.Examples = append(item.Examples, r.ID)
		}
		if !seen[f.action] {
			seen[f.action] = true
			t.count(r.StartedAt/1e6/t.width*t.width, f.action, r.Requests)
		}
	}
}

// count adds requests to a bucket.
func (t *foundTally) count(start int64, action string, requests int64) {
	b := t.buckets[start]
	if b == nil {
		b = &adminapi.FindingBucket{Start: time.Unix(start, 0).UTC()}
		t.buckets[start] = b
	}
	switch action {
	case adminapi.FindingObserve:
		b.Observe += requests
	case adminapi.FindingMask:
		b.Mask += requests
	case adminapi.FindingBlock:
		b.Block += requests
	case adminapi.FindingFailed:
		b.Failed += requests
	}
}

func (t *foundTally) result(out *adminapi.Findings) {
	out.Items, out.Buckets = []adminapi.Finding{}, []adminapi.FindingBucket{}
	for _, item := range t.items {
		out.Items = append(out.Items, *item)
	}
	slices.SortFunc(out.Items, func(a, b adminapi.Finding) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), strings.Compare(a.Kind, b.Kind),
			strings.Compare(a.Rule, b.Rule), strings.Compare(a.Action, b.Action))
	})
	if n := len(out.Items) - maxFindings; n > 0 {
		out.Items, out.LeftOut = out.Items[:maxFindings], n
	}
	for _, start := range slices.Sorted(maps.Keys(t.buckets)) {
		out.Buckets = append(out.Buckets, *t.buckets[start])
	}
}
