package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/internal/etcdtest"
)

func TestAuditSinks(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	at := time.Unix(0, 0)
	f.sinks = adminapi.AuditSinks{Items: []adminapi.AuditSinkStatus{
		{Name: "disk", Kind: "file", Disabled: true},
		{Name: "ops", Kind: "webhook", Sequence: 12, DeliveredAt: &at},
		{Name: "siem", Kind: "syslog", Backlog: 7, Missing: 2, Error: "it cannot\nbe reached", FailingSince: &at},
	}}
	out, _ := c.run(t, exitOK, "audit", "sinks")
	require.Regexp(t, `(?m)^SINK +KIND +STATE +SEQUENCE +DELIVERED +BACKLOG +MISSING +ERROR$`, out)
	require.Regexp(t, `(?m)^disk +file +disabled +0 +never +0 +0 +-$`, out)
	require.Regexp(t, `(?m)^ops +webhook +ok +12 +1970-01-01T00:00:00Z +0 +0 +-$`, out)
	require.Regexp(t, `(?m)^siem +syslog +failing since 1970-01-01T00:00:00Z +0 +never +7 +2 +it cannot; be reached$`, out)
	require.Equal(t, []string{"GET /admin/v1/audit/sinks"}, f.asked)
	out, _ = c.run(t, exitOK, "audit", "sinks", "-o", "json")
	require.Contains(t, out, `"failing_since":"1970-01-01T00:00:00Z"`)
}

func TestAControlPlaneWritesItsAuditLogToAFileOfItsFlagAlone(t *testing.T) {
	etcd := etcdtest.New(t)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	args := controlPlaneArgs(t, etcd.Endpoint(), "kind: AuditSink\nname: disk\nfile: {path: "+path+"}\n")
	var stderr bytes.Buffer
	require.Equal(t, exitFailed, execute(t.Context(), args, io.Discard, &stderr))
	require.Contains(t, stderr.String(), "--audit-file "+path)

	ctx, stop := context.WithCancel(t.Context())
	exit := make(chan int, 1)
	stderr.Reset()
	go func() { exit <- execute(ctx, append(args, "--audit-file", path), io.Discard, &stderr) }()
	var written []byte
	require.Eventually(t, func() bool {
		written, _ = os.ReadFile(path)
		return len(exit) > 0 || bytes.HasSuffix(written, []byte("\n"))
	}, 30*time.Second, 50*time.Millisecond)
	stop()
	require.Equal(t, exitOK, <-exit, stderr.String())
	require.Contains(t, string(written), `"kind":"AuditSink","name":"disk"`)
	require.Contains(t, string(written), `"sequence":1,"hash":"`)
}
