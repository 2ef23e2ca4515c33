package dashboard_test

import (
	"encoding/csv"
	"html"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	realledger "github.com/modelgate/modelgate/controlplane/ledger"
)

// withRequests returns a bench over a real ledger with some exchanges.
func withRequests(t *testing.T) (*bench, *realledger.Ledger) {
	t.Helper()
	l, err := realledger.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "ledger.db"), zap.NewNop())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	now := time.Now()
	one := func(id, outcome string, status uint32) *ledgerv1.Record {
		return &ledgerv1.Record{Id: id, RequestId: "req_" + id, Start: timestamppb.New(now.Add(-time.Minute)),
			End: timestamppb.New(now), Key: "key_1", Operation: "chat/completions", Model: "m", Provider: "echo",
			UpstreamModel: "m", Attempts: 1, Status: status, Outcome: outcome}
	}
	tried := one("tried", "failed", 502)
	tried.Attempts = 2
	tried.AttemptList = []*ledgerv1.Attempt{
		{Kind: "first", Provider: "echo", UpstreamModel: "m", Status: 503, Error: "status 503", DurationMs: 20_000},
		{Kind: "fallback", Provider: "other", UpstreamModel: "n", Status: 502, Error: "status 502", StartMs: 20_000,
			FirstByteMs: 500, DurationMs: 40_000}}
	tried.Details = &ledgerv1.Details{TraceId: []byte("0123456789abcdef"),
		Rules:    []string{"key/key_1 limit tokens per day"},
		Reserved: &ledgerv1.Amounts{Tokens: 512}, Settled: &ledgerv1.Amounts{Tokens: 77}, Plan: []string{"echo/m",
			"other/n"},
		Dropped: "seed,top_k"}
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{one("a/b", "finished", 200), tried,
		one("gone", "cancelled", 200)}))
	return newBenchOver(t, l), l
}

// part asks for a part of a page, as htmx does.
func (w *browser) part(path, target string) shown {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.bench.url+path, http.NoBody)
	require.NoError(w.t, err)
	r.Header.Set("HX-Request", "true")
	r.Header.Set("HX-Target", target)
	return w.do(r)
}

func TestARequestHasAPage(t *testing.T) {
	b, _ := withRequests(t)
	w := b.owner(t)
	p := w.get("/requests/tried")
	require.Equal(t, 200, p.status)
	require.NotContains(t, p.body, "style=")
	shown := text(p.body)
	for _, says := range []string{"req_tried", "30313233343536373839616263646566", "echo/m", "other/n", "seed,top_k",
		"status 503", "fallback", "20.00 s", "key/key_1 limit tokens per day", "512", "77", "The model has no price",
		"/admin/v1/requests/tried"} {
		require.Contains(t, shown, says)
	}
	require.Contains(t, p.body, `href="https://traces.example/30313233343536373839616263646566"`)
	require.Regexp(t, `<rect class="wrong" x="333" y="26" width="666"`, p.body)
	// An id may hold anything that a path can.
	require.Contains(t, w.get("/requests").body, `href="/requests/a%2Fb"`)
	require.Equal(t, 200, w.get("/requests/a%2Fb").status)
	require.Equal(t, 404, w.get("/requests/none").status)
}

func TestRequestsAreCountedChosenAndExported(t *testing.T) {
	b, _ := withRequests(t)
	w := b.owner(t)
	p := w.get("/requests?range=1h")
	for _, class := range []string{"Served 1", "Errors 1", "Rejected 0", "Cancelled 1"} {
		require.Contains(t, strings.Join(strings.Fields(text(p.body)), " "), class)
	}
	require.Contains(t, p.body, "2 attempts")
	links := regexp.MustCompile(`href="(/requests\?[^"]*outcome=error[^"]*)"`).FindStringSubmatch(p.body)
	require.NotNil(t, links)
	p = w.get(strings.ReplaceAll(links[1], "&amp;", "&"))
	require.Contains(t, p.body, "/requests/tried")
	require.NotContains(t, p.body, "/requests/gone")
	require.Contains(t, strings.Join(strings.Fields(text(p.body)), " "), "Cancelled 1", "the others can still be chosen")

	p = w.get("/requests.csv?range=1h&outcome=cancelled")
	require.Equal(t, "text/csv; charset=utf-8", p.header.Get("Content-Type"))
	rows, err := csv.NewReader(strings.NewReader(p.body)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 2)
	require.Equal(t, "gone", rows[1][0])
	require.Equal(t, 3, strings.Count(w.get("/requests.jsonl?range=1h").body, "\n"))
	require.Equal(t, 0, strings.Count(w.get("/requests.jsonl?range=1h&key=nobody").body, "\n"))
	// What is wrong is said, and nothing lost.
	p = w.get("/requests?status=many&model=m")
	require.Equal(t, 200, p.status)
	require.Contains(t, text(p.body), "Invalid type for 'status'")
	require.Contains(t, p.body, `value="many"`)
}

// No sum knows a threshold. To count what is above one, each request is looked at. The rows do not wait for that.
func TestWhatTakesLongToCountIsCountedAfterTheRows(t *testing.T) {
	b, _ := withRequests(t)
	w := b.owner(t)
	const slow = "/requests?range=30d&min_duration_ms=1000"
	p := w.get(slow)
	require.Contains(t, p.body, `href="/requests/tried"`)
	require.NotContains(t, p.body, "aria-label=\"Outcome\"")
	later := regexp.MustCompile(`<section class="card" id="outcomes" hx-get="([^"]+)" hx-trigger="load"`).
		FindStringSubmatch(p.body)
	require.NotNil(t, later)
	counts := w.part(html.UnescapeString(later[1]), "outcomes")
	require.Equal(t, 200, counts.status)
	require.Regexp(t, `Errors\s+1`, text(counts.body))
	require.NotContains(t, counts.body, `id="rows"`)
	require.NotContains(t, counts.body, "hx-trigger", "once")

	waits := regexp.MustCompile(`href="([^"]+)">Wait for the counts`).FindStringSubmatch(p.body)
	require.NotNil(t, waits, "for browsers without JavaScript")
	require.Regexp(t, `Errors\s+1`, text(w.get(html.UnescapeString(waits[1])).body))
	require.Regexp(t, `Errors\s+1`, text(w.get("/requests?min_duration_ms=1000").body), "a day is counted at once")
}

func TestLiveRowsAreSentOnlyWhenTheyChange(t *testing.T) {
	b, l := withRequests(t)
	w := b.owner(t)
	p := w.get("/requests?live=true")
	poll := regexp.MustCompile(`hx-get="([^"]+)"`).FindStringSubmatch(p.body)
	require.NotNil(t, poll)
	ask := func() shown { return w.part(html.UnescapeString(poll[1]), "rows") }
	require.Equal(t, 204, ask().status)
	require.NoError(t, l.Record(t.Context(), []*ledgerv1.Record{{Id: "new", Start: timestamppb.Now(),
		Outcome: "finished"}}))
	p = ask()
	require.Equal(t, 200, p.status)
	require.Contains(t, p.body, "/requests/new")
	require.NotContains(t, p.body, "<html", "only the rows")
	require.NotContains(t, p.body, "data-chart")
	poll = regexp.MustCompile(`hx-get="([^"]+)"`).FindStringSubmatch(p.body)
	require.Equal(t, 204, ask().status)
}

func TestAFilterThatNamesSomethingUnknownSaysSo(t *testing.T) {
	b, _ := withRequests(t)
	w := b.owner(t)
	b.put(t, &configv1.Organization{Name: "acme"})
	for _, path := range []string{"/requests", "/usage"} {
		require.Contains(t, text(w.get(path+"?organization=acne").body), "There is no Organization acne.", path)
		require.Contains(t, text(w.get(path+"?provider=ecko").body), "There is no Provider ecko.", path)
		require.NotContains(t, text(w.get(path+"?organization=acme").body), "There is no", path)
	}
}
