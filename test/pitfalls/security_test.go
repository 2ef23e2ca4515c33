package pitfalls

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/internal/testenv"
	"github.com/modelgate/modelgate/test/harness"
)

// trap counts the connections that are made to an address of this machine.
func trap(t *testing.T) (address string, sprung *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	sprung = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			sprung.Add(1)
			_ = c.Close()
		}
	}()
	return l.Addr().String(), sprung
}

func noForgedAddress(t *testing.T, g limitGateway) {
	address, sprung := trap(t)
	at := "http://" + address
	members := fmt.Sprintf(`,"api_base":%[1]q,"base_url":%[1]q,"endpoint":%[1]q,"custom_host":%[1]q,"url":%[1]q,"host":%[1]q,"proxy":%[1]q,"extra_headers":{"host":%[2]q},"provider":{"endpoint":%[1]q},`+
		`"model_info":{"base_url":%[1]q},"litellm_params":{"api_base":%[1]q},"webhook":%[1]q,"callbacks":[%[1]q]`, at,
		address)
	headers := []string{"X-Api-Base", at, "X-Base-Url", at, "X-Portkey-Custom-Host", at, "X-Portkey-Provider", at,
		"X-Forwarded-Host", address, "X-Original-Url", at, "X-Rewrite-Url", at,
		"X-Host", address, "Forwarded", "host=" + address, "Helicone-Target-Url", at, "Destination", at}
	for model := range twoDialects {
		for _, path := range []string{chatPath, "/v1/completions", "/v1/embeddings", "/v1/responses"} {
			body := chatOf(model, 2, `,"prompt":"hi","input":"hi"`+members)
			g.client.Do(t, http.MethodPost, path, body, headers...)
		}
	}
	g.client.Do(t, http.MethodPost, "/v1/ocr", "{}", headers...)
	// Of the models, whose names are in paths, and of what asks for a proxy.
	for _, model := range []string{at + "/m", "openai@" + address + "/m", "gemini/../../" + address, "gemini/../x",
		"gemini/..", "bedrock/..", "bedrock/../..", "gemini/..%2f..%2fx", "gemini/x:generateContent?alt=@" + address + "/",
		"bedrock/" + at, `gemini/\r\nHost: ` + address} {
		g.ask(t, g.Key, chatPath, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, model))
	}
	for _, line := range []string{"POST " + at + chatPath, "POST //" + address + chatPath, "CONNECT " + address, "POST " +
		chatPath + "@" + address} {
		body := chatOf("openai/m", 2, "")
		g.raw(t,
			fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", line, address, g.Key, len(body), body))
	}
	// What a vendor fetches by itself is told to it, and what it would not is refused.
	for _, url := range []string{at + "/a.png", "http://169.254.169.254/latest/meta-data",
		"http://[::ffff:169.254.169.254]/", "file:///etc/passwd"} {
		picture := func(model string) string {
			return fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url","image_url":{"url":%q}}]}]}`, model, url)
		}
		g.ask(t, g.Key, chatPath, picture("openai/m"))
		require.Equal(t, http.StatusBadRequest, g.ask(t, g.Key, chatPath, picture("bedrock/amazon.nova-lite-v1:0")).status,
			url)
	}
	require.Positive(t, g.reached())
	for _, a := range g.worker.last(g.reached()) {
		require.Regexp(t, `^/(openai|anthropic|gemini|bedrock)/`, a.path)
		require.NotContains(t, a.uri, "/..")
		require.NotContains(t, a.header.Get("Host"), address)
	}
	secret := &configv1.Credential{Source: &configv1.Credential_Value{Value: "whsec_" + strings.Repeat("QUJD", 10)}}
	g.Apply(t, &configv1.Webhook{Name: "inward", Url: "https://" + address + "/", Secret: secret},
		&configv1.Webhook{Name: "inward-plain", Url: at, Secret: secret},
		&configv1.Webhook{Name: "metadata", Url: "http://169.254.169.254/latest", Secret: secret})
	t.Cleanup(func() {
		for _, name := range []string{"inward", "inward-plain", "metadata"} {
			harness.Must(t, "", "config", "delete", "--data", g.Dir, "webhooks", name)
		}
	})
	g.client.Await(t, g.client.Begin(t, chatPath, harness.ChatLine("line-1", "openai/m", "hi")))
	for _, name := range []string{"inward", "inward-plain", "metadata"} {
		require.Contains(t, g.WaitFor(t, `"webhook":"`+name+`"`), "was not delivered")
	}
	require.Zero(t, sprung.Load(), "nothing has connected to it")
}

// clientsCredentials are headers by which somebody or something on the way authenticates a client.
func clientsCredentials(t *testing.T, g limitGateway) {
	const mark = "of-the-client"
	var headers []string
	for _, name := range []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
		"Cookie", "X-Amz-Security-Token", "X-Amz-Date", "X-Goog-User-Project",
		"OpenAI-Organization", "OpenAI-Project", "Anthropic-Organization-Id", "X-Auth-Token", "X-Access-Token",
		"X-Forwarded-Access-Token", "X-Forwarded-User", "Ocp-Apim-Subscription-Key",
		"Cf-Access-Jwt-Assertion", "Cf-Aig-Authorization", "X-Amzn-Oidc-Data", "X-Amzn-Oidc-Accesstoken",
		"X-Goog-Iap-Jwt-Assertion", "X-Ms-Token-Aad-Access-Token", "X-Ms-Client-Principal",
		"Helicone-Auth", "X-Portkey-Api-Key", "X-Csrf-Token", "X-Serverless-Authorization"} {
		value := mark
		if name == "Authorization" {
			value = "" // the key's own, below
		}
		if value != "" {
			headers = append(headers, name, value)
		}
	}
	// An answer in another dialect is a failure, after which the provider is asked again.
	requireClean := func(what string, least int) {
		t.Helper()
		n := g.reached()
		require.GreaterOrEqual(t, n, least, what)
		for _, a := range g.worker.last(n) {
			for name, values := range a.header {
				require.NotContains(t, strings.Join(values, " "), mark, "%s: %s", what, name)
				require.NotContains(t, strings.Join(values, " "), g.Key, "%s: %s", what, name)
			}
			credentials := a.header.Get("Authorization") + a.header.Get("X-Api-Key")
			require.Equal(t, map[bool]string{true: "Bearer credential", false: "credential"}[strings.HasPrefix(a.path,
				"/openai")], credentials, what)
		}
	}
	for model := range twoDialects {
		for _, body := range []string{chatOf(model, 2, ""), chatOf(model, 2, `,"stream":true`)} {
			g.worker.answers(answerLine)
			g.client.Do(t, http.MethodPost, chatPath, body, headers...)
			requireClean(model, 1)
		}
	}
	g.worker.answers(answerLine)
	g.client.Do(t, http.MethodPost, "/v1/embeddings", `{"model":"openai/m","input":"hi"}`, headers...)
	g.client.Do(t, http.MethodPost, "/v1/responses", `{"model":"openai/m","input":"hi"}`, headers...)
	requireClean("other operations", 2)
	for model, first := range map[string]string{"either": "/openai", "reversed": "/anthropic"} {
		g.warm(t)
		g.worker.answers(func(w http.ResponseWriter, r *http.Request, a asking) {
			if strings.HasPrefix(a.path, first) {
				answerStatus(w, http.StatusInternalServerError)
				return
			}
			answerLine(w, r, a)
		})
		g.client.Do(t, http.MethodPost, chatPath, chatOf(model, 2, ""), headers...)
		requireClean("a retry of "+model, 2)
	}
	g.Apply(t, &configv1.Route{Name: "claude", PathPrefix: "/anthropic", Provider: "anthropic"})
	g.worker.answers(answerLine)
	harness.Eventually(t, "the route", func() error {
		if g.client.Do(t, http.MethodPost, "/anthropic/messages", "{}").Status == http.StatusNotFound {
			return errNotYet
		}
		return nil
	})
	g.worker.answers(answerLine)
	g.client.Do(t, http.MethodPost, "/anthropic/messages", "{}", headers...)
	g.client.Do(t, http.MethodPost, "/v1/ocr", "{}", headers...)
	requireClean("routes", 2)
}

func pinned(t *testing.T) {
	root := testenv.Root(t)
	checks := map[string]func(t *testing.T, path, text string){
		"go.mod": pinnedGo, "package-lock.json": pinnedNode, "requirements.txt": pinnedPython, "values.yaml": pinnedImages,
	}
	seen := map[string]int{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			switch e.Name() {
			case ".git", ".cache", "bin", "node_modules", "data":
				return filepath.SkipDir
			}
			return nil
		}
		inRoot, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		check, text := checks[e.Name()], []byte(nil)
		if check != nil || strings.HasSuffix(path, ".sh") || e.Name() == "Makefile" || e.Name() == "run" ||
			strings.HasPrefix(e.Name(), "Dockerfile") {
			if text, err = os.ReadFile(path); err != nil {
				return err
			}
			pinnedCommands(t, inRoot, string(text))
		}
		if check != nil {
			seen[e.Name()]++
			check(t, path, string(text))
		}
		if e.Name() == "package.json" {
			require.FileExists(t, filepath.Join(filepath.Dir(path), "package-lock.json"), inRoot)
		}
		return nil
	})
	require.NoError(t, err)
	for name := range checks {
		require.Positive(t, seen[name], "there is a %s", name)
	}
}

var requirement = regexp.MustCompile(`(?m)^(?:require |\t)([a-z0-9]\S*\.\S*) (v\S+)`)

// pinnedGo checks that every module has its hash, and that none is replaced by another.
func pinnedGo(t *testing.T, path, text string) {
	sums, err := os.ReadFile(strings.TrimSuffix(path, "mod") + "sum")
	require.NoError(t, err)
	versions := map[string]string{}
	for _, m := range requirement.FindAllStringSubmatch(text, -1) {
		versions[m[1]] = m[2]
	}
	require.NotEmpty(t, versions, path)
	for line := range strings.Lines(text) {
		from, to, replaced := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "replace "), " => ")
		if !replaced || strings.HasPrefix(to, ".") { // by a folder of ours
			continue
		}
		name, version, _ := strings.Cut(to, " ")
		require.Equal(t, name, strings.Fields(from)[0], "%s: replaced by another module", path)
		if versions[name] != "" {
			versions[name] = version
		}
	}
	for name, version := range versions {
		require.Contains(t, string(sums), name+" "+version+"/go.mod h1:", "%s: %s", path, name)
	}
}

// pinnedNode checks that every package has its hash and comes from the registry.
func pinnedNode(t *testing.T, path, text string) {
	var lock struct {
		LockfileVersion int
		Packages        map[string]struct {
			Resolved, Integrity string
			Link                bool
		}
	}
	require.NoError(t, json.Unmarshal([]byte(text), &lock), path)
	require.GreaterOrEqual(t, lock.LockfileVersion, 2)
	require.Greater(t, len(lock.Packages), 1, path)
	for name, p := range lock.Packages {
		if name == "" {
			continue // the folder itself
		}
		require.Regexp(t, `^sha512-`, p.Integrity, "%s: %s", path, name)
		require.Regexp(t, `^(https://registry\.npmjs\.org/|$)`, p.Resolved, "%s: %s", path, name)
	}
}

var pythonPin = regexp.MustCompile(`^[A-Za-z0-9._-]+(\[[a-z,]+\])?==[^\s;]+.*--hash=sha256:[0-9a-f]{64}`)

// pinnedPython checks that every package has a version and hashes.
func pinnedPython(t *testing.T, path, text string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			require.Regexp(t, pythonPin, line, path)
		}
	}
}

var chartImage = regexp.MustCompile(`(?m)^ *image:\n((?: +.*\n)+?) *digest: *(\S+)`)

// pinnedImages checks what a chart says of images.
func pinnedImages(t *testing.T, path, text string) {
	for _, i := range chartImage.FindAllStringSubmatch(text, -1) {
		if i[2] != `""` {
			require.Regexp(t, `^sha256:[0-9a-f]{64}$`, i[2], "%s: %s", path, i[1])
		}
	}
}

// unpinned are commands that take whatever there is today, or run what they have not checked.
var unpinned = map[string]*regexp.Regexp{
	"pip without hashes":         regexp.MustCompile(`pip3? (install|download)`),
	"npm install":                regexp.MustCompile(`npm\b.* (install|i|add|update)\b`),
	"npx of what is newest":      regexp.MustCompile(`\bnpx\b`),
	"go run or install a latest": regexp.MustCompile(`go (run|install|get|tool) \S*@(latest|master|main)`),
	"a download that is run":     regexp.MustCompile(`(curl|wget)\b.*\|\s*(ba)?sh\b`),
	"an image by tag":            regexp.MustCompile(`^FROM (\S+:\S+|[^@\s]+)\s*$`),
}

func pinnedCommands(t *testing.T, path, text string) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		for what, pattern := range unpinned {
			if pattern.MatchString(line) && !strings.Contains(line, "--require-hashes") &&
				!strings.HasPrefix(strings.TrimSpace(line), "#") {
				t.Errorf("%s: %s: %s", path, what, strings.TrimSpace(line))
			}
		}
	}
}
