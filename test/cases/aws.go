package cases

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"
)

// bedrock is about a provider whose requests are signed, their bodies too, and whose streams are binary.
func bedrock(t *testing.T, g *Gateway) {
	t.Run("a stream of frames is translated, however it is cut", func(t *testing.T) { framesStream(t, g) })
	t.Run("a request is signed as the provider reads it", func(t *testing.T) {
		checked := verifies(g.B,
			`{"output":{"message":{"content":[{"text":"hello"}],"role":"assistant"}},"stopReason":"end_turn","usage":{"inputTokens":3,"outputTokens":1,"totalTokens":4}}`)
		a := g.Chat(t, `{"model":"`+askBedrock+`","messages":[{"role":"user","content":"Grüße, \u00fc"}]}`)
		require.Equal(t, 200, a.Status, "%s", a.Body)
		require.NoError(t, <-checked)
		require.Contains(t, string(a.Body), `"content":"hello"`)
	})
	t.Run("Claude gets the request of Anthropic's client as it is", func(t *testing.T) { claudeOnBedrock(t, g) })
	t.Run("a Route signs the body that it passes", func(t *testing.T) {
		for _, c := range []struct{ method, path, body string }{
			{"POST", "/bedrock/model/amazon.nova-reel-v1:0/async?b=2&a=1%20x", `{"text":"as it is", "not JSON`},
			{"POST", "/bedrock/async-invoke", strings.Repeat("long ", 50_000)},
			{"GET", "/bedrock/async-invoke?maxResults=3", ""},
		} {
			checked := verifies(g.B, `{"ok":true}`)
			a := g.Do(t, c.method, c.path, c.body, "X-Amz-Date", "20200101T000000Z", "X-Amz-Security-Token", "the client's")
			require.Equal(t, 200, a.Status, "%s %s: %s %s", c.method, c.path, a.Body, a.Header.Get("X-Test-Details"))
			require.NoError(t, <-checked, c.path)
			require.Equal(t, `{"ok":true}`, string(a.Body))
			asked := g.B.Requests()
			require.Len(t, asked, 1)
			require.Equal(t, strings.TrimPrefix(c.path, "/bedrock"), asked[0].Path)
		}
	})
}

// verifies has a vendor check the signature of the next request with AWS's own signer, over the request as it came,
// and answer.
func verifies(v *Vendor, answer string) <-chan error {
	checked := make(chan error, 10)
	v.Streams(func(w http.ResponseWriter, r *http.Request) {
		checked <- checkSignature(r)
		status(200, answer)(w, r)
	})
	return checked
}

// checkSignature makes the signature of a request anew and compares.
func checkSignature(r *http.Request) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	got := r.Header.Get("Authorization")
	_, names, _ := strings.Cut(got, "SignedHeaders=")
	names, _, _ = strings.Cut(names, ",")
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	url := *r.URL
	url.Scheme, url.Host = "http", r.Host
	again := &http.Request{Method: r.Method, Host: r.Host, URL: &url, Header: http.Header{}}
	for _, name := range strings.Split(names, ";") {
		if value := r.Header.Values(name); len(value) > 0 {
			again.Header[http.CanonicalHeaderKey(name)] = value
		}
	}
	sum := sha256.Sum256(body)
	id, key, _ := strings.Cut(CredentialC, ":")
	credentials := aws.Credentials{AccessKeyID: id, SecretAccessKey: key}
	if err := v4.NewSigner().SignHTTP(context.Background(), credentials, again, hex.EncodeToString(sum[:]), "bedrock",
		"us-east-1", at); err != nil {
		return err
	}
	if want := again.Header.Get("Authorization"); got != want {
		return fmt.Errorf("the signature is\n%q and not\n%q", got, want)
	}
	return nil
}

func framesStream(t *testing.T, g *Gateway) {
	recorded := Recording(t, "bedrock-text.eventstream")
	var first []string
	for _, size := range []int{1, 13, 1 << 20} {
		g.B.Answers(streamAs("application/vnd.amazon.eventstream", recorded, size))
		events := g.Chat(t, strings.Replace(askStream(askBedrock), `"stream":true`,
			`"stream":true,"stream_options":{"include_usage":true}`, 1)).Events(t)
		require.Equal(t, "[DONE]", events[len(events)-1])
		require.Contains(t, events[0], `"role":"assistant"`)
		require.Contains(t, events[len(events)-2], `"usage":{`)
		require.Contains(t, events[len(events)-3], `"finish_reason":"stop"`)
		if first == nil {
			first = events
		}
		require.Len(t, events, len(first))
	}
	g.B.Answers(streamAs("application/vnd.amazon.eventstream", recorded[:len(recorded)/2], 100))
	events := g.Chat(t, askStream(askBedrock)).Events(t)
	require.Equal(t, truncated, failure(t, []byte(events[len(events)-1])).Code)

	cut := bytes.Clone(recorded)
	cut[len(cut)/2] ^= 1
	g.B.Answers(streamAs("application/vnd.amazon.eventstream", cut, 100))
	events = g.Chat(t, askStream(askBedrock)).Events(t)
	require.Equal(t, "upstream_invalid_response", failure(t, []byte(events[len(events)-1])).Code,
		"a frame that was damaged")
}

// frame is an event of an AWS event stream.
func frame(event, payload string) string {
	return message(payload, ":message-type", "event", ":event-type", event, ":content-type", "application/json")
}

// ClaudeFrame is an event of Claude's in a stream of Bedrock's InvokeModel.
func ClaudeFrame(event string) string {
	return frame("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(event))+`"}`)
}

// exception is an error in an AWS event stream.
func exception(name, payload string) string {
	return message(payload, ":message-type", "exception", ":exception-type", name, ":content-type", "application/json")
}

func message(payload string, headers ...string) string {
	var h []byte
	for i := 0; i < len(headers); i += 2 {
		h = append(append(h, byte(len(headers[i]))), headers[i]...)
		h = binary.BigEndian.AppendUint16(append(h, 7), uint16(len(headers[i+1]))) // a string
		h = append(h, headers[i+1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(h)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(h)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, h...), payload...)
	return string(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}
