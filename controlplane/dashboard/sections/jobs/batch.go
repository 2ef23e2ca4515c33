package jobs

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
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

// Rate is how many requests are answered per minute: of late while it runs, else on average; 0: unknown.
func (d batchData) Rate() float64 {
	if p := d.Batch.Progress; p != nil {
		return p.PerMinute
	}
	end := cmp.Or(d.Batch.FinalizingAt, d.Batch.CancelledAt, d.Batch.ExpiredAt, d.Now.Unix())
	if d.Batch.InProgressAt == 0 || end <= d.Batch.InProgressAt {
		return 0
	}
	return float64(d.Batch.Done()) * 60 / float64(end-d.Batch.InProgressAt)
}

// Left is when the last request is answered if the rate stays as it is of late, and after what makes the requests
// wait; zero: unknown.
func (d batchData) Left() time.Time {
	rate := d.Rate()
	if d.Batch.Status != "in_progress" || rate <= 0 {
		return time.Time{}
	}
	begin := d.Now
	if p := d.Batch.Progress; p != nil && p.WaitsUntil != nil && p.WaitsUntil.After(begin) {
		begin = *p.WaitsUntil
	}
	minutes := float64(d.Batch.Counts.Total-d.Batch.Done()) / rate
	return begin.Add(time.Duration(minutes * float64(time.Minute)))
}

// TooLate reports whether the batch will expire before its last request is answered.
func (d batchData) TooLate() bool { return d.Left().Unix() > d.Batch.ExpiresAt }

// Reasons are the failures that the page names, by what they say, the most frequent first.
func (d batchData) Reasons() (all []failureReason) {
	for _, f := range d.Failures {
		of := failureReason{Status: f.Status, Code: f.ErrorCode, Message: f.Message}
		i := slices.IndexFunc(all, func(r failureReason) bool { return r.Status == of.Status && r.Code == of.Code })
		if i < 0 {
			i, all = len(all), append(all, of)
		}
		all[i].Count++
	}
	slices.SortStableFunc(all, func(a, b failureReason) int { return cmp.Compare(b.Count, a.Count) })
	return all
}

// A failureReason is why requests have failed. The message is the first one's.
type failureReason struct {
	Count, Status int
	Code, Message string
}

// Requests returns the address of the request log with the batch's answered requests.
func (d batchData) Requests() string {
	q := url.Values{"batch": {d.Batch.ID}, "range": {"custom"},
		"from": {time.Unix(d.Batch.CreatedAt, 0).UTC().Format("2006-01-02T15:04")}}
	if at := d.Batch.Ended(); at > 0 {
		q.Set("to", time.Unix(at, 0).Add(time.Minute).UTC().Format("2006-01-02T15:04"))
	}
	return "/requests?" + q.Encode()
}

// A batchFile is a file of a batch that can be downloaded.
type batchFile struct{ Which, Name string }

// Files returns the files of the batch.
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

func showBatch(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	details, err := v.API.Batch(r.Context(), id)
	if err != nil {
		return err
	}
	data := batchData{Cost: details.Cost, Now: v.Now()}
	if data.Batch, err = batchOf(details.TenantObject); err != nil {
		return err
	}
	if data.Batch.Counts.Failed > 0 {
		part, err := v.API.BatchFailures(r.Context(), id)
		if data.Away, err = page.Unavailable(err); err != nil {
			return err
		}
		data.Failures = part.Items
	}
	return v.Render(w, "batch", "Batch", data)
}

func cancelBatch(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	_, err := v.API.CancelBatch(r.Context(), id)
	return v.Done(w, r, err, page.Path("batches", id), "cancelling")
}

// download passes on what the API answers, which writes the audit log. A form asks for it: whoever only follows a
// link has not looked.
func download(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	target := "/admin/v1/batches/" + url.PathEscape(r.PathValue("id")) + "/files/" + url.PathEscape(r.PathValue("which"))
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		return err
	}
	v.Pass(w, ask)
	return nil
}
