// Package jobs is the pages of batches and of fine-tuning jobs.
//
// The objects come from the clients' API. A field that is not read here is not lost: nothing is written back.
package jobs

import (
	"embed"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

//go:embed *.html
var templates embed.FS

// Section returns the pages.
func Section() page.Section {
	return page.Section{
		Place: 150,
		Lines: []page.Line{
			{Group: page.GroupJobs, Path: "/batches", Name: "Batches", Scope: authz.JobsRead, Tenants: true},
			{Group: page.GroupJobs, Path: "/fine-tuning", Name: "Fine-tuning", Scope: authz.JobsRead, Tenants: true},
		},
		Routes: []page.Route{
			page.Get("/batches", authz.JobsRead, listBatches),
			page.Get("/batches/{id}", authz.JobsRead, showBatch),
			page.Post("/batches/{id}", authz.JobsWrite, cancelBatch),
			page.Post("/batches/{id}/files/{which}", authz.BodiesRead, download),
			page.Get("/fine-tuning", authz.JobsRead, listTuningJobs),
			page.Get("/fine-tuning/{id}", authz.JobsRead, showTuningJob),
		},
		Templates: templates,
		Functions: template.FuncMap{"jobLevel": jobLevel, "perMinute": perMinute},
		Notices:   map[string]string{"cancelling": "The batch is being cancelled. Requests that are under way may still end."},
	}
}

// A batch is one that a page shows.
type batch struct{ adminapi.BatchObject }

// Level names how the batch is, for its colour. One is not well whose requests have failed.
func (b batch) Level() string {
	switch {
	case b.Counts.Failed == 0 || jobLevel(b.Status) == "bad":
		return jobLevel(b.Status)
	case b.Counts.Completed == 0 && !running(b.Status):
		return "bad"
	}
	return "warn"
}

// Waiting returns what requests that are tried again have met in the last minutes; nil: nothing.
func (b batch) Waiting() *adminapi.BatchProgress {
	p := b.Progress
	if p == nil || p.TriedAt == nil {
		return nil
	}
	if waits := p.WaitsUntil != nil && p.WaitsUntil.After(p.At); !waits && p.At.Sub(*p.TriedAt) > recently {
		return nil
	}
	return p
}

// recently is how long what requests have met is shown.
const recently = 5 * time.Minute

// jobLevel names how a job is, for its colour.
func jobLevel(status string) string {
	switch status {
	case "completed", "succeeded":
		return "good"
	case "failed", "expired":
		return "bad"
	case "cancelled", "cancelling", "paused":
		return "warn"
	}
	return ""
}

// perMinute writes a rate. A slow one has a digit after the point.
func perMinute(rate float64) string {
	if rate < 10 {
		return strconv.FormatFloat(rate, 'f', 1, 64)
	}
	return strconv.FormatFloat(rate, 'f', 0, 64)
}

// running reports whether a job's state will still change.
func running(status string) bool {
	return !slices.Contains([]string{"completed", "succeeded", "failed", "expired", "cancelled"}, status)
}

// objectsOf reads the objects of a page. One that cannot be read is left out.
func objectsOf[T any](part adminapi.Page[adminapi.TenantObject],
	read func(adminapi.TenantObject) (T, error)) adminapi.Page[T] {
	out := adminapi.Page[T]{Next: part.Next}
	for _, o := range part.Items {
		if t, err := read(o); err == nil {
			out.Items = append(out.Items, t)
		}
	}
	return out
}

func batchOf(o adminapi.TenantObject) (batch, error) {
	b, err := o.Batch()
	return batch{b}, err
}

func listBatches(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := page.PartOf(r, func(o adminapi.ListOptions) (adminapi.Page[batch], error) {
		part, err := v.API.Batches(r.Context(), o)
		return objectsOf(part, batchOf), err
	}, "organization", "project")
	if err != nil {
		return err
	}
	data.Live = slices.ContainsFunc(data.Items, func(b batch) bool { return running(b.Status) })
	return v.Render(w, "batches", "Batches", data)
}
