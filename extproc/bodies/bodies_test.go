package bodies

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
	"github.com/modelgate/modelgate/internal/request"
)

func rules(t *testing.T, b *configv1.Bodies) *Rules {
	t.Helper()
	r, err := NewRules(b)
	require.NoError(t, err)
	return r
}

func TestTextIsRedacted(t *testing.T) {
	r := rules(t, &configv1.Bodies{Patterns: []*configv1.Redaction{{Name: "ticket", Pattern: `ACME-[0-9]+`}}})
	for text, want := range map[string]string{
		"mail ann.lee+x@example.co.uk now":                                     "mail [email] now",
		"jörg@bücher.example":                                                  "[email]",
		"4111 1111 1111 1111":                                                  "[card]",
		"4111-1111-1111-1111, 12/26":                                           "[card], 12/26",
		"4111 1111 1111 1111 12 26":                                            "[card] 12 26",
		"room 12 4111111111111111":                                             "room 12 [card]",
		"378282246310005 and 5555555555554444":                                 "[card] and [card]",
		"4111 1111 1111 1112":                                                  "4111 1111 1111 1112", // its check digit is wrong
		"0000000000000000":                                                     "0000000000000000",
		"1234567890123456789012345678901234567890":                             "1234567890123456789012345678901234567890",
		"sk-mg-abcdefghijklmnop":                                               "[api_key]",
		"Authorization: Bearer abcdefghijklmnopqrstu==":                        "Authorization: [api_key]",
		"AKIAIOSFODNN7EXAMPLE":                                                 "[api_key]",
		"eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.c2lnbmF0dXJl":                       "[api_key]",
		"-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----.": "[api_key].",
		"see ACME-17":                                                          "see [ticket]",
		"nothing at all":                                                       "nothing at all",
	} {
		got, n := r.Text(text)
		require.Equal(t, want, got)
		require.Equal(t, strings.Count(want, "["), n, text)
	}
	got, n := rules(t, &configv1.Bodies{Redact: []string{"none"}}).Text("ann@example.com")
	require.Equal(t, "ann@example.com", got)
	require.Zero(t, n)
	got, _ = rules(t, &configv1.Bodies{Redact: []string{"card"}}).Text("ann@example.com 4111111111111111")
	require.Equal(t, "ann@example.com [card]", got)
}

// What stands in a document is read as the text that it means, whatever its writer has escaped.
func TestJSONIsRedacted(t *testing.T) {
	r := rules(t, &configv1.Bodies{Patterns: []*configv1.Redaction{{Name: "pin", Pattern: `"pin":"?[0-9]+"?`}}})
	got, n, err := r.JSON(t.Context(), []byte(`{"a":"ann\u0040example.com","b":["\nsk-abcdefghijklmnopqrst"],"c":4111111111111111,`+
		`"bob@example.com":-0.4111111111111111,"pin":1234,"d":1764000000,"e":"\u00e9<&>"}`))
	require.NoError(t, err)
	require.Equal(t, `{"a":"[email]","b":["\n[api_key]"],"c":"[card]","[email]":-0.4111111111111111,[pin],"d":1764000000,`+
		`"e":"é<&>"}`, got)
	require.Equal(t, 5, n)
	_, _, err = r.JSON(t.Context(), []byte(`{"a":`))
	require.Error(t, err)
}

// A rule matches in a stream what a reader would read, wherever the provider has cut it.
func TestAStreamIsRedactedAsAWhole(t *testing.T) {
	secret := "call 4111 1111 1111 1111 or ann@example.com!"
	stream := func(event func(string) string) *part {
		var b strings.Builder
		for i := range len(secret) {
			b.WriteString("data: " + event(secret[i:i+1]) + "\n\n")
		}
		b.WriteString("data: [DONE]\n\n")
		return &part{media: mediaEvents, text: []byte(b.String()), bytes: int64(b.Len())}
	}
	for name, event := range map[string]func(string) string{
		"chat": func(s string) string {
			return `{"id":"c","choices":[{"index":1,"delta":{"content":"` + s + `"},"finish_reason":null}]}`
		},
		"a call": func(s string) string {
			return `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":2,"function":{"arguments":"` + s + `"}}]}}]}`
		},
		"legacy": func(s string) string { return `{"choices":[{"index":0,"text":"` + s + `"}]}` },
		"responses": func(s string) string {
			return `{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"` + s + `"}`
		},
		"messages": func(s string) string {
			return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + s + `"}}`
		},
	} {
		got := stream(event).kept(t.Context(), rules(t, &configv1.Bodies{}), 10_000_000)
		require.Contains(t, got.GetText(), `"call [card] or [email]!"`, name)
		require.NotContains(t, got.GetText(), "4111", name)
		require.EqualValues(t, 2, got.GetRedacted(), name)
	}
}

func TestABodyIsCutAfterItIsRedacted(t *testing.T) {
	r := rules(t, &configv1.Bodies{})
	body := `{"a":"` + strings.Repeat("é", 20) + ` 4111 1111 1111 1111"}`
	for most := range len(body) {
		b := (&part{media: mediaJSON, text: []byte(body), bytes: int64(len(body))}).kept(t.Context(), r, most)
		require.True(t, utf8.ValidString(b.GetText()))
		require.LessOrEqual(t, len(b.GetText()), most)
		require.NotContains(t, b.GetText(), "411")
		require.EqualValues(t, len(body), b.GetBytes())
		require.Equal(t, most < 55, b.GetCut(), most)
	}
	for text, media := range map[string]string{"\xff": mediaJSON, "{": mediaJSON,
		"--x\r\n": "multipart/form-data; boundary=x"} {
		b := (&part{media: media, text: []byte(text), bytes: 1}).kept(t.Context(), r, 100)
		require.Empty(t, b.GetText(), media)
		require.NotEmpty(t, b.GetOmitted(), media)
	}
}

func TestTheShareIsOfIDs(t *testing.T) {
	kept := 0
	s := Setting{Bodies: &configv1.Bodies{Share: 0.25}}
	for i := range 4000 {
		id := "0123456789ab-" + strings.Repeat("x", i%7) + string(rune('a'+i%26)) + time.Duration(i).String()
		require.Equal(t, s.Keeps(id), s.Keeps(id))
		if s.Keeps(id) {
			kept++
		}
	}
	require.InDelta(t, 1000, kept, 150)
	require.True(t, (&Setting{Bodies: &configv1.Bodies{Share: 1}}).Keeps("a"))
	require.False(t, (&Setting{Bodies: &configv1.Bodies{}}).Keeps("a"))
}

// A controlPlane takes bodies, unless it is away.
type controlPlane struct {
	mu     sync.Mutex // guards what follows
	err    error
	answer string
	taken  []*ledgerv1.KeptBodies
	asked  chan struct{}
}

func (c *controlPlane) Keep(_ context.Context, r *ledgerv1.KeepRequest, _ ...grpc.CallOption) (*ledgerv1.KeepAnswer,
	error) {
	defer func() { c.asked <- struct{}{} }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if c.answer == "" {
		c.taken = append(c.taken, r.GetBodies())
	}
	return &ledgerv1.KeepAnswer{Dropped: c.answer}, nil
}

func (c *controlPlane) is(err error, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.answer = err, answer
}

func TestBodiesWaitForTheControlPlaneAndAreBounded(t *testing.T) {
	away := &controlPlane{asked: make(chan struct{}, 10_000), err: status.Error(codes.Unavailable, "away")}
	k := New(away, prometheus.NewRegistry(), zap.NewNop())
	s := Setting{Bodies: &configv1.Bodies{Share: 1}, Subject: "key/k"}
	keep := func(content string) {
		c := k.Begin(s, mediaJSON, []byte(content))
		c.Answer([]byte(`{"answer":`))
		c.Answer([]byte(`"ann@example.com"}`))
		c.End(Owner{ID: content, Subject: request.Subject{Key: "k"}})
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	keep(`{"first":1}`)
	<-away.asked
	<-away.asked // it is sent again
	for range maxQueue + 10 {
		keep(`{}`)
	}
	require.EqualValues(t, 10, testutil.ToFloat64(k.dropped.WithLabelValues(droppedQueue)))
	away.is(nil, "")
	for range maxQueue + 1 {
		<-away.asked
	}
	for range 3 {
		keep(`{"last":1}`)
		<-away.asked
	}
	stop()
	running.Wait()
	require.Len(t, away.taken, maxQueue+1+3)
	require.Equal(t, `{"answer":"[email]"}`, away.taken[0].GetAnswer().GetText())
	require.Equal(t, `{"first":1}`, away.taken[0].GetRequest().GetText())
	require.Equal(t, "key/k", away.taken[0].GetSubject())
	require.Zero(t, k.held.Load())

	away.is(nil, "no_store")
	again, cancel := context.WithCancel(t.Context())
	keep(`{}`)
	cancel() // what waits is sent when the process ends
	k.Run(again)
	require.EqualValues(t, 1, testutil.ToFloat64(k.dropped.WithLabelValues("no_store")))
}

func TestAPanicLosesOneBody(t *testing.T) {
	k := New(&controlPlane{}, prometheus.NewRegistry(), zap.NewNop())
	s := Setting{Bodies: &configv1.Bodies{Share: 1}}
	k.rules[s.Bodies] = &Rules{list: []rule{{}}} // without a pattern
	c := k.Begin(s, mediaJSON, []byte(`{"a":"b"}`))
	k.send(t.Context(), c)
	require.EqualValues(t, 1, testutil.ToFloat64(k.dropped.WithLabelValues(droppedRefused)))
	require.Zero(t, k.held.Load())
}

func TestMemoryIsBounded(t *testing.T) {
	k := New(&controlPlane{}, prometheus.NewRegistry(), zap.NewNop())
	s := Setting{Bodies: &configv1.Bodies{Share: 1}}
	whole := make([]byte, maxBody)
	var all []*Capture
	for range maxHeld / maxBody {
		c := k.Begin(s, mediaJSON, whole)
		require.NotNil(t, c)
		all = append(all, c)
	}
	require.Nil(t, k.Begin(s, mediaJSON, []byte("{}")))
	all[0].Answer([]byte("{}")) // its exchange goes on
	all[0].Answer([]byte("{}"))
	all[0].End(Owner{})
	require.EqualValues(t, 2, testutil.ToFloat64(k.dropped.WithLabelValues(droppedMemory)))
	require.EqualValues(t, maxHeld-maxBody, k.held.Load())

	c := k.Begin(s, mediaJSON, make([]byte, maxBody+1)) // too long to be redacted: only its size is kept
	require.Equal(t, omittedLong, c.request.omitted)
	require.EqualValues(t, maxBody+1, c.request.bytes)
	c.Answer(whole[:10])
	c.Answer(whole)
	require.Equal(t, omittedLong, c.answer.omitted)
	require.EqualValues(t, maxHeld-maxBody, k.held.Load())
}
