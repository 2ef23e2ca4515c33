package incidents

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/attention"
)

const (
	// stuckAfter is how long no request of a batch is answered before it is stuck, if some were tried in that time.
	stuckAfter = 10 * time.Minute
	// stalledAfter is the same if none was tried: each request may take long.
	stalledAfter = time.Hour
)

// batches has those that do not advance for another cause than what found has.
func batches(f attention.Facts, found []Trouble) []Trouble {
	subjects := map[string]bool{}
	for _, t := range found {
		subject, _, _ := strings.Cut(t.Subject, " ") // limits and budgets have more than their owner
		subjects[subject] = true
	}
	var all []Trouble
	for _, b := range f.Batches {
		met := b.Met
		waits := met.WaitsUntil != nil && met.WaitsUntil.After(f.Now)
		tried := waits || met.TriedAt != nil && !met.TriedAt.Before(b.Answered)
		idle := f.Now.Sub(b.Answered)
		if idle < stuckAfter || !tried && idle < stalledAfter || slices.ContainsFunc(causes(b, f),
			func(cause string) bool { return subjects[cause] }) {
			continue
		}
		says := "no worker of the job service has tried a request"
		switch {
		case waits:
			says = "its requests wait until " + minute(*met.WaitsUntil)
		case tried:
			says = fmt.Sprintf("%d tries failed", met.Tries)
		case !met.At.IsZero():
			says = "what was asked has no answer"
		}
		if tried {
			says += ", the last with " + strings.TrimSpace(fmt.Sprint(max(met.Status, 0), " ", met.ErrorCode))
			if met.Message != "" {
				says += ": " + strings.TrimSuffix(met.Message, ".")
			}
		}
		detail := fmt.Sprintf("%d of %d requests have an answer; %s.", b.Done, b.Total, says)
		what := "The batch " + b.ID + " does not advance"
		all = append(all, Trouble{Subject: "batch/" + b.ID, Since: b.Answered, What: what, Detail: detail,
			Requests: map[string]string{"batch": b.ID},
			Attention: adminapi.Attention{Kind: adminapi.AttentionBatchStuck, Severity: adminapi.SeverityWarning,
				Path: "/batches/" + url.PathEscape(b.ID), Message: what + ": " + detail}})
	}
	return all
}

// causes returns what would be why a batch does not advance.
func causes(b adminapi.RunningBatch, f attention.Facts) []string {
	all := []string{"jobs", "model/" + b.Model}
	for _, kind := range []string{"limit/", "budget/", ""} {
		all = append(all, kind+"key/"+b.Key, kind+"organization/"+b.Organization,
			kind+"project/"+b.Organization+"/"+b.Project)
	}
	for _, t := range f.Traffic {
		if t.Model == b.Model && t.Failed > 0 {
			all = append(all, "provider/"+t.Provider)
		}
	}
	return all
}
