package metering

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/websocket"
)

// The events are the examples of https://platform.openai.com/docs/api-reference/realtime-server-events, without line
// breaks; the usage of the response has other cached tokens, of which the example has more than tokens.
const (
	sessionCreated = `{"type":"session.created","event_id":"event_C9G5RJeJ2gF77mV7f2B1j","session":{"object":"realtime.session","type":"realtime","id":"sess_C9G5QPteg4UIbotdKLoYQ","model":"gpt-realtime-2025-08-28","output_modalities":["audio"],"instructions":"Be nice.","tools":[],"tool_choice":"auto","max_output_tokens":"inf","tracing":null,"prompt":null,"expires_at":1756324625,"audio":{"input":{"format":{"type":"audio/pcm","rate":24000},"transcription":{"model":"gpt-4o-transcribe"},"noise_reduction":null,"turn_detection":{"type":"server_vad"}},"output":{"format":{"type":"audio/pcm","rate":24000},"voice":"marin","speed":1}},"include":null}}`
	sessionBeta    = `{"event_id":"event_1234","type":"session.created","session":{"id":"sess_001","object":"realtime.session","model":"gpt-4o-realtime-preview","modalities":["text","audio"],"input_audio_transcription":{"model":"whisper-1"}}}`
	responseBegun  = `{"type":"response.created","event_id":"event_C9G8pqbTEddBSIxbBN6Os","response":{"object":"realtime.response","id":"resp_C9G8p7IH2WxLbkgPNouYL","status":"in_progress","status_details":null,"output":[],"conversation_id":"conv_C9G8mmBkLhQJwCon3hoJN","usage":null,"metadata":null}}`
	responseDone   = `{"event_id":"event_3132","type":"response.done","response":{"id":"resp_001","object":"realtime.response","status":"completed","status_details":null,"output":[{"id":"msg_006","object":"realtime.item","type":"message","status":"completed","role":"assistant","content":[{"type":"text","text":"Sure, how can I assist you today?"}]}],"usage":{"total_tokens":275,"input_tokens":127,"output_tokens":148,"input_token_details":{"cached_tokens":64,"text_tokens":119,"audio_tokens":8,"cached_tokens_details":{"text_tokens":61,"audio_tokens":3}},"output_token_details":{"text_tokens":36,"audio_tokens":112}}}}`
	transcribed    = `{"type":"conversation.item.input_audio_transcription.completed","event_id":"event_CCXGRvtUVrax5SJAnNOWZ","item_id":"item_CCXGQ4e1ht4cOraEYcuR2","content_index":0,"transcript":"Hey, can you hear me?","usage":{"type":"tokens","total_tokens":22,"input_tokens":13,"input_token_details":{"text_tokens":0,"audio_tokens":13},"output_tokens":9}}`
	errorEvent     = `{"event_id":"event_890","type":"error","error":{"type":"invalid_request_error","code":"invalid_event","message":"The 'type' field is missing.","param":null,"event_id":"event_567"}}`
)

var (
	doneUsage = openai.Usage{PromptTokens: 127, CompletionTokens: 148, TotalTokens: 275, CachedTokens: 64, PromptAudio: 5,
		CompletionAudio: 112}
	transcribedUsage = openai.Usage{PromptTokens: 13, CompletionTokens: 9, TotalTokens: 22, PromptAudio: 13}
)

// message frames a text message, in fragments of at most so many bytes, with a ping before the last.
func message(text string, fragment int) (b []byte) {
	for first := byte(websocket.Text); ; first = byte(websocket.Continuation) {
		n := min(fragment, len(text))
		if n == len(text) {
			b = append(b, 0x80|byte(websocket.Ping), 2, '{', '"')
			first |= 0x80
		}
		b = binary.BigEndian.AppendUint64(append(b, first, 127), uint64(n))
		b = append(b, text[:n]...)
		if text = text[n:]; first&0x80 != 0 {
			return b
		}
	}
}

func delta(typ string, bytes int) string {
	head := `{"type":"` + typ + `","event_id":"e","delta":"`
	return head + strings.Repeat("a", deltaEnvelope-len(head)-len(`"}`)+bytes) + `"}`
}

// watched feeds the frames in pieces that end at the cuts.
func watched(t testing.TB, frames []byte, cuts []int) (w SessionWatch, charges []Charge) {
	t.Helper()
	last := 0
	for _, to := range append(cuts, len(frames)) {
		got, err := w.Feed(frames[last:to])
		require.NoError(t, err)
		charges = append(charges, got...)
		last = to
	}
	return w, charges
}

func TestASessionIsReadWhereverItIsCut(t *testing.T) {
	large := strings.Replace(responseDone, "Sure,", strings.Repeat(`\"usage\":{\"input_tokens\":9},{`, 40_000), 1)
	var all []byte
	for _, event := range []string{
		sessionCreated, responseBegun, delta("response.output_audio.delta", 7*audioToken),
		delta("response.output_audio.delta", 500_000), responseDone, errorEvent, transcribed, large,
		strings.Replace(responseDone, `"completed","status_details"`, `"failed","status_details"`, 1),
	} {
		all = append(all, message(event, 300_000)...)
	}
	want := []Charge{{Used: doneUsage}, {Used: transcribedUsage, Transcription: true, Model: "gpt-4o-transcribe"},
		{Used: doneUsage}, {Used: doneUsage, Failed: true}}
	check := func(cuts []int) {
		w, charges := watched(t, all, cuts)
		require.Equal(t, want, charges)
		require.Equal(t, "gpt-realtime-2025-08-28", w.Model())
		require.Contains(t, w.Failure(), `"code":"invalid_event"`)
		_, open := w.Rest()
		require.False(t, open)
		require.LessOrEqual(t, cap(w.scan.keep), 2*maxMember, "nothing large is kept")
	}
	check(nil)
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		var cuts []int
		for at := 0; at < len(all); at += 1 + random.IntN(100)*random.IntN(1000) {
			cuts = append(cuts, at)
		}
		check(cuts)
	}
	each := make([]int, len(all))
	for i := range each {
		each[i] = i
	}
	check(each)
}

func TestTheFirstVersionOfTheAPIIsRead(t *testing.T) {
	w, charges := watched(t, append(message(sessionBeta, 1000), message(transcribed, 1000)...), nil)
	require.Equal(t, "gpt-4o-realtime-preview", w.Model())
	require.Equal(t, []Charge{{Used: transcribedUsage, Transcription: true, Model: "whisper-1"}}, charges)
}

func TestAResponseWithoutUsageIsEstimated(t *testing.T) {
	frames := message(responseDone, 1000)
	for _, event := range []string{responseBegun, delta("response.output_audio.delta", 10*audioToken),
		delta("response.audio.delta", 5*audioToken), delta("response.output_audio_transcript.delta", 400)} {
		frames = append(frames, message(event, 1<<20)...)
	}
	w, charges := watched(t, frames, nil)
	require.Len(t, charges, 1)
	rest, open := w.Rest()
	require.True(t, open)
	require.True(t, rest.Estimated)
	require.EqualValues(t, 275, rest.Used.PromptTokens, "the conversation so far")
	require.EqualValues(t, 15, rest.Used.CompletionAudio)
	require.Greater(t, rest.Used.CompletionTokens, int64(15+50))
	_, open = w.Rest()
	require.False(t, open, "it is charged once")

	w, charges = watched(t, append(frames, message(`{"type":"response.done","response":{"status":"completed","usage":null}}`,
		1000)...), nil)
	require.Len(t, charges, 2)
	require.Equal(t, rest.Used, charges[1].Used)
	require.True(t, charges[1].Estimated)
	rest, open = w.Rest()
	require.True(t, open, "how much the client has sent is known later")
	require.Zero(t, rest.Used)
	require.EqualValues(t, charges[1].Used.TotalTokens, rest.Known)
}

func TestAResponseThatFailsWithoutAnyAnswerCostsNothing(t *testing.T) {
	_, charges := watched(t, append(message(responseBegun, 1000),
		message(`{"type":"response.done","response":{"status":"failed"}}`, 1000)...), nil)
	require.Equal(t, []Charge{{Failed: true}}, charges)
}

// TestThePromptOfAResponseIsWhatTheProviderReports is about a response without usage. The provider has reported what
// it got: the session's instructions, and items.
func TestThePromptOfAResponseIsWhatTheProviderReports(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 1000)
	item := func(typ, role string) []byte {
		return message(`{"event_id":"event_1920","type":"`+typ+`","previous_item_id":"msg_002","item":{"id":"msg_003","object":"realtime.item","type":"message","status":"completed","role":"`+role+`","content":[{"type":"input_text","text":"`+long+`"}]}}`, 1000)
	}
	setup, before := message(strings.Replace(sessionCreated, "Be nice.", long, 1), 1<<20), message(responseDone, 1000)
	created, added, done := "conversation.item.created", "conversation.item.added", "conversation.item.done"
	for name, c := range map[string]struct {
		before [][]byte
		want   int
	}{
		"nothing":                 {nil, 0},
		"instructions":            {[][]byte{setup}, 3000},
		"an item":                 {[][]byte{item(created, "user")}, 3000},
		"an item, told twice":     {[][]byte{item(added, "user"), item(done, "user")}, 3000},
		"an item of the answer":   {[][]byte{item(added, "assistant")}, 0},
		"both, and a response":    {[][]byte{setup, item(added, "system"), before}, 3000},
		"items after a response":  {[][]byte{before, item(added, "user")}, 275 + 3000},
		"instructions and two":    {[][]byte{setup, item(created, "user"), item(created, "user")}, 9000},
		"another's instructions":  {[][]byte{setup, message(sessionBeta, 1000)}, 0},
		"a response with neither": {[][]byte{before}, 275},
	} {
		t.Run(name, func(t *testing.T) {
			for _, last := range []string{"", `{"type":"response.done","response":{"status":"cancelled"}}`} {
				frames := slices.Concat(c.before...)
				frames = append(frames, message(responseBegun, 1000)...)
				if last != "" {
					frames = append(frames, message(last, 1000)...)
				}
				w, charges := watched(t, frames, nil)
				charge, open := w.Rest()
				if last != "" {
					charge = charges[len(charges)-1]
				} else {
					require.True(t, open)
				}
				require.True(t, charge.Estimated)
				require.InDelta(t, c.want, charge.Used.PromptTokens, 60)
			}
		})
	}
}

// TestEveryDeltaIsAToken: a token that is one byte, and events as short as they can be.
func TestEveryDeltaIsAToken(t *testing.T) {
	frames := message(responseBegun, 1000)
	for range 300 {
		frames = append(frames, message(`{"type":"response.output_text.delta","delta":"a"}`, 1000)...)
	}
	frames = append(frames, message(`{"delta":"`+strings.Repeat("word ", 400)+`","type":"response.output_text.delta"}`, 700)...)
	w, _ := watched(t, frames, nil)
	rest, _ := w.Rest()
	require.InDelta(t, 575, rest.Used.CompletionTokens, 1)
	require.EqualValues(t, 4, rest.Sent, "nothing is known of the prompt")
	r := Rest{Charge: rest}
	require.EqualValues(t, 9000, r.Sent(36_000).Usage.PromptTokens)
	require.Zero(t, r.Usage.PromptAudio)
}

// TestResponsesThatAreOpenAtOnce are all charged if the session is cut.
func TestResponsesThatAreOpenAtOnce(t *testing.T) {
	frames := message(responseDone, 1000)
	for range 3 {
		frames = append(frames, message(responseBegun, 1000)...)
		for range 100 {
			frames = append(frames, message(`{"type":"response.output_text.delta","delta":" one"}`, 1000)...)
		}
	}
	w, _ := watched(t, frames, nil)
	rest, _ := w.Rest()
	require.EqualValues(t, 3*275, rest.Used.PromptTokens)
	require.EqualValues(t, 300, rest.Used.CompletionTokens)
	w, charges := watched(t, append(frames, message(strings.Replace(responseDone, `"output_tokens":148`,
		`"output_tokens":100`, 1), 1000)...), nil)
	require.Len(t, charges, 2)
	rest, open := w.Rest()
	require.True(t, open)
	require.EqualValues(t, 2*275, rest.Used.PromptTokens)
	require.EqualValues(t, 200, rest.Used.CompletionTokens)
}

// TestSoundIsNoText: a call of half an hour is not charged as a text of its length.
func TestSoundIsNoText(t *testing.T) {
	frames := append(message(`{"type":"input_audio_buffer.speech_started","audio_start_ms":10}`, 1000),
		message(responseBegun, 1000)...)
	w, _ := watched(t, frames, nil)
	rest, open := w.Rest()
	require.True(t, open)
	r := Rest{Charge: rest}
	require.EqualValues(t, 18_000, r.Sent(1800*64_000).Usage.PromptTokens)
	require.EqualValues(t, 18_000, r.Usage.PromptAudio)
}

func TestTheEndOfTheLastFrameIsKnown(t *testing.T) {
	var w SessionWatch
	first := message(errorEvent, 1000)
	_, err := w.Feed(append(first, first[:20]...))
	require.NoError(t, err)
	require.Equal(t, len(first)+4, w.Boundary(), "after the ping")
	require.False(t, w.AtBoundary())
	_, err = w.Feed(first[20:30])
	require.NoError(t, err)
	require.Equal(t, -1, w.Boundary())
	_, err = w.Feed(first[30:])
	require.NoError(t, err)
	require.Equal(t, len(first)-30, w.Boundary())
	require.True(t, w.AtBoundary())
	_, closed := w.Closed()
	require.False(t, closed)
	for _, c := range websocket.AppendClose(nil, websocket.StatusNormal, "bye") {
		_, err = w.Feed([]byte{c})
		require.NoError(t, err)
	}
	status, closed := w.Closed()
	require.True(t, closed)
	require.EqualValues(t, websocket.StatusNormal, status)
}

func TestBytesThatAreNotFramesEndASession(t *testing.T) {
	var w SessionWatch
	charges, err := w.Feed(append(message(responseDone, 1000), "HTTP/1.1"...))
	require.ErrorIs(t, err, websocket.ErrProtocol)
	require.Len(t, charges, 1, "what was billed before is charged")
}

func FuzzSession(f *testing.F) {
	f.Add(append(message(sessionCreated, 100), message(responseDone, 77)...))
	f.Add(message(`{"response":{"usage":{"input_tokens":1e99}},"type":"response.done"}`, 10))
	f.Fuzz(func(t *testing.T, frames []byte) {
		if len(frames) > 1<<14 {
			return
		}
		var whole, parts SessionWatch
		want, wantErr := whole.Feed(frames)
		var got []Charge
		var err error
		for i := 0; i < len(frames) && err == nil; i++ {
			var more []Charge
			more, err = parts.Feed(frames[i : i+1])
			got = append(got, more...)
		}
		require.Equal(t, wantErr, err)
		require.Equal(t, want, got)
	})
}

// BenchmarkSession reads a second of audio: ten deltas.
func BenchmarkSession(b *testing.B) {
	var piece []byte
	for range 10 {
		piece = append(piece, message(delta("response.output_audio.delta", 2*audioToken), 1<<20)...)
	}
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	var w SessionWatch
	for b.Loop() {
		if _, err := w.Feed(piece); err != nil {
			b.Fatal(err)
		}
	}
}
