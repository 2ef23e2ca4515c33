package vault_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/testenv"
)

// TestRealVault compares what vaulttest takes for granted with the dev server of a real Vault or OpenBao.
func TestRealVault(t *testing.T) {
	found := 0
	for _, name := range []string{"vault", "bao"} {
		binary, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		found++
		t.Run(name, func(t *testing.T) { followReal(t, binary) })
	}
	if found == 0 {
		testenv.Missing(t, "vault or bao, the server of HashiCorp Vault or OpenBao", "")
	}
}

const rootToken = "hvs.root-of-the-dev-server"

func followReal(t *testing.T, binary string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	at := l.Addr().String()
	require.NoError(t, l.Close())
	server := exec.Command(binary, "server", "-dev", "-dev-root-token-id="+rootToken, "-dev-listen-address="+at,
		"-dev-no-store-token")
	server.Env = append(os.Environ(), "HOME="+t.TempDir())
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	url := "http://" + at
	require.Eventually(t, func() bool {
		a, err := http.Get(url + "/v1/sys/health")
		return err == nil && a.Body.Close() == nil && a.StatusCode == http.StatusOK
	}, 30*time.Second, 50*time.Millisecond)
	call := func(method, path string, body any) map[string]any { return callReal(t, method, url+"/v1/"+path, body) }

	call("POST", "sys/mounts/one", map[string]any{"type": "kv", "options": map[string]string{"version": "1"}})
	call("POST", "one/a", map[string]any{"key": "sk-one"})
	call("POST", "secret/data/a", map[string]any{"data": map[string]any{"key": "sk-1", "n": 1}})
	call("POST", "secret/data/denied", map[string]any{"data": map[string]any{"key": "x"}})
	call("PUT", "sys/policies/acl/gateway", map[string]any{"policy": `path "secret/data/a" { capabilities = ["read"] }
path "secret/data/none" { capabilities = ["read"] }
path "one/*" { capabilities = ["read"] }`})
	made := call("POST", "auth/token/create", map[string]any{"policies": []string{"gateway"}, "ttl": "1h"})
	token := made["auth"].(map[string]any)["client_token"].(string)

	f := run(t, url, token, "secret/data/a", "secret/data/none", "secret/data/denied", "one/a", "one/none")
	await(t, f, "secret/data/a", "sk-1")
	await(t, f, "one/a", "sk-one")
	require.Eventually(t, f.Settled, 10*time.Second, 5*time.Millisecond)
	for path, want := range map[string]string{"secret/data/none": "404", "secret/data/denied": "403", "one/none": "404"} {
		_, err := f.Get(path, "key")
		require.ErrorContains(t, err, "Vault answers "+want, path)
	}
	_, err = f.Get("secret/data/a", "n")
	require.ErrorContains(t, err, "is not a text")
	call("POST", "secret/data/a", map[string]any{"data": map[string]any{"key": "sk-2"}})
	await(t, f, "secret/data/a", "sk-2")
	call("DELETE", "secret/data/a", nil)
	require.Eventually(t, func() bool {
		_, err := f.Get("secret/data/a", "key")
		return err != nil
	}, 10*time.Second, 5*time.Millisecond)
}

func callReal(t *testing.T, method, url string, body any) map[string]any {
	t.Helper()
	text, err := json.Marshal(body)
	require.NoError(t, err)
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(text))
	require.NoError(t, err)
	r.Header.Set("X-Vault-Token", rootToken)
	a, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer a.Body.Close()
	require.Less(t, a.StatusCode, 300, "%s %s", method, url)
	answer := map[string]any{}
	if a.StatusCode == http.StatusOK {
		require.NoError(t, json.NewDecoder(a.Body).Decode(&answer), fmt.Sprint(a.Status))
	}
	return answer
}
