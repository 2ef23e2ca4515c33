package incidents

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/ledger/segment"
	"github.com/modelgate/modelgate/internal/usage"
)

// over returns by how much what is spent of a budget is above the part from which on that is a trouble.
func over(b adminapi.BudgetUse) usage.Nano {
	whole, err := usage.ParseUSD(b.USD)
	spent, other := usage.ParseUSD(b.Spent)
	if err != nil || other != nil {
		return 0
	}
	return max(0, spent-whole/100*BudgetPercent)
}

// crossed returns when so much of a budget was spent that it is a trouble: with the end of a request, or with a change
// of the budget after that; zero: not lately.
func (d *describer) crossed(ctx context.Context, t Trouble) (time.Time, error) {
	type charge struct {
		at   time.Time
		cost usage.Nano
	}
	var all []charge
	kind, name, _ := strings.Cut(t.Object, " ")
	of := map[string]string{strings.ToLower(kind): name}
	if organization, project, ok := strings.Cut(name, "/"); ok {
		of = map[string]string{"organization": organization, "project": project}
	}
	err := d.log.Walk(ctx, adminapi.ListOptions{Filters: span(of, d.now.Add(-longest), d.now.Add(time.Second))},
		[]segment.Column{segment.StartedAt, segment.DurationMS, segment.Cost}, func() { all = nil },
		func(r *segment.Row) {
			end := time.UnixMicro(r.StartedAt).UTC().Add(time.Duration(r.DurationMS) * time.Millisecond)
			all = append(all, charge{end, usage.Nano(r.Cost)})
		})
	if err != nil {
		return time.Time{}, err
	}
	slices.SortFunc(all, func(a, b charge) int { return cmp.Or(b.at.Compare(a.at), cmp.Compare(b.cost, a.cost)) })
	left := t.Over
	for _, c := range all {
		if left -= c.cost; left < 0 {
			changed, err := d.lastChange(ctx, t.Object, c.at)
			return later(c.at, changed), err
		}
	}
	return time.Time{}, nil
}
