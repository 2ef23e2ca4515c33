package main

import (
	"bytes"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/console/pty"
	"github.com/modelgate/modelgate/internal/datadir"
)

// onTerminal runs a command on a terminal of 120 columns, and returns what it shows, and that without colours.
func onTerminal(t *testing.T, exit int, args ...string) (shown, plain string) {
	t.Helper()
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	terminal, written := pty.Open(t, 120)
	var stderr bytes.Buffer
	require.Equal(t, exit, execute(t.Context(), args, terminal, &stderr), stderr.String())
	shown = written()
	return shown, regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]").ReplaceAllString(shown, "")
}

// tables are command lines whose output is a table.
func tables() [][]string {
	return [][]string{{"requests"}, {"status"}, {"alerts"}, {"alerts", "history"}, {"audit"}, {"audit", "sinks"},
		{"approval"}, {"findings"}, {"quotas"}, {"usage"}, {"key", "list"}, {"token", "list"}, {"org", "list"},
		{"config", "list", "providers"}, {"batch", "list"},
		{"budget"}, {"cache"}, {"provider", "health"}}
}

func TestTablesFitATerminal(t *testing.T) {
	f := startFakeAdmin(t)
	long, at := strings.Repeat("a long sentence ", 12), time.Now().Add(-90*time.Minute)
	id := "7f0c9a52-3a53-4f0e-9d2b-0d9f0f6a7c11"
	f.objects = []configv1.Object{
		&configv1.Provider{Name: "openai", Vendor: "openai", Endpoint: "https://api.openai.com/v1"},
		&configv1.Key{Name: "key_01K8ABCDEFGHJKMNPQRSTVWXYZ", DisplayName: "billing", Models: strings.Fields(long),
			Organization: "acme", ExpiresAt: timestamppb.New(at.Add(48 * time.Hour))}}
	f.errors["Provider openai"] = long
	f.requests = []adminapi.Exchange{{ID: id, RequestID: id, Start: at, Key: "key_1", KeyName: "billing-service-eu",
		Model: "anthropic/claude-sonnet-4-5", Provider: "anthropic-eu", Status: 502, Outcome: "failed",
		ErrorCode: "upstream_connection_error", Attempts: 3, DurationMS: 12345, CostUSD: "0.000123", Priced: true}}
	f.findings.Items = []adminapi.Finding{{Kind: "guardrail", Rule: "personal/contact", Last: at,
		Examples: []string{id, id, id}}}
	f.audit = []adminapi.AuditEntry{{At: at, Actor: "ann@example.com", Address: "192.0.2.200", Action: "update",
		Kind: "Key", Name: "key_01K8ABCDEFGHJKMNPQRSTVWXYZ"}}
	f.sinks.Items = []adminapi.AuditSinkStatus{{Name: "siem", Kind: "syslog", Error: long, FailingSince: &at}}
	for _, args := range tables() {
		exit := exitOK
		if args[0] == "status" {
			exit = exitFailed // its provider has an error
		}
		_, plain := onTerminal(t, exit, args...)
		for line := range strings.Lines(plain) {
			if strings.HasPrefix(line, "! ") {
				continue // a sentence, which the terminal wraps
			}
			require.LessOrEqual(t, utf8.RuneCountInString(line)-1, 120, "%v: %s", args, line)
		}
	}
	shown, plain := onTerminal(t, exitOK, "requests")
	require.Contains(t, plain, "1h ago", "times are relative")
	require.Contains(t, plain, id, "an id can be copied")
	require.Contains(t, shown, "\x1b[31m502 failed", "an error is red")
	_, plain = onTerminal(t, exitOK, "audit")
	require.Contains(t, plain, "billing")
	require.NotContains(t, plain, "key_01", "a name, not an id")
	_, plain = onTerminal(t, exitOK, "key", "list")
	require.Regexp(t, `(?m)^billing .*in 1d .*key_01K8ABCDEFGHJKMNPQRSTVWXYZ$`, plain, "the name first, the id last")
	t.Setenv("NO_COLOR", "1")
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitOK, execute(t.Context(), []string{"requests"}, &stdout, &stderr))
	require.NotContains(t, stdout.String(), "\x1b")
	require.Contains(t, stdout.String(), at.UTC().Format(time.RFC3339), "a program reads the time itself")
}

// TestRunShowsALineARequest watches a gateway on a terminal, with --verbose and without.
func TestRunShowsALineARequest(t *testing.T) {
	t.Setenv("NO_COLOR", "1")
	data := filepath.Join(t.TempDir(), "data")
	for _, verbose := range []bool{false, true} {
		terminal, written := pty.Open(t, 120)
		r := &running{data: data, exit: make(chan int, 1)}
		r.start(t, terminal, "--verbose="+strconv.FormatBool(verbose))
		status, body := r.chat(t, r.file(t, datadir.FileKey))
		require.Equal(t, http.StatusOK, status, body)
		status, body = r.chat(t, "sk-mg-wrong")
		require.Equal(t, http.StatusUnauthorized, status, body)
		r.stop(t)
		shown := written()
		require.Regexp(t, `(?m)^\d\d:\d\d:\d\d 200 +\d+ms echo/echo +default +\d+ tokens$`, shown)
		require.Regexp(t, `(?m)^\d\d:\d\d:\d\d 401 +\d+ms /v1/chat/completions +- +invalid_api_key  [0-9a-f-]{36}$`, shown)
		if verbose {
			require.Contains(t, shown, "INFO")
		} else {
			require.Equal(t, 2, strings.Count(shown, "\n"), shown)
		}
		require.NotContains(t, shown, "main dispatch loop", "what Envoy does is detail")
	}
}

func TestWhatIsEmptyHasNoHeader(t *testing.T) {
	f := startFakeAdmin(t)
	f.plane.Clients = nil
	for _, args := range tables() {
		exit := exitOK
		if args[0] == "status" {
			exit = exitFailed // no data plane is connected
		}
		_, plain := onTerminal(t, exit, args...)
		require.NotRegexp(t, `(?m)^[A-Z]{3,} +[A-Z]{2,}`, plain, "%v", args)
		require.NotEmpty(t, plain, "%v", args)
	}
}
