package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/internal/datadir"
)

func TestATokenOfTheDataFolderGoesNowhereElse(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	c.write(t, "x.json", `{"model":"m","messages":[]}`)
	var told []string
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		told = append(told, r.Header.Get("Authorization"))
	}))
	t.Cleanup(stranger.Close)
	for _, command := range []string{"config list providers", "key list", "key create --name n", "status", "usage",
		"audit", "audit verify", "audit sinks", "quotas", "dashboard link", "check", "explain x.json"} {
		_, errOut := c.run(t, exitFailed, append(strings.Fields(command), "--server", stranger.URL)...)
		require.Contains(t, errOut, "the admin token in data is not for "+stranger.URL, command)
	}
	c.run(t, exitFailed, "doctor", "--server", stranger.URL)
	t.Setenv("MODELGATE_SERVER", stranger.URL)
	c.run(t, exitFailed, "key", "list")
	require.Empty(t, told)
	c.run(t, exitOK, "key", "list", "--server", f.url+"/") // where the folder's gateway is
}

func TestNoCommandFollowsARedirect(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	redirects := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, f.url+r.URL.Path, http.StatusMovedPermanently)
	}))
	t.Cleanup(redirects.Close)
	for _, command := range []string{"key revoke key_a", "key disable key_a", "token revoke adm_a", "dashboard link",
		"status"} {
		_, errOut := c.run(t, exitFailed, append(strings.Fields(command), "--server", redirects.URL, "--token",
			adminToken)...)
		require.Contains(t, errOut, redirects.URL+" answers with a redirect to "+f.url+", which is not followed", command)
	}
	require.Empty(t, f.asked)
}

func TestACheckDoesNotSendAKeyToAnotherGateway(t *testing.T) {
	f, c := startFakeAdmin(t), &cli{}
	c.write(t, "data/"+datadir.FileAdmin, "http://127.0.0.1:1\n")
	c.write(t, "data/"+datadir.FileURL, f.url+"\n")
	_, errOut := c.run(t, exitUsage, "check", "--server", f.url, "--token", adminToken)
	require.Contains(t, errOut, "give the URL of the gateway with --url")
	require.Empty(t, f.asked)
}

func TestCompletionAsksWhatTheCommandWouldAsk(t *testing.T) {
	for _, name := range []string{"SERVER", "TOKEN", "TOKEN_FILE", "CA"} {
		t.Setenv("MODELGATE_"+name, "of "+name)
	}
	require.Equal(t, adminflags.AdminFlags{Data: "data", Server: "of SERVER", Token: "of TOKEN",
		TokenFile: "of TOKEN_FILE", CA: "of CA"}, flagsOf(nil))
	require.Equal(t, "there", flagsOf([]string{"key", "list", "--server", "there"}).Server)
}
