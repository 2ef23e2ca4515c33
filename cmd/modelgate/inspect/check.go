// Package inspect has the commands that try a gateway or look for what is wrong with it: check, doctor, explain,
// status, and the trials of guardrails, policies and providers.
package inspect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
	"github.com/modelgate/modelgate/cmd/modelgate/adminflags"
	"github.com/modelgate/modelgate/internal/datadir"
	"github.com/modelgate/modelgate/internal/sse"
)

const (
	// checkKeyLife is how long the key of a check is good, should it not be possible to revoke it.
	checkKeyLife = 5 * time.Minute
	// checkPause is how long a check waits before it asks again.
	checkPause = 200 * time.Millisecond
	// maxCheckAnswer bounds what is read of an answer.
	maxCheckAnswer = 1 << 20
)

// CheckCmd is the command check.
type CheckCmd struct {
	adminflags.AdminFlags
	URL       string        `name:"url" placeholder:"URL" help:"URL of the gateway, without /v1. Default: the one in the data folder."`
	GatewayCA string        `name:"gateway-ca" placeholder:"FILE" help:"PEM file of the CA certificates that verify the gateway. Default: those of --ca."`
	Model     string        `default:"echo/echo" help:"Model to call."`
	Timeout   time.Duration `default:"30s" help:"How long to wait until the gateway accepts the new key and responds."`
}

// Help is shown below the flags' summary.
func (CheckCmd) Help() string {
	return `The command creates a temporary key, revokes it at the end, and gives it an expiry time.

Example:
  modelgate check --server https://controlplane:8081 --ca ca.crt --url https://gateway --model echo/echo`
}

// Run asks the gateway as a client would, and prints a line for each question.
func (c CheckCmd) Run(ctx context.Context, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	client, err := c.Client()
	if err != nil {
		return err
	}
	if c.URL == "" && !c.OfFolder() {
		return admincli.Misused(
			"%s and %s belong to different gateways, so the key would not be valid: give the URL of the gateway with --url", c.Data,
			c.Server)
	}
	base, err := c.OrFile(c.URL, datadir.FileURL, "give the URL of the gateway with --url")
	if err != nil {
		return err
	}
	trust := adminflags.AdminFlags{Data: c.Data, Server: c.Server, CA: cmp.Or(c.GatewayCA, c.CA)}
	secure, err := trust.TLS()
	if err != nil {
		return err
	}
	expires := time.Now().Add(checkKeyLife).UTC().Truncate(time.Second)
	key, err := client.CreateTrialKey(ctx, adminapi.KeyRequest{DisplayName: "modelgate check", ExpiresAt: &expires})
	if err != nil {
		return fmt.Errorf("making a key: %w", admincli.Said(err))
	}
	g := checkedGateway{base: strings.TrimRight(base, "/"), key: key.Key, model: c.Model, http: checkClient(secure)}
	err = g.check(ctx, stdout)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), adminflags.AdminTimeout)
	defer cancel()
	return errors.Join(err, revoke(ending, client, key.ID))
}

func revoke(ctx context.Context, client *adminapi.Client, id string) error {
	if err := client.Delete(ctx, configv1.KeyKind(), id); err != nil {
		return fmt.Errorf("revoking the key: %w", admincli.Said(err))
	}
	return nil
}

// checkClient makes each request on a connection of its own, so that a balancer may send each elsewhere.
func checkClient(secure *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	}}
}

// A checkedGateway is a gateway that is asked.
type checkedGateway struct {
	base, key, model string
	http             *http.Client
}

func (g checkedGateway) check(ctx context.Context, stdout io.Writer) error {
	for _, question := range []struct {
		what string
		ask  func(context.Context) (string, error)
	}{
		{"a request without a key is refused", g.stranger},
		{"chat completion", g.unary},
		{"streamed chat completion", g.stream},
	} {
		start := time.Now()
		told, err := g.patiently(ctx, question.ask)
		if err != nil {
			return fmt.Errorf("%s: %w", question.what, err)
		}
		if _, err := fmt.Fprintf(stdout, "ok  %-36s %6d ms  %s\n", question.what, time.Since(start).Milliseconds(),
			told); err != nil {
			return err
		}
	}
	return nil
}

// errNotYet marks what a gateway may answer that has not heard of a new key yet, or is just starting.
var errNotYet = errors.New("the gateway is not reachable yet")

// patiently asks again while the answer is one of a gateway that is not there yet.
func (g checkedGateway) patiently(ctx context.Context, ask func(context.Context) (string, error)) (string, error) {
	pause := time.NewTicker(checkPause)
	defer pause.Stop()
	for {
		told, err := ask(ctx)
		if !errors.Is(err, errNotYet) {
			return told, err
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return "", err
		}
	}
}

// post asks for a chat completion and returns the answer, whose body the caller closes.
func (g checkedGateway) post(ctx context.Context, key string, stream bool) (*http.Response, error) {
	body, err := json.Marshal(map[string]any{
		"model": g.model, "stream": stream, "max_completion_tokens": 64,
		"messages": []map[string]string{{"role": "user", "content": "Hello from modelgate check"}},
	})
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, g.base+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	answer, err := g.http.Do(r)
	if err != nil {
		if _, wrong := errors.AsType[*tls.CertificateVerificationError](err); wrong {
			return nil, fmt.Errorf("%w (give the authority of the gateway's certificate with --gateway-ca)", err)
		}
		return nil, fmt.Errorf("%w: %w", errNotYet, err)
	}
	return answer, nil
}

// wrongStatus is the error of an answer whose status is not the one that was expected.
func wrongStatus(answer *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxCheckAnswer))
	if err != nil {
		return fmt.Errorf("reading the answer %d: %w", answer.StatusCode, err)
	}
	err = fmt.Errorf("the gateway answered %d: %.500s", answer.StatusCode, bytes.TrimSpace(text))
	switch answer.StatusCode {
	case http.StatusUnauthorized, http.StatusServiceUnavailable:
		return fmt.Errorf("%w: %w", errNotYet, err)
	}
	return err
}

func (g checkedGateway) stranger(ctx context.Context) (string, error) {
	answer, err := g.post(ctx, "", false)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		return "", wrongStatus(answer)
	}
	return answer.Status, nil
}

func (g checkedGateway) unary(ctx context.Context) (string, error) {
	answer, err := g.post(ctx, g.key, false)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", wrongStatus(answer)
	}
	var completion struct {
		Choices []json.RawMessage `json:"choices"`
		Usage   struct {
			TotalTokens int64 `json:"total_tokens"`
		} `json:"usage"`
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxCheckAnswer)).Decode(&completion); err != nil {
		return "", fmt.Errorf("reading the completion: %w", err)
	}
	if len(completion.Choices) == 0 {
		return "", errors.New("the completion has no choice")
	}
	return fmt.Sprintf("%d tokens, provider %s, %s", completion.Usage.TotalTokens,
		cmp.Or(answer.Header.Get("x-modelgate-provider"), "unknown"), answer.Proto), nil
}

func (g checkedGateway) stream(ctx context.Context) (string, error) {
	answer, err := g.post(ctx, g.key, true)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return "", wrongStatus(answer)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxCheckAnswer))
	if err != nil {
		return "", fmt.Errorf("the stream was cut after %d bytes: %w", len(text), err)
	}
	var events sse.Decoder
	events.Feed(text)
	chunks := 0
	for {
		event, ok, err := events.Next()
		switch {
		case err != nil:
			return "", fmt.Errorf("reading the stream: %w", err)
		case !ok:
			return "", fmt.Errorf("the stream ended after %d chunks without [DONE]", chunks)
		case string(event.Data) == "[DONE]":
			return fmt.Sprintf("%d chunks", chunks), nil
		}
		chunks++
	}
}
