package main

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/certs"
)

func TestAPeerThatDoesNotStartIsLeftOut(t *testing.T) {
	m := new(mockServer)
	a, err := newAnswers(profile{Interval: time.Second})
	require.NoError(t, err)
	m.current.Store(a)
	s := httptest.NewServer(m.handler())
	t.Cleanup(s.Close)
	missing := filepath.Join(t.TempDir(), "missing")
	b := &bench{
		options: options{envoy: missing, litellm: missing}, dir: t.TempDir(), progress: log.New(io.Discard, "", 0),
		mock: &mock{address: strings.TrimPrefix(s.URL, "http://")}, peers: []peer{{target: targetLiteLLM}},
	}
	called := false
	do := func(running []*target) error {
		called = true
		require.Empty(t, running)
		return nil
	}

	require.Contains(t, b.targets(false), targetLiteLLM)
	require.NoError(t, b.with(t.Context(), []string{targetLiteLLM}, do))
	require.True(t, called)
	require.Contains(t, b.peers[0].absent, "starting LiteLLM: ")
	require.Contains(t, b.peers[0].absent, "no such file")
	require.NotContains(t, b.targets(false), targetLiteLLM)

	require.ErrorContains(t, b.with(t.Context(), []string{targetEnvoy}, do), "starting Envoy alone: ")
}

func TestTheCertificateWaitsForTheFolderOfAIGateway(t *testing.T) {
	dir := t.TempDir()
	_, err := certs.Ensure(dir, nil, time.Now())
	require.NoError(t, err)
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorContains(t, addCertificate(ended, dir), "it makes no folder")

	folder := filepath.Join(dir, "runs", aiGatewayRun, "envoy-ai-gateway-resources")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, addCertificate(t.Context(), dir))
	text, err := os.ReadFile(filepath.Join(folder, "certificate.yaml"))
	require.NoError(t, err)
	var secret struct {
		Kind     string
		Metadata struct{ Name string }
		Data     map[string][]byte
	}
	require.NoError(t, json.Unmarshal(text, &secret))
	require.Equal(t, "Secret", secret.Kind)
	require.Equal(t, aiGatewayCertificate, secret.Metadata.Name)
	for name, file := range map[string]string{"tls.crt": certs.FileServer, "tls.key": certs.FileServerKey} {
		want, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, want, secret.Data[name])
	}
}
