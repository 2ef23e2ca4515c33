package main

import (
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
