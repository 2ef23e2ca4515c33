package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	adminapi "github.com/modelgate/modelgate/api/admin"
)

// A watcher reads what a command prints, does something each time, and presses Ctrl-C when it has seen a text.
type watcher struct {
	shown bytes.Buffer
	each  func()
	text  string
	stop  context.CancelFunc
}

func (w *watcher) Write(p []byte) (int, error) {
	w.each()
	defer func() {
		if strings.Contains(w.shown.String(), w.text) {
			w.stop()
		}
	}()
	return w.shown.Write(p)
}

func watch(t *testing.T, each func(), text string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := &watcher{each: each, text: text, stop: cancel}
	var stderr bytes.Buffer
	require.Equal(t, exitOK, execute(ctx, args, w, &stderr), stderr.String())
	require.Contains(t, w.shown.String(), text)
	return w.shown.String()
}

func TestRequestsAreFollowed(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	at := time.Now()
	request := func(id string, status int) adminapi.Exchange {
		return adminapi.Exchange{ID: id, RequestID: "r-" + id, Start: at, KeyName: "ci", Model: "smart", Provider: "openai",
			Status: status, Outcome: "finished"}
	}
	f.requests = []adminapi.Exchange{request("x3", 200), request("x2", 200), request("x1", 200)}
	added := false
	out := watch(t, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !added {
			added = true
			f.requests = append([]adminapi.Exchange{request("x5", 502), request("x4", 200)}, f.requests...)
		}
	}, "r-x5", "requests", "--follow", "--every", "10ms", "--limit", "2", "--key", "ci")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.GreaterOrEqual(t, len(lines), 4, out)
	for i, id := range []string{"x2", "x3"} {
		require.NotContains(t, lines[i], "r-"+id, "a request that was served needs no id")
		require.Contains(t, lines[i], " 200 ")
	}
	require.Contains(t, lines[len(lines)-1], "r-x5")
	require.Equal(t, 1, strings.Count(out, "r-x5"))
	require.Contains(t, strings.Join(f.asked, "\n"), "key_name=ci")
	out = watch(t, func() {}, `"id":"x5"`, "requests", "--follow", "--every", "10ms", "-o", "json")
	require.Equal(t, 5, strings.Count(out, "\n"), "a document a line")
	c.run(t, exitUsage, "requests", "--follow", "r-x5")
	c.run(t, exitUsage, "requests", "--follow", "--every", "0s")
}

func TestStatusIsWatched(t *testing.T) {
	f := startFakeAdmin(t)
	out := watch(t, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.notReady = true
	}, "! control plane: ", "status", "--watch", "--every", "10ms")
	require.Contains(t, out, "All is well.")
	require.NotContains(t, out, "\x1b", "no terminal, no clearing")
}
