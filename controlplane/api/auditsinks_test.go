package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/controlplane/audit"
	"github.com/modelgate/modelgate/controlplane/audit/auditchain"
	"github.com/modelgate/modelgate/controlplane/audit/auditship"
	"github.com/modelgate/modelgate/internal/configstore"
	"github.com/modelgate/modelgate/internal/secret"
)

func TestOnlyWhoMayDoEverythingChangesASinkOfTheAuditLog(t *testing.T) {
	b := newBench(t)
	var err error
	b.config.Allowed, err = b.config.Allowed.WithAuditFiles([]string{"/var/log/audit.jsonl"})
	require.NoError(t, err)
	operator := as(b.makeToken(t, `{"display_name":"ops","scopes":["config:read","config:write","audit:read",
		"admins:write","status:read"]}`).Token)
	const sink = `{"name":"ops","webhook":{"url":"https://siem.example/"},` +
		`"credential":{"value":"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}`
	const path = "/admin/v1/auditsinks/ops"
	refused := func(a answer) { t.Helper(); requireError(t, a, 403, "insufficient_permissions", "*") }
	refused(b.do(t, "PUT", path, sink, operator))
	refused(b.do(t, "POST", "/admin/v1/auditsinks", sink, operator))
	refused(b.do(t, "POST", "/admin/v1/apply", `[{"kind":"AuditSink",`+sink[1:]+`]`, operator))

	made := b.do(t, "PUT", path, sink)
	require.Equal(t, 201, made.status, made.body)
	require.NotContains(t, made.body, "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	require.Equal(t, 200, b.do(t, "GET", path, "", operator).status)
	refused(b.do(t, "PUT", path, `{"name":"ops","disabled":true,"webhook":{"url":"https://siem.example/"},`+
		`"credential":{"sealed":"[redacted]"}}`, operator))
	refused(b.do(t, "DELETE", path, "", operator))
	refused(b.do(t, "POST", "/admin/v1/rollback/auditsinks/ops?revision=1", "", operator))

	// What files do not name is pruned, but for sinks.
	a := b.do(t, "POST", "/admin/v1/apply?prune=all", `[{"kind":"Organization","name":"acme"}]`, operator)
	require.Equal(t, 200, a.status, a.body)
	require.Equal(t, 200, b.do(t, "GET", path, "").status)

	file := func(path string) string {
		return fmt.Sprintf(`{"name":"disk","file":{"path":%q}}`, path)
	}
	requireError(t, b.do(t, "PUT", "/admin/v1/auditsinks/disk", file("/etc/passwd")), 400, "invalid_object",
		"--audit-file")
	require.Equal(t, 201, b.do(t, "PUT", "/admin/v1/auditsinks/disk", file("/var/log/audit.jsonl")).status)
}

// failing are sinks of which one fails.
type failing struct{ since time.Time }

func (f failing) Sinks(context.Context) ([]adminapi.AuditSinkStatus, error) {
	return []adminapi.AuditSinkStatus{{Name: "ops", Kind: "webhook", Sequence: 7, Backlog: 3, DeliveredAt: &f.since,
		Error: "it cannot be reached", FailingSince: &f.since}}, nil
}

func TestHowSinksAreIsTold(t *testing.T) {
	b := newBench(t)
	withLedger(t, b)
	require.Contains(t, b.do(t, "GET", "/admin/v1/audit/sinks", "").body, `{"items":[]}`)

	b = newBench(t)
	withLedger(t, b)
	b.config.Sinks = failing{time.Now().Add(-16 * time.Minute)}
	all, err := b.client.AuditSinks(t.Context())
	require.NoError(t, err)
	require.Len(t, all.Items, 1)
	require.EqualValues(t, 3, all.Items[0].Backlog)
	found, err := b.client.Attention(t.Context())
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	require.Equal(t, adminapi.AttentionAuditSink, found.Items[0].Kind)
	require.Equal(t, "AuditSink ops", found.Items[0].Object)
}

func TestWhatOfTheChainIsOnItsWayToTheLedger(t *testing.T) {
	b := newBench(t)
	pending := func(sequence int64, want bool) {
		t.Helper()
		got, err := b.audit.Pending(t.Context(), sequence)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	head := func(want int64) {
		t.Helper()
		got, err := b.audit.HeadSequence(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	head(0)
	pending(1, false)
	b.enter(t, 3)
	head(3)
	pending(1, true)
	b.ship(t, b.audit)
	pending(3, false)
	b.enter(t, 1)
	pending(3, false)
	pending(4, true)
	b.ship(t, b.audit)
	pending(4, false)
	_, err := b.etcd.Put(t.Context(), configstore.RestoringKey, "x")
	require.NoError(t, err)
	pending(4, true)
}

// A sinkPlane is a control plane with one sink.
type sinkPlane struct{ sink *configv1.AuditSink }

func (p sinkPlane) State() (configstore.State, bool) {
	return configstore.State{Objects: map[string]map[string]configv1.Object{
		"AuditSink": {p.sink.GetName(): p.sink}}}, true
}

func (sinkPlane) SinkCredential(*configv1.AuditSink) (secret.Value, error) {
	return secret.Value{}, nil
}

func TestWhatWritersOfSeveralControlPlanesWriteIsInTheFileInOrder(t *testing.T) {
	b := newBench(t)
	ledger := withLedger(t, b)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	list, err := b.config.Allowed.WithAuditFiles([]string{path})
	require.NoError(t, err)
	_, err = b.etcd.Put(t.Context(), configstore.RootKey, "x")
	require.NoError(t, err)
	var logs []*audit.Log
	var services []*auditship.Service
	ctx, cancel := context.WithCancel(t.Context())
	var running, writing sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for range 3 {
		l := audit.New(b.etcd, ledger, nil, zap.NewNop())
		s, err := auditship.New(auditship.Options{Etcd: b.etcd, Ledger: ledger, Chain: l, Allowed: list, Log: zap.NewNop(),
			Plane:    sinkPlane{&configv1.AuditSink{Name: "disk", File: &configv1.AuditFile{Path: path}}},
			Interval: 5 * time.Millisecond})
		require.NoError(t, err)
		logs, services = append(logs, l), append(services, s)
		running.Go(func() { _ = l.Run(ctx) })
		running.Go(func() { _ = s.Run(ctx) })
	}
	const each = 60
	for i, l := range logs {
		writing.Go(func() {
			for n := range each {
				if err := l.Audit(ctx, adminapi.AuditEntry{Actor: fmt.Sprint("plane ", i), Action: "sign_in",
					Name: fmt.Sprint(n)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	require.Eventually(t, func() bool {
		all, err := services[0].Sinks(t.Context())
		return err == nil && all[0].Sequence == 3*each && all[0].Backlog == 0
	}, 30*time.Second, 20*time.Millisecond)
	all, err := services[1].Sinks(t.Context())
	require.NoError(t, err)
	require.Zero(t, all[0].Missing)

	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	v := auditchain.NewVerifier("")
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var e adminapi.AuditEntry
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		v.Add(e)
	}
	found := v.End(b.head(t))
	require.True(t, found.Intact, "%+v", found.Break)
	require.EqualValues(t, 3*each, found.Chained)
}
