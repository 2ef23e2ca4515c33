package dashboard

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// A batch is one as the clients' API shows it, as far as it is shown.
type batch struct {
	adminapi.TenantObject
	ID           string `json:"id"`
	Endpoint     string `json:"endpoint"`
	Model        string `json:"model"`
	Status       string `json:"status"`
	OutputFile   string `json:"output_file_id"`
	ErrorFile    string `json:"error_file_id"`
	CreatedAt    int64  `json:"created_at"`
	InProgressAt int64  `json:"in_progress_at"`
	FinalizingAt int64  `json:"finalizing_at"`
	CompletedAt  int64  `json:"completed_at"`
	FailedAt     int64  `json:"failed_at"`
	ExpiredAt    int64  `json:"expired_at"`
	CancelledAt  int64  `json:"cancelled_at"`
	ExpiresAt    int64  `json:"expires_at"`
	Usage        *struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Counts struct {
		Total     int64 `json:"total"`
		Completed int64 `json:"completed"`
		Failed    int64 `json:"failed"`
	} `json:"request_counts"`
	Errors struct {
		Data []struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"errors"`
}

// Done is how many of its requests have an answer.
func (b batch) Done() int64 { return b.Counts.Completed + b.Counts.Failed }

// Ended is when it came to its end, or 0.
func (b batch) Ended() int64 { return cmp.Or(b.CompletedAt, b.FailedAt, b.ExpiredAt, b.CancelledAt) }

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

// running reports whether a job's state will still change.
func running(status string) bool {
	return !slices.Contains([]string{"completed", "succeeded", "failed", "expired", "cancelled"}, status)
}

// objectsOf reads the objects of a page. One that cannot be read is left out.
func objectsOf[T any](page adminapi.Page[adminapi.TenantObject],
	whose func(*T, adminapi.TenantObject)) adminapi.Page[T] {
	out := adminapi.Page[T]{Next: page.Next}
	for _, o := range page.Items {
		var t T
		if json.Unmarshal(o.Object, &t) == nil {
			whose(&t, o)
			out.Items = append(out.Items, t)
		}
	}
	return out
}

func (v *visit) batches(w http.ResponseWriter, r *http.Request) error {
	data, err := pageOf(r, func(o adminapi.ListOptions) (adminapi.Page[batch], error) {
		page, err := v.api.Batches(r.Context(), o)
		return objectsOf(page, func(b *batch, o adminapi.TenantObject) { b.TenantObject = o }), err
	}, "organization", "project")
	if err != nil {
		return err
	}
	data.Live = slices.ContainsFunc(data.Items, func(b batch) bool { return running(b.Status) })
	return v.render(w, "batches", "Batches", data)
}
