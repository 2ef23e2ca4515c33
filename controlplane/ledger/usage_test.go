package ledger_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger"
)

// seed keeps a few exchanges of two tenants on three days.
func seed(t testing.TB, l *ledger.Ledger) {
	at := func(at time.Time) func(*ledgerv1.Record) {
		return func(r *ledgerv1.Record) { r.Start, r.End = timestamppb.New(at), timestamppb.New(at.Add(2*time.Second)) }
	}
	of := func(organization, project, key, model string) func(*ledgerv1.Record) {
		return func(r *ledgerv1.Record) {
			r.Organization, r.Project, r.Key, r.Model = organization, project, key, model
		}
	}
	day := noon.Truncate(24 * time.Hour)
	keep(t, l,
		rec("a", at(day.Add(time.Hour))),
		rec("b", at(day.Add(2*time.Hour)), of("acme", "app", "key_2", "claude"),
			func(r *ledgerv1.Record) { r.User, r.CostNanoUsd = "u2", 60_000_000 }),
		rec("c", at(day.Add(2*time.Hour+time.Minute)), of("umbrella", "web", "key_3", "gpt"),
			func(r *ledgerv1.Record) { r.Batch, r.Requests = true, 5 }),
		rec("d", at(day.Add(-47*time.Hour)), of("", "", "key_4", "gpt")),
		rec("e", at(day.Add(3*time.Hour)), func(r *ledgerv1.Record) { r.Operation, r.OutputTokens = "embeddings", 0 }),
		rec("f", at(day.Add(3*time.Hour)), func(r *ledgerv1.Record) { r.Operation, r.Images = "images/generations", 3 }),
		rec("g", at(day.Add(3*time.Hour)), func(r *ledgerv1.Record) {
			r.Outcome, r.Status, r.InputTokens, r.CachedTokens, r.OutputTokens, r.CostNanoUsd = "rejected", 429, 0, 0, 0, 0
		}),
	)
}

func ask(t testing.TB, l *ledger.Ledger, resource, query string, may ledger.Restriction) string {
	t.Helper()
	body, err := l.Usage(context.Background(), resource, query, may)
	require.NoError(t, err, query)
	return string(body)
}

func TestUsageHasTheShapeOfOpenAIs(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		seed(t, l)
		day := noon.Truncate(24 * time.Hour).Unix()
		acme := ledger.Restriction{Organization: "acme"}
		require.JSONEq(t, fmt.Sprintf(`{"object":"page","has_more":false,"next_page":null,"data":[
			{"object":"bucket","start_time":%d,"end_time":%d,"results":[]},
			{"object":"bucket","start_time":%d,"end_time":%d,"results":[
				{"object":"organization.usage.completions.result","input_tokens":200,"output_tokens":20,"input_cached_tokens":80,"input_cache_write_tokens":0,
				 "input_audio_tokens":0,"output_audio_tokens":0,"num_model_requests":2,"project_id":null,"user_id":null,"api_key_id":null,"model":null,"batch":null}]}]}`,
			day-86400, day, day, day+86400), ask(t, l, "completions", fmt.Sprintf("start_time=%d&end_time=%d", day-86400,
			day+86400), acme))

		grouped := ask(t, l, "completions",
			fmt.Sprintf(
				"start_time=%d&group_by[]=project_id&group_by[]=model&group_by[]=batch&group_by[]=api_key_id&group_by[]=user_id",
				day), acme)
		require.JSONEq(t,
			fmt.Sprintf(`{"object":"page","has_more":false,"next_page":null,"data":[{"object":"bucket","start_time":%d,"end_time":%d,"results":[
				{"object":"organization.usage.completions.result","input_tokens":100,"output_tokens":10,"input_cached_tokens":40,"input_cache_write_tokens":0,
				 "input_audio_tokens":0,"output_audio_tokens":0,"num_model_requests":1,"project_id":"app","user_id":"u2","api_key_id":"key_2","model":"claude","batch":false},
				{"object":"organization.usage.completions.result","input_tokens":100,"output_tokens":10,"input_cached_tokens":40,"input_cache_write_tokens":0,
				 "input_audio_tokens":0,"output_audio_tokens":0,"num_model_requests":1,"project_id":"web","user_id":"u1","api_key_id":"key_1","model":"gpt","batch":false}]}]}`,
				day, day+86400), grouped)

		require.JSONEq(t,
			fmt.Sprintf(`{"object":"page","has_more":false,"next_page":null,"data":[{"object":"bucket","start_time":%d,"end_time":%d,"results":[
				{"object":"organization.costs.result","amount":{"value":0.06,"currency":"usd"},"line_item":"claude","project_id":"app","api_key_id":null,"quantity":null},
				{"object":"organization.costs.result","amount":{"value":0.000003,"currency":"usd"},"line_item":"gpt","project_id":"web","api_key_id":null,"quantity":null}]}]}`,
				day, day+86400), ask(t, l, "costs", fmt.Sprintf("start_time=%d&group_by=project_id&group_by=line_item", day),
				acme))

		for _, resource := range []string{"completions", "embeddings", "costs"} {
			require.Contains(t, ask(t, l, resource, fmt.Sprintf("start_time=%d&group_by=organization_id", day), acme),
				`"organization_id":"acme"`, resource)
		}

		for resource, want := range map[string]string{
			"embeddings": `"input_tokens":100,"num_model_requests":1`, "images": `"images":3,"num_model_requests":1`,
		} {
			require.Contains(t, ask(t, l, resource, fmt.Sprintf("start_time=%d", day), acme), want)
		}
		for _, resource := range []string{"moderations", "audio_speeches", "audio_transcriptions"} {
			require.Contains(t, ask(t, l, resource, fmt.Sprintf("start_time=%d", day), acme), `"results":[]`)
		}
	})
}

// requestsOf adds up the requests of all pages.
func requestsOf(t testing.TB, l *ledger.Ledger, query string, may ledger.Restriction) (requests, buckets int) {
	t.Helper()
	for page := ""; ; {
		var p struct {
			Data []struct {
				Start   int64 `json:"start_time"`
				Results []struct {
					Requests int `json:"num_model_requests"`
				}
			}
			More bool    `json:"has_more"`
			Next *string `json:"next_page"`
		}
		require.NoError(t, json.Unmarshal([]byte(ask(t, l, "completions", query+page, may)), &p))
		for _, b := range p.Data {
			buckets++
			for _, r := range b.Results {
				requests += r.Requests
			}
		}
		require.Equal(t, p.More, p.Next != nil)
		if !p.More {
			return requests, buckets
		}
		page = "&page=" + url.QueryEscape(*p.Next)
	}
}

func TestUsageByWidthAndFilter(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		seed(t, l)
		start := noon.Truncate(24*time.Hour).AddDate(0, 0, -2).Unix()
		for name, c := range map[string]struct {
			query string
			may   ledger.Restriction
			want  int
		}{
			"all":                            {"", ledger.Restriction{}, 8},
			"a tenant":                       {"", ledger.Restriction{Organization: "acme"}, 2},
			"a project":                      {"", ledger.Restriction{Organization: "acme", Project: "app"}, 1},
			"a project of another of a name": {"", ledger.Restriction{Organization: "umbrella", Project: "app"}, 0},
			"a key":                          {"", ledger.Restriction{Key: "key_4"}, 1},
			"a foreign key is asked for":     {"&api_key_ids=key_3", ledger.Restriction{Organization: "acme"}, 0},
			"a foreign project is asked for": {"&project_ids=web", ledger.Restriction{Organization: "acme", Project: "app"}, 0},
			"keys":                           {"&api_key_ids[]=key_1&api_key_ids[]=key_2", ledger.Restriction{}, 2},
			"projects":                       {"&project_ids[0]=web&project_ids[1]=app", ledger.Restriction{}, 7},
			"users":                          {"&user_ids=u2", ledger.Restriction{}, 1},
			"a foreign user":                 {"&user_ids=u2", ledger.Restriction{Organization: "umbrella"}, 0},
			"models":                         {"&models=claude", ledger.Restriction{}, 1},
			"batches":                        {"&batch=true", ledger.Restriction{}, 5},
			"not batches":                    {"&batch=false", ledger.Restriction{}, 3},
			"grouped":                        {"&group_by=model&group_by=user_id", ledger.Restriction{}, 8},
			"what SQL would make of it":      {"&models=" + url.QueryEscape("x' OR '1'='1"), ledger.Restriction{}, 0},
		} {
			t.Run(name, func(t *testing.T) {
				for width, most := range map[string]int{"1d": 3, "1d&limit=1": 3, "1h&limit=25": 61, "1m&limit=1440": 3631} {
					requests, buckets := requestsOf(t, l, fmt.Sprintf("start_time=%d&bucket_width=%s%s", start, width, c.query),
						c.may)
					require.Equal(t, c.want, requests, width)
					require.Equal(t, most, buckets, "%s: empty ones are there, too", width)
				}
			})
		}
	})
}

func TestPagesAreStable(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		l := open(t, dsn)
		seed(t, l)
		var first struct {
			Next string `json:"next_page"`
		}
		start := fmt.Sprint("start_time=", noon.AddDate(0, 0, -2).Unix(), "&limit=2")
		require.NoError(t, json.Unmarshal([]byte(ask(t, l, "completions", start, ledger.Restriction{})), &first))
		second := ask(t, l, "completions", start+"&page="+first.Next, ledger.Restriction{})
		l.SetNow(func() time.Time { return noon.AddDate(0, 0, 5) })
		require.Equal(t, second, ask(t, l, "completions", start+"&page="+first.Next, ledger.Restriction{}),
			"time goes on, and the last page does not")
	})
}

func TestAWrongQueryIsToldByItsParameter(t *testing.T) {
	l := open(t, "sqlite://"+t.TempDir()+"/ledger.db")
	for query, want := range map[string]string{
		"":                                         "start_time missing_required_parameter",
		"start_time=yesterday":                     "start_time invalid_type",
		"start_time=-5":                            "start_time integer_below_min_value",
		"start_time=253370764801":                  "start_time integer_above_max_value",
		"start_time=9999999999999":                 "start_time integer_above_max_value",
		"start_time=5&end_time=5":                  "end_time invalid_value",
		"start_time=1&start_time=2":                "start_time invalid_value",
		"start_time=1&bucket_width=1w":             "bucket_width invalid_value",
		"start_time=1&limit=0":                     "limit integer_below_min_value",
		"start_time=1&limit=32":                    "limit integer_above_max_value",
		"start_time=1&limit=all":                   "limit invalid_type",
		"start_time=1&batch=maybe":                 "batch invalid_type",
		"start_time=1&group_by=organization":       "group_by invalid_value",
		"start_time=1&group_by[]=line_item":        "group_by invalid_value",
		"start_time=1&page=x":                      "page invalid_value",
		"start_time=1&page=AAAAAAAAAAAAAAAAAAAAAQ": "page invalid_value",
		"start_time=1&project_ids=":                "project_ids invalid_value",
		"start_time=1&color=red":                   "color unknown_parameter",
		"start_time=1&models=" + strings.Repeat("m&models=", 101) + "m": "models array_above_max_length",
		"a;b":   " ",
		"a=%zz": " ",
	} {
		_, err := l.Usage(t.Context(), "completions", query, ledger.Restriction{})
		e, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, "%s: %v", query, err)
		require.Equal(t, 400, e.Status)
		require.Equal(t, want, e.Param+" "+string(e.Code), query)
	}
	for _, query := range []string{"start_time=1&bucket_width=1h", "start_time=1&user_ids=a",
		"start_time=1&group_by=model", "start_time=1&limit=181"} {
		_, err := l.Usage(t.Context(), "costs", query, ledger.Restriction{})
		require.Error(t, err, query)
	}
	_, err := l.Usage(t.Context(), "costs", "start_time=1&limit=180&bucket_width=1d&api_key_ids=a&group_by=api_key_id",
		ledger.Restriction{})
	require.NoError(t, err)
	_, err = l.Usage(t.Context(), "vector_stores", "start_time=1", ledger.Restriction{})
	e, _ := errors.AsType[*openai.Error](err)
	require.Equal(t, 404, e.Status)
}

func FuzzUsageQuery(f *testing.F) {
	l := open(f, "sqlite://"+f.TempDir()+"/ledger.db")
	f.Add("completions", "start_time=1&limit=2&group_by[]=model&page=AAAAAAAAAAAAAAAAAAAAAQ&user_ids=%00")
	f.Add("costs", "start_time=1700000000&group_by=line_item&project_ids[0]=a")
	f.Fuzz(func(t *testing.T, resource, query string) {
		body, err := l.Usage(t.Context(), resource, query, ledger.Restriction{})
		if err == nil {
			require.True(t, json.Valid(body))
			return
		}
		_, ok := errors.AsType[*openai.Error](err)
		require.True(t, ok, "%q: %v", query, err)
	})
}

func TestTheServiceRestrictsWhatItsCallerSays(t *testing.T) {
	l := open(t, "sqlite://"+t.TempDir()+"/ledger.db")
	seed(t, l)
	s := ledger.NewService(l)
	query := fmt.Sprint("start_time=", noon.Truncate(24*time.Hour).AddDate(0, 0, -2).Unix())
	for want, r := range map[string]*ledgerv1.UsageRequest{
		`"amount":{"value":0.060004,`: {Resource: "costs", Query: query, All: true},
		`"amount":{"value":0.060003,`: {Resource: "costs", Query: query, Organization: "acme"},
		`"amount":{"value":0.000001,`: {Resource: "costs", Query: query, Key: "key_4"},
		`"start_time"`:                {Resource: "costs", Organization: "acme"},
		`insufficient_permissions`:    {Resource: "costs", Query: query, Project: "web"},
	} {
		answer, err := s.Usage(t.Context(), r)
		require.NoError(t, err)
		require.Contains(t, string(answer.GetBody()), want)
		require.Equal(t, strings.Contains(want, "amount"), answer.GetStatus() == 200)
	}
	_, err := s.Record(t.Context(), &ledgerv1.RecordRequest{Records: []*ledgerv1.Record{rec("a"), rec("z")}})
	require.NoError(t, err)
	spent, err := s.Spent(t.Context(), &ledgerv1.SpentRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, spent.GetSpent())
	require.NoError(t, l.Close())
	_, err = s.Record(t.Context(), &ledgerv1.RecordRequest{Records: []*ledgerv1.Record{rec("y")}})
	require.Error(t, err)
	_, err = s.Usage(t.Context(), &ledgerv1.UsageRequest{Resource: "costs", Query: query, All: true})
	require.Error(t, err)
	_, err = s.Spent(t.Context(), &ledgerv1.SpentRequest{})
	require.Error(t, err)
}
