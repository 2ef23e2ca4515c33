package providertest

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/internal/recordings"
	"github.com/modelgate/modelgate/internal/translate"
)

// A recording is one recorded exchange with a vendor.
type recording struct {
	endpoint translate.Endpoint
	dialect  dialect
	path     string // of the URL; empty if only the answer was recorded
	model    string // the vendor's name of it
	request  []byte // nil if only the answer was recorded
	streamed bool
	response response
	// unjudged says that nothing is known of how it is to be read: somebody made it who wanted to see a client fail.
	unjudged bool
}

// A dialect is how a recorded exchange is written.
type dialect string

const (
	openAI     dialect = "openai"
	messages   dialect = "messages"
	gemini     dialect = "gemini"
	converse   dialect = "converse"
	cohere     dialect = "cohere"
	otherKinds dialect = "" // no facts are known
)

// kindOf returns what the recorder's kinds of exchange are. Those that are none of the three endpoints have none.
func kindOf(kind string) (translate.Endpoint, dialect) {
	switch kind {
	case "messages", "anthropic-rawPredict", "anthropic-streamRawPredict", "invoke", "invoke-with-response-stream":
		return translate.Chat, messages
	case "generateContent", "streamGenerateContent":
		return translate.Chat, gemini
	case "converse", "converse-stream":
		return translate.Chat, converse
	case "chat":
		return translate.Chat, cohere
	case "completions":
		return translate.Completions, openAI
	case "embeddings":
		return translate.Embeddings, openAI
	case "embed", "batchEmbedContents", "embedContent", "predict":
		return translate.Embeddings, otherKinds
	case "openai-compat":
		return translate.Chat, openAI
	}
	if strings.HasSuffix(kind, "chat-completions") {
		return translate.Chat, openAI
	}
	return "", otherKinds
}

// readRecording reads a folder, or returns nil if it is none of the three endpoints.
func readRecording(t *testing.T, files fs.FS, dir string) *recording {
	t.Helper()
	var meta struct {
		Kind    string            `json:"kind"`
		URL     string            `json:"url"`
		Model   string            `json:"model"`
		Status  int               `json:"status"`
		Headers map[string]string `json:"response_headers"`
	}
	require.NoError(t, json.Unmarshal(recordings.Read(t, files, dir+"/meta.json"), &meta))
	rec := &recording{model: meta.Model, response: response{status: meta.Status, header: http.Header{}}}
	if rec.endpoint, rec.dialect = kindOf(meta.Kind); rec.endpoint == "" {
		return nil
	}
	_, asked, _ := strings.Cut(strings.TrimPrefix(meta.URL, "https://"), "/")
	asked, _, _ = strings.Cut(asked, "?")
	var err error
	rec.path, err = url.PathUnescape("/" + asked)
	require.NoError(t, err)
	for name, value := range meta.Headers {
		rec.response.header.Set(name, value)
	}
	if rec.request, err = fs.ReadFile(files, dir+"/request.json"); err != nil {
		return nil // a body that is not JSON is none of a client's either
	}
	if rec.model == "" {
		rec.model = gjson.GetBytes(rec.request, "model").String()
	}
	paths := recordings.Glob(t, files, dir+"/response.*")
	require.Len(t, paths, 1)
	rec.streamed = path.Ext(paths[0]) != ".json"
	if !rec.streamed && strings.HasPrefix(meta.Kind, "stream") && meta.Status == http.StatusOK {
		return nil // Gemini's stream as one JSON array, which is not what the gateway asks for
	}
	rec.response.body = recordings.Read(t, files, paths[0])
	return rec
}

// readAnswer reads an answer that was recorded without its request, or returns nil if it is none of the endpoints'.
func readAnswer(t *testing.T, files fs.FS, name string) *recording {
	t.Helper()
	body := recordings.Read(t, files, name)
	rec := &recording{response: response{status: http.StatusOK, header: http.Header{}, body: body}}
	switch first, _, _ := bytes.Cut(body, []byte("\n")); {
	case strings.HasSuffix(name, ".chunks.txt"):
		rec.streamed = true
		rec.endpoint, rec.dialect = dialectOfAnswer(gjson.ParseBytes(first))
		if rec.dialect == converse {
			rec.response.body = chunksToFrames(body)
		} else {
			rec.response.body = chunksToEvents(body, rec.dialect)
		}
	case bytes.HasPrefix(body, []byte("data:")):
		rec.streamed = true
		rec.endpoint, rec.dialect = dialectOfAnswer(gjson.ParseBytes(bytes.TrimPrefix(first, []byte("data:"))))
	case path.Ext(name) == ".html":
		rec.endpoint, rec.response.status = translate.Chat, http.StatusNotFound
	case strings.Contains(name, "failure") && gjson.GetBytes(body, "error.code").Int() >= 400:
		rec.endpoint, rec.response.status = translate.Chat, int(gjson.GetBytes(body, "error.code").Int())
	default:
		rec.endpoint, rec.dialect = dialectOfAnswer(gjson.ParseBytes(body))
	}
	rec.unjudged = strings.Contains(name, "-unary-failure-") && rec.response.status == http.StatusOK
	if rec.endpoint == "" {
		return nil
	}
	rec.model = map[dialect]string{messages: "claude-sonnet-4-5", gemini: "gemini-2.5-flash",
		converse: "amazon.nova-lite-v1:0"}[rec.dialect]
	if rec.model == "" {
		rec.model = "m"
	}
	return rec
}

// dialectOfAnswer tells an answer, or the first event of one, by its members.
func dialectOfAnswer(v gjson.Result) (translate.Endpoint, dialect) {
	switch kind := v.Get("type").String(); v.Get("object").String() {
	case "chat.completion", "chat.completion.chunk":
		return translate.Chat, openAI
	case "text_completion":
		return translate.Completions, openAI
	case "list":
		return translate.Embeddings, openAI
	case "":
		switch {
		case kind == "message" || kind == "message_start":
			return translate.Chat, messages
		case kind == "message-start" || v.Get("message.role").Exists() && v.Get("finish_reason").Exists():
			return translate.Chat, cohere
		case v.Get("candidates").Exists() || v.Get("promptFeedback").Exists():
			return translate.Chat, gemini
		case v.Get("messageStart").Exists() || v.Get("contentBlockStart").Exists() || v.Get("contentBlockDelta").Exists() ||
			v.Get("output.message").Exists():
			return translate.Chat, converse
		}
	}
	return "", otherKinds
}

// chunksToEvents makes a stream of recorded data lines. The recorder left out names of events and OpenAI's end mark.
func chunksToEvents(lines []byte, d dialect) []byte {
	var out []byte
	for line := range bytes.Lines(lines) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if name := gjson.GetBytes(line, "type").String(); name != "" && (d == messages || d == cohere) {
			out = append(append(append(out, "event: "...), name...), '\n')
		}
		out = append(append(append(out, "data: "...), line...), "\n\n"...)
	}
	if d == openAI && !bytes.Contains(out, []byte("[DONE]")) {
		out = append(out, "data: [DONE]\n\n"...)
	}
	return out
}

// chunksToFrames makes AWS's frames of recorded lines such as {"messageStop":{...}}.
func chunksToFrames(lines []byte) []byte {
	var out []byte
	for line := range bytes.Lines(lines) {
		gjson.ParseBytes(line).ForEach(func(name, payload gjson.Result) bool {
			kind := "event"
			if name.Str == ":exception" {
				kind = "exception"
				payload.ForEach(func(exception, p gjson.Result) bool {
					name, payload = exception, p
					return false
				})
			}
			raw := payload.Raw
			if name.Str == "chunk" {
				raw = `{"bytes":"` + base64.StdEncoding.EncodeToString([]byte(raw)) + `","p":"abc"}`
			}
			out = appendFrame(out, kind, name.Str, raw)
			return true
		})
	}
	return out
}

// appendFrame appends an event, or a thing of another kind, in AWS's framing: the lengths of the frame and of its
// headers, their checksum, the headers, the payload, and the checksum of it all.
func appendFrame(dst []byte, kind, name, payload string) []byte {
	var headers []byte
	for _, h := range [][2]string{{":" + kind + "-type", name}, {":content-type", "application/json"},
		{":message-type", kind}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(h[1]))) // 7 is a string
		headers = append(headers, h[1]...)
	}
	start := len(dst)
	dst = binary.BigEndian.AppendUint32(dst, uint32(16+len(headers)+len(payload)))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(headers)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
	dst = append(append(dst, headers...), payload...)
	return binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(dst[start:]))
}
