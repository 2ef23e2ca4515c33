// Command cases is the official Go SDKs as clients of the gateway: it runs every case of an API and prints one line for
// each. Its argument is chat, responses or anthropic.
//
// It is a module of its own, so that the gateway's does not depend on the SDK. The test in the
// folder above builds it, says in the environment where the gateway is, and reads its lines.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// timeout is the limit of a case.
const timeout = 30 * time.Second

// A gateway makes clients.
type gateway struct {
	url, key  string
	transport *http.Transport
}

// client returns a client with the gateway's key. Nothing is tried again: what the gateway answers first is what
// counts.
func (g gateway) client(more ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(g.url + "/v1"), option.WithAPIKey(g.key), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: g.transport}),
	}, more...)...)
}

// A testCase is one thing that must hold. Its name is the same for every SDK.
type testCase struct {
	name string
	run  func(context.Context, gateway) error
}

func chatCases() []testCase {
	return slices.Concat(answers(), tools(), streams(), failures(), jobs(), translated(),
		recordedBy(recordedAnswer, recordedConversation))
}

func main() {
	if err := run(context.Background(), os.Args[len(os.Args)-1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run runs every case of an API. The error says that one failed, or that none could be run.
func run(ctx context.Context, of string, w io.Writer) error {
	ca, err := os.ReadFile(os.Getenv("GATEWAY_CA"))
	if err != nil {
		return fmt.Errorf("reading the gateway's authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	g := gateway{os.Getenv("GATEWAY_URL"), os.Getenv("GATEWAY_KEY"), &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true,
	}}
	defer g.transport.CloseIdleConnections()
	good := true
	cases := map[string]func() []testCase{"chat": chatCases, "anthropic": anthropicCases, "responses": responseCases}[of]
	if cases == nil {
		return fmt.Errorf("there are no cases of %q", of)
	}
	for _, c := range cases() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		err := c.run(ctx, g)
		cancel()
		if err != nil {
			good = false
			fmt.Fprintf(w, "not ok %s: %s\n", c.name, strings.Join(strings.Fields(err.Error()), " "))
			continue
		}
		fmt.Fprintf(w, "ok %s\n", c.name)
	}
	if !good {
		return errors.New("a case failed")
	}
	return nil
}

// equal is an error where the two differ.
func equal[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %#v, want %#v", what, got, want)
	}
	return nil
}

// check is an error where the condition does not hold.
func check(condition bool, format string, args ...any) error {
	if !condition {
		return fmt.Errorf(format, args...)
	}
	return nil
}

// only returns the one choice of an answer.
func only(done *openai.ChatCompletion, err error) (openai.ChatCompletionChoice, error) {
	if err != nil {
		return openai.ChatCompletionChoice{}, err
	}
	if len(done.Choices) != 1 {
		return openai.ChatCompletionChoice{}, fmt.Errorf("%d choices", len(done.Choices))
	}
	return done.Choices[0], nil
}

// ask is a request with one message of the user.
func ask(model, text string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{Model: model,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(text)}}
}
