package browser

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/fakeprovider"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// TestPictures makes the pictures of the documentation anew, in the folder that $PICTURES names ("make screenshots")
// or in one that is removed. They show a gateway with a day of traffic, which is the same in every run.
func TestPictures(t *testing.T) {
	into := cmp.Or(os.Getenv("PICTURES"), t.TempDir())
	testenv.Long(t)
	folder, browser, node := installed(t)
	vendor := httptest.NewServer(fakeprovider.Handler())
	t.Cleanup(vendor.Close)
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(down.Close)
	dir := t.TempDir()
	g := harness.Run(t, dir)
	line := g.WaitFor(t, "/sign-in/first?token=")
	g.Apply(t, scene(vendor.URL, down.URL)...)
	var keys []string
	for _, name := range []string{"Checkout", "Search", "Support"} {
		made := harness.Decode(t, harness.Must(t, "", "key", "create", "--data", dir, "--name", name,
			"--organization", "acme",
			"--project", "shop", "-o", "json"))
		keys = append(keys, made["id"].(string))
	}
	book, err := ledger.Open(t.Context(), "sqlite://"+filepath.Join(dir, "ledger.db"), zap.NewNop())
	require.NoError(t, err)
	require.NoError(t, book.Record(t.Context(), aDay(time.Now(), keys)))
	require.NoError(t, book.Close())

	cmd := exec.CommandContext(t.Context(), node, filepath.Join(folder, "pictures.mjs"))
	cmd.Env = append(environment(g, line, browser), "PICTURES="+into)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// scene is the configuration that the pictures show.
func scene(vendor, down string) []configv1.Object {
	credential := func() *configv1.Credential {
		return &configv1.Credential{Source: &configv1.Credential_Value{Value: "of-nobody"}}
	}
	return []configv1.Object{
		&configv1.Organization{Name: "acme", DisplayName: "Acme",
			Budgets: []*configv1.Budget{{Unit: configv1.Unit_DAY, Usd: "40"}}},
		&configv1.Project{Name: "acme/shop", DisplayName: "Shop"},
		&configv1.Provider{Name: "openai", Vendor: "openai", Endpoint: vendor + "/v1", Credential: credential()},
		&configv1.Provider{Name: "anthropic", Vendor: "compatible", Endpoint: down + "/v1", Credential: credential()},
		&configv1.Model{Name: "assistant", Targets: []*configv1.Target{{Provider: "anthropic", Model: "claude-sonnet-4-5"},
			{Provider: "openai", Model: "gpt-4o", Priority: 1}}},
	}
}

// aDay is the traffic of the last day, by some keys: the more, the nearer to noon.
func aDay(now time.Time, keys []string) (records []*ledgerv1.Record) {
	dice := rand.New(rand.NewPCG(1, 2))
	targets := [][2]string{{"anthropic", "claude-sonnet-4-5"}, {"openai", "gpt-4o"}, {"openai", "gpt-4o-mini"}}
	for ago := 24 * time.Hour; ago > time.Minute; ago -= time.Minute {
		hour := float64((24*time.Hour - ago).Hours())
		if dice.Float64() > 0.5+0.35*math.Sin(hour/24*2*math.Pi-1) {
			continue
		}
		i := len(records)
		target := targets[dice.IntN(len(targets))]
		start := now.Add(-ago)
		took := time.Duration(600+dice.IntN(2400)) * time.Millisecond
		input, output := int64(400+dice.IntN(2600)), int64(80+dice.IntN(700))
		r := &ledgerv1.Record{Id: fmt.Sprintf("seed-%04d", i), RequestId: fmt.Sprintf("req_%04d", i),
			Start: timestamppb.New(start), End: timestamppb.New(start.Add(took)), Organization: "acme", Project: "shop",
			Key: keys[dice.IntN(len(keys))], Operation: "chat/completions",
			Model: target[0] + "/" + target[1], Provider: target[0], UpstreamModel: target[1], Attempts: 1, Stream: i%2 == 0,
			Status: http.StatusOK, Outcome: "finished", FirstByteMs: took.Milliseconds() / 4, InputTokens: input,
			OutputTokens: output, CostNanoUsd: input*2500 + output*10_000, Priced: true, PriceVersion: "1"}
		if i%23 == 0 {
			r.Status, r.Outcome, r.ErrorCode = http.StatusServiceUnavailable, "failed", "provider_error"
			r.OutputTokens, r.CostNanoUsd = 0, 0
		}
		records = append(records, r)
	}
	return records
}

// environment is what the programs in node/ are told.
func environment(g *harness.Gateway, line, browser string) []string {
	link := strings.Fields(line[strings.Index(line, "http"):])[0]
	return append(harness.CleanEnv(), "DASHBOARD_URL="+g.Admin, "DASHBOARD_LINK="+link, "GATEWAY_URL="+g.URL,
		"GATEWAY_KEY="+g.Key, "NODE_EXTRA_CA_CERTS="+filepath.Join(g.Dir, "ca.crt"), "CHROMIUM="+browser)
}

// installed returns the folder of the programs, Chromium and Node. Without them it skips the test.
func installed(t *testing.T) (folder, browser, node string) {
	t.Helper()
	folder, browser = filepath.Join(testenv.Root(t), "test", "browser", "node"), chromium(t)
	node, err := exec.LookPath("node")
	if err != nil {
		testenv.Missing(t, "Node", "test/browser/setup.sh")
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules", ".installed")); err != nil {
		testenv.Missing(t, "playwright-core", "test/browser/setup.sh")
	}
	return folder, browser, node
}
