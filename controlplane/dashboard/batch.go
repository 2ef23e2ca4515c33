package dashboard

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/admin"
)

// A batchData is what the page of one batch shows.
type batchData struct {
	Batch    batch
	Cost     *adminapi.BatchCost // nil: unknown
	Failures []adminapi.BatchFailure
	Away     string // why there are no failures
	Now      time.Time
}

// Live reports whether the batch will still change.
func (d batchData) Live() bool { return running(d.Batch.Status) }

// MayStop reports whether the batch can be cancelled.
func (d batchData) MayStop() bool { return d.Live() && d.Batch.Status != "cancelling" }

// Rate is how many requests are answered per minute, since the first was sent; 0: unknown.
func (d batchData) Rate() float64 {
	end := cmp.Or(d.Batch.FinalizingAt, d.Batch.CancelledAt, d.Batch.ExpiredAt, d.Now.Unix())
	if d.Batch.InProgressAt == 0 || end <= d.Batch.InProgressAt {
		return 0
	}
	return float64(d.Batch.Done()) * 60 / float64(end-d.Batch.InProgressAt)
}

// Left is when the last request is answered if the rate stays as it is; zero: unknown.
func (d batchData) Left() time.Time {
	rate := d.Rate()
	if d.Batch.Status != "in_progress" || rate <= 0 {
		return time.Time{}
	}
	minutes := float64(d.Batch.Counts.Total-d.Batch.Done()) / rate
	return d.Now.Add(time.Duration(minutes * float64(time.Minute)))
}

// A batchFile is a file of a batch that can be downloaded.
type batchFile struct{ Which, Name string }

// Files are those that the batch has.
func (d batchData) Files() []batchFile {
	files := []batchFile{{"input", "Requests"}}
	if d.Batch.OutputFile != "" {
		files = append(files, batchFile{"output", "Answers"})
	}
	if d.Batch.ErrorFile != "" {
		files = append(files, batchFile{"error", "Failed requests"})
	}
	return files
}

func (v *visit) showBatch(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	details, err := v.api.Batch(r.Context(), id)
	if err != nil {
		return err
	}
	data := batchData{Cost: details.Cost, Now: v.config.Now()}
	if err := json.Unmarshal(details.Object, &data.Batch); err != nil {
		return err
	}
	data.Batch.TenantObject = details.TenantObject
	if data.Batch.Counts.Failed > 0 {
		page, err := v.api.BatchFailures(r.Context(), id)
		if data.Away, err = away(err); err != nil {
			return err
		}
		data.Failures = page.Items
	}
	return v.render(w, "batch", "Batch", data)
}

func (v *visit) cancelBatch(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	_, err := v.api.CancelBatch(r.Context(), id)
	return v.done(w, r, err, pathTo("batches", id), "cancelling")
}

// batchFile passes on what the API answers, which writes the audit log. A form asks for it: whoever only follows a
// link has not looked.
func (v *visit) batchFile(w http.ResponseWriter, r *http.Request) error {
	target := "/admin/v1/batches/" + url.PathEscape(r.PathValue("id")) + "/files/" + url.PathEscape(r.PathValue("which"))
	ask, err := http.NewRequestWithContext(admin.WithPrincipal(r.Context(), v.principal), http.MethodGet, target,
		http.NoBody)
	if err != nil {
		return err
	}
	v.config.API.ServeHTTP(w, ask)
	return nil
}
