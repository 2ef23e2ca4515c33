package admin

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/cmd/modelgate/console"
)

// keysAtOnce is how many keys the admin API answers for at once.
const keysAtOnce = 100

// A keyTraffic is what keys did in the last day.
type keyTraffic struct {
	uses map[string]adminapi.KeyUse
	last adminapi.KeyTraffic // every answer has the same rejected keys
}

// trafficOf asks what keys did.
func trafficOf(ctx context.Context, client *adminapi.Client, items []adminapi.Item) (*keyTraffic, error) {
	t := &keyTraffic{uses: map[string]adminapi.KeyUse{}}
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.Name
	}
	chunks := slices.Collect(slices.Chunk(ids, keysAtOnce))
	if len(chunks) == 0 {
		chunks = [][]string{nil} // of no key, but of those that nobody knows
	}
	for _, some := range chunks {
		var err error
		if t.last, err = client.KeyTraffic(ctx, url.Values{"key": some}); err != nil {
			return nil, err
		}
		for _, use := range t.last.Items {
			t.uses[use.Key] = use
		}
	}
	return t, nil
}

func (t *keyTraffic) columns() *adminflags.Columns {
	return &adminflags.Columns{Header: []string{"REQUESTS", "ERRORS", "REFUSED", "USD", "USED"},
		Without: []string{"HINT", "OWNER", "MODELS"},
		Cells: func(out *console.Text, id string) []string {
			use := t.uses[id]
			return []string{number(use.Requests), number(use.Errors), number(use.Refused), use.CostUSD,
				out.TimeOr(use.LastUsed, "never")}
		}}
}

// rejected shows the keys that were refused most.
func (t *keyTraffic) rejected(out *console.Text) {
	out.Section([]string{"REJECTED", "REFUSED", "LAST", "ID"}, admincli.Rows(t.last.Rejected,
		func(r adminapi.RejectedKey) []string {
			return []string{nameOfRejected(r), number(r.Refused), out.TimeOr(r.Last, ""), r.Key}
		}))
	if n := t.last.RejectedLeftOut; n > 0 {
		out.Printf("\n%d more keys are refused less often.\n", n)
	}
}

func nameOfRejected(r adminapi.RejectedKey) string {
	switch {
	case r.Key == "" && r.Hint == "":
		return "no key"
	case r.Key == "":
		return "unknown key ..." + r.Hint
	case r.KeyDeleted:
		return cmp.Or(r.KeyName, r.Key) + " (deleted)"
	}
	return cmp.Or(r.KeyName, r.Key)
}

func number(n int64) string { return strconv.FormatInt(n, 10) }
