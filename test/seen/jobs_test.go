package seen

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/usage"
	"github.com/modelgate/modelgate/test/harness"
)

// lines are how many requests the batch has, of which each fifth fails.
const lines = 20

// batch runs a batch of a key, whose requests count as others do.
func (s *scene) batch(t *testing.T) {
	owner := s.keys[0]
	c := s.As(owner.key)
	asks := map[string]*ask{}
	var all []string
	for i := range lines {
		kind := "unary"
		if i%5 == 4 {
			kind = "reject"
		}
		a := s.newAsk(t, kind, owner)
		a.user, a.kind = "", "batch of "+kind
		name := fmt.Sprint("line-", i)
		asks[name] = a
		all = append(all, harness.Line(name, "/v1/chat/completions", a.content()))
	}
	s.batchID = c.Begin(t, "/v1/chat/completions", all...)
	b := c.Await(t, s.batchID)
	require.Equal(t, "completed", b.Status)
	for name, r := range c.Results(t, b.OutputFileID) {
		asks[name].id = r.Response.RequestID
	}
	for name, r := range c.Results(t, b.ErrorFileID) {
		asks[name].id = r.Response.RequestID
	}
	for name, a := range asks {
		require.NotEmpty(t, a.id, name)
	}
}

// tune trains a model at the provider without a model.
func (s *scene) tune(t *testing.T) {
	c := s.As(s.keys[0].key)
	example := `{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":"two"}]}` + "\n"
	file := c.Upload(t, "fine-tune", strings.Repeat(example, 10))
	a := c.Do(t, http.MethodPost, "/v1/fine_tuning/jobs", fmt.Sprintf(`{"model":"echo/echo","training_file":%q}`, file))
	require.Equal(t, http.StatusOK, a.Status, "%s", a.Body)
	s.job = a.JSON(t)["id"].(string)
	harness.Eventually(t, "the model is trained", func() error {
		var job struct{ Status string }
		if err := c.Try(http.MethodGet, "/v1/fine_tuning/jobs/"+s.job, &job); err != nil {
			return err
		}
		if job.Status != "succeeded" {
			return fmt.Errorf("%s", job.Status)
		}
		return nil
	})
}

// batchCost is what the answered requests of the batch have cost, and how many they are.
func (s *scene) batchCost() (cost adminapi.BatchCost) {
	sum := int64(0)
	for _, a := range s.asks {
		if a.kind == "batch of unary" {
			cost.Requests++
			sum += a.cost()
		}
	}
	cost.USD = nano(sum)
	return cost
}

func nano(n int64) string { return usage.Nano(n).String() }

// compareJobs compares the batch and the job as the admin API tells of them.
func (s *scene) compareJobs(t *testing.T) {
	b, err := s.admin.Batch(t.Context(), s.batchID)
	require.NoError(t, err)
	require.NotNil(t, b.Cost)
	require.Equal(t, s.batchCost(), *b.Cost)
	var object harness.Batch
	require.NoError(t, json.Unmarshal(b.Object, &object))
	require.Equal(t, [3]int{lines, lines - lines/5, lines / 5},
		[3]int{object.Counts.Total, object.Counts.Completed, object.Counts.Failed})
	failures, err := s.admin.BatchFailures(t.Context(), s.batchID)
	require.NoError(t, err)
	require.Len(t, failures.Items, lines/5)
	for _, f := range failures.Items {
		require.Equal(t, http.StatusBadRequest, f.Status)
	}
	job, err := s.admin.FineTuningJob(t.Context(), s.job)
	require.NoError(t, err)
	require.Equal(t, "north", job.Organization)
	require.Equal(t, "succeeded", harness.Decode(t, string(job.Object))["status"])
}

// compareStatus compares what the command line tells of providers.
func (s *scene) compareStatus(t *testing.T) {
	out, _ := harness.Command(t, "", "status", "--data", s.Dir, "-o", "json") // which fails where something is wrong
	var status struct {
		Providers []struct {
			Name     string                   `json:"name"`
			Requests int64                    `json:"requests"`
			Errors   int64                    `json:"errors"`
			CostUSD  string                   `json:"cost_usd"`
			Health   *adminapi.ProviderHealth `json:"health"`
		} `json:"providers"`
	}
	require.NoError(t, json.NewDecoder(strings.NewReader(out)).Decode(&status), out)
	groups := s.groups("provider")
	found := map[string]bool{}
	for _, p := range status.Providers {
		found[p.Name] = true
		g := groups[p.Name]
		require.Equal(t, [2]int64{g.Requests, g.Errors}, [2]int64{p.Requests, p.Errors}, p.Name)
		if g.Requests > 0 {
			require.Equal(t, g.CostUSD, p.CostUSD, p.Name)
		}
		require.Equal(t, p.Name != usage.ResponseCache, p.Health != nil, p.Name)
	}
	for name := range groups {
		require.True(t, found[name], name)
	}
}

// compareJobPages compares the pages of the batch and the job.
func (v *visitor) compareJobPages(t *testing.T) {
	p, cost := v.page(t, "/batches/"+v.batchID), v.batchCost()
	facts := p.facts()
	require.Equal(t, "completed", facts["Status"])
	require.Equal(t, number(lines/5), facts["Failed"])
	require.Equal(t, dollars(t, cost.USD), facts["Cost"])
	require.Equal(t, number(cost.Requests), facts["Charged requests"])
	require.Contains(t, text(p.Node), fmt.Sprintf("%d of %d requests", lines, lines))
	require.Len(t, p.table(t, "Failed requests"), lines/5)
	links := 0
	p.each(func(n *html.Node) {
		if strings.HasPrefix(attr(n, "href"), "/requests?request_id=") {
			links++
			require.Len(t, v.page(t, attr(n, "href")).table(t, "Requests"), 1, "the link leads to the request alone")
		}
	})
	require.Equal(t, lines/5, links)

	job, err := v.admin.FineTuningJob(t.Context(), v.job)
	require.NoError(t, err)
	object := harness.Decode(t, string(job.Object))
	p = v.page(t, "/fine-tuning/"+v.job)
	facts = p.facts()
	require.Equal(t, "succeeded", facts["Status"])
	require.Equal(t, number(int64(object["trained_tokens"].(float64))), facts["Trained tokens"])
	require.Contains(t, facts["Tuned model"], object["fine_tuned_model"])
}
