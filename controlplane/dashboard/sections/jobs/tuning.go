package jobs

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/controlplane/dashboard/figures"
	"github.com/modelgate/modelgate/controlplane/dashboard/page"
)

// A tuningJob is a fine-tuning job, as far as it is shown.
type tuningJob struct {
	adminapi.TenantObject
	ID             string `json:"id"`
	Model          string `json:"model"`
	FineTunedModel string `json:"fine_tuned_model"`
	Status         string `json:"status"`
	CreatedAt      int64  `json:"created_at"`
	FinishedAt     int64  `json:"finished_at"`
	TrainedTokens  int64  `json:"trained_tokens"`
	Error          struct {
		Message string `json:"message"`
	} `json:"error"`
}

// A tuningEvent is an event of such a job.
type tuningEvent struct {
	CreatedAt int64          `json:"created_at"`
	Level     string         `json:"level"`
	Message   string         `json:"message"`
	Data      map[string]any `json:"data"`
}

func tuningJobOf(o adminapi.TenantObject) (j tuningJob, err error) {
	err = json.Unmarshal(o.Object, &j)
	j.TenantObject = o
	return j, err
}

func listTuningJobs(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	data, err := page.PartOf(r, func(o adminapi.ListOptions) (adminapi.Page[tuningJob], error) {
		part, err := v.API.FineTuningJobs(r.Context(), o)
		return objectsOf(part, tuningJobOf), err
	}, "organization", "project")
	if err != nil {
		return err
	}
	data.Live = slices.ContainsFunc(data.Items, func(j tuningJob) bool { return running(j.Status) })
	return v.Render(w, "fine-tuning", "Fine-tuning", data)
}

// A tuningData is what the page of one fine-tuning job shows.
type tuningData struct {
	Job    tuningJob
	Events []tuningEvent
	Loss   figures.Chart
	Live   bool
}

func showTuningJob(v *page.Visit, w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	object, err := v.API.FineTuningJob(r.Context(), id)
	if err != nil {
		return err
	}
	data := tuningData{}
	if data.Job, err = tuningJobOf(object); err != nil {
		return err
	}
	part, err := v.API.FineTuningEvents(r.Context(), id, adminapi.ListOptions{Limit: 100})
	if _, err = page.Unavailable(err); err != nil {
		return err
	}
	for _, raw := range part.Items {
		var e tuningEvent
		if json.Unmarshal(raw, &e) == nil {
			data.Events = append(data.Events, e)
		}
	}
	data.Loss, data.Live = lossOf(data.Events), running(data.Job.Status)
	return v.Render(w, "fine-tuning-job", "Fine-tuning job", data)
}

// lossOf draws the losses that the events of a job report, which come newest first.
func lossOf(events []tuningEvent) figures.Chart {
	type point struct {
		step   int64
		losses map[string]float64
	}
	var points []point
	var names []string
	for _, e := range slices.Backward(events) {
		p := point{int64(len(points) + 1), map[string]float64{}}
		for name, value := range e.Data {
			f, ok := value.(float64)
			switch {
			case ok && name == "step":
				p.step = int64(f)
			case ok && strings.Contains(name, "loss"):
				p.losses[name] = f
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		if len(p.losses) > 0 {
			points = append(points, p)
		}
	}
	slices.Sort(names)
	slices.SortStableFunc(points, func(a, b point) int { return int(a.step - b.step) })
	c := figures.Chart{Name: "Loss", Label: "Step"}
	for _, p := range points {
		c.X = append(c.X, p.step)
	}
	for _, name := range names {
		s := figures.Series{Name: strings.ReplaceAll(name, "_", " ")}
		for _, p := range points {
			var value *float64
			if f, ok := p.losses[name]; ok {
				value = &f
			}
			s.Values = append(s.Values, value)
		}
		c.Series = append(c.Series, s)
	}
	return c
}
