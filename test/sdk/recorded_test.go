package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/test/cases"
)

// A recorded case is an answer that a vendor once gave, and what any client must make of it. The programs read it,
// too: testdata/recordings.json has the answers, testdata/conversations.json those that a client goes on from.
type recordedCase struct {
	Name, Recording, Model string

	// Of a conversation: the answer to the results of the calls, and what the vendor must see again in the request for
	// it.
	Then, Thinking, Signature string
}

func readCases(t *testing.T, file string) []recordedCase {
	text, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	var list []recordedCase
	require.NoError(t, json.Unmarshal(text, &list))
	require.NotEmpty(t, list)
	return list
}

// dialects are the vendors that give recorded answers, each under a path of its own: how the operation's path ends, by
// whether the answer is streamed. What follows a "-" tells the dialects of a vendor apart.
var dialects = map[string][2]string{
	"anthropic":      {"/messages", "/messages"},
	"bedrock":        {"/converse", "/converse-stream"},
	"bedrock-claude": {"/invoke", "/invoke-with-response-stream"},
	"cohere":         {"/chat", "/chat"},
	"deepseek":       {"/chat/completions", "/chat/completions"},
	"gemini":         {":generateContent", ":streamGenerateContent"},
	"groq":           {"/chat/completions", "/chat/completions"},
	"mistral":        {"/chat/completions", "/chat/completions"},
	"openrouter":     {"/chat/completions", "/chat/completions"},
}

// replay is what a client says to a vendor: which answer it wants, and which one to the results of the calls in it.
var replay = regexp.MustCompile(`replay ([\w.-]+)(?: then ([\w.-]+))?`)

// recorded answers as the vendors once did.
func recorded(t *testing.T) http.HandlerFunc {
	conversations := map[string]recordedCase{}
	files := map[string][]byte{}
	for _, c := range readCases(t, "recordings.json") {
		files[c.Recording] = readRecording(t, c.Recording)
	}
	for _, c := range readCases(t, "conversations.json") {
		conversations[c.Recording] = c
		files[c.Recording], files[c.Then] = readRecording(t, c.Recording), readRecording(t, c.Then)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		dialect, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/recorded/"), "/")
		asked := replay.FindStringSubmatch(string(body))
		if asked == nil {
			complain(w, "the request asks for no recording: "+string(body))
			return
		}
		name := asked[1]
		if asked[2] != "" && goesOn(dialect, body) {
			name = asked[2]
			if complaint := conversations[asked[1]].check(dialect, body); complaint != "" {
				complain(w, complaint)
				return
			}
		}
		streamed := !strings.HasSuffix(name, ".json")
		if complaint := checkCall(r, dialect, "/"+path, body, streamed); complaint != "" {
			complain(w, complaint)
			return
		}
		answer := files[name]
		if dialect == "bedrock-claude" && streamed {
			name, answer = "frames.bin", claudeFrames(answer)
		}
		serveRecording(w, name, answer, forcedTool(body))
	}
}

// checkCall says what is wrong with how the vendor is called, or nothing.
func checkCall(r *http.Request, dialect, path string, body []byte, streamed bool) string {
	ending := dialects[dialect][0]
	if streamed {
		ending = dialects[dialect][1]
	}
	key := r.Header.Get("X-Api-Key") + r.Header.Get("X-Goog-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"),
		"Bearer ")
	switch {
	case r.Method != http.MethodPost || ending == "" || !strings.HasSuffix(path, ending):
		return fmt.Sprintf("not found: %s %s", r.Method, path)
	case key != credential:
		return "the credential is wrong"
	case dialect == "gemini" && streamed && r.URL.Query().Get("alt") != "sse":
		return "a stream without alt=sse is no stream of events"
	case dialect != "gemini" && !strings.HasPrefix(dialect, "bedrock") &&
		gjson.GetBytes(body, "stream").Bool() != streamed:
		return "the client and the recording differ in whether the answer is streamed"
	}
	return ""
}

// A place says where in the request that goes on from a recording something stands that the vendor needs.
type place struct{ turns, thinking, signature, calls, results, asks string }

var claudes = place{
	"messages", "messages.1.content.0.thinking", "messages.1.content.0.signature",
	`messages.1.content.#(type=="tool_use")#.id`, `messages.2.content.#(type=="tool_result")#.tool_use_id`, "thinking",
}

// places are those of the vendors that sign their thinking, or want it back: first in their own turn.
var places = map[string]place{
	"anthropic": claudes, "bedrock-claude": claudes,
	"bedrock": {
		"messages", "messages.1.content.0.reasoningContent.reasoningText.text",
		"messages.1.content.0.reasoningContent.reasoningText.signature",
		"messages.1.content.#.toolUse.toolUseId", "messages.2.content.#.toolResult.toolUseId",
		"additionalModelRequestFields.thinking",
	},
	"gemini": {
		"contents", "none", "contents.1.parts.0.thoughtSignature",
		"contents.1.parts.#.functionCall.name", "contents.2.parts.#.functionResponse.name", "contents",
	},
	"deepseek": {
		"messages", "messages.1.reasoning_content", "none",
		"messages.1.tool_calls.#.id", `messages.#(role=="tool")#.tool_call_id`, "messages",
	},
	"openrouter": {
		"messages", "messages.1.reasoning_details.0.text", "messages.1.reasoning_details.0.signature",
		"messages.1.tool_calls.#.id", `messages.#(role=="tool")#.tool_call_id`, "messages",
	},
}

// goesOn reports whether a request goes on from the recording of a conversation.
func goesOn(dialect string, body []byte) bool {
	return gjson.GetBytes(body, places[dialect].turns+".#").Int() > 1
}

// inOneAlphabet makes base64 of either alphabet comparable: Google's SDK sends signatures back in the other one, and
// Google takes both.
var inOneAlphabet = strings.NewReplacer("-", "+", "_", "/")

// check says what the vendor would miss in a request that goes on, or nothing: what it said of its thinking and signed
// must be there as it was, a result for each of its calls, and the request to think further.
func (c recordedCase) check(dialect string, body []byte) string {
	p := places[dialect]
	calls, results := gjson.GetBytes(body, p.calls).Raw, gjson.GetBytes(body, p.results).Raw
	switch {
	case gjson.GetBytes(body, p.thinking).Str != c.Thinking:
		return "the thinking is not what it was: " + string(body)
	case inOneAlphabet.Replace(gjson.GetBytes(body, p.signature).Str) != inOneAlphabet.Replace(c.Signature):
		return "the signature is not what it was: " + string(body)
	case len(calls) <= len("[]") || calls != results || strings.Contains(calls, "~"):
		return fmt.Sprintf("the calls are %s, the results are of %s", calls, results)
	case !gjson.GetBytes(body, p.asks).Exists():
		return "the model is no longer asked to think: " + string(body)
	}
	return ""
}

// forcedTool returns the tool that a request makes the model call, or nothing.
func forcedTool(body []byte) string {
	found := gjson.GetManyBytes(body, "tool_choice.name", "toolConfig.toolChoice.tool.name")
	return found[0].Str + found[1].Str
}

// readRecording reads a recording of these cases, or of the whole system's.
func readRecording(t *testing.T, name string) []byte {
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if errors.Is(err, fs.ErrNotExist) {
		return cases.Recording(t, name)
	}
	require.NoError(t, err)
	return body
}

// serveRecording answers with a recording. A model that is made to call a tool calls that one, whose name in the
// recordings is "json".
func serveRecording(w http.ResponseWriter, name string, body []byte, forced string) {
	if forced != "" {
		body = bytes.ReplaceAll(body, []byte(`"name":"json"`), []byte(`"name":"`+forced+`"`))
	}
	kinds := map[string]string{".json": "application/json", ".sse": "text/event-stream",
		".bin": "application/vnd.amazon.eventstream"}
	w.Header().Set("Content-Type", kinds[filepath.Ext(name)])
	for piece := range slices.Chunk(body, 500) { // cut anywhere
		send(w, string(piece))
	}
}

// claudeFrames returns a stream of Claude's as Bedrock sends it.
func claudeFrames(stream []byte) []byte {
	var frames []byte
	for line := range bytes.Lines(stream) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			frames = append(frames, cases.ClaudeFrame(string(bytes.TrimSpace(data)))...)
		}
	}
	return frames
}

// complain refuses a request in a form that every dialect of the vendors knows enough of to pass the message on.
func complain(w http.ResponseWriter, message string) {
	answer(w, http.StatusBadRequest, map[string]any{
		"type": "error", "message": message,
		"error": map[string]any{"type": "invalid_request_error", "message": message, "code": 400,
			"status": "INVALID_ARGUMENT"},
	})
}
