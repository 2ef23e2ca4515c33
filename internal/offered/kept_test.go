package offered_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/offered"
)

// TestReferencesToWhatAVendorKeeps has them in every dialect, and what only looks like one.
func TestReferencesToWhatAVendorKeeps(t *testing.T) {
	const other = `{"type":"text","text":"https://x.test/file_id"}`
	for body, want := range map[string]string{
		`{"cachedContent":"cachedContents/1","contents":[]}`:                                                                         "cachedContent",
		`{"cached_content":"cachedContents/1"}`:                                                                                      "cached_content",
		`{"c\u0061chedContent":"cachedContents/1"}`:                                                                                  "cachedContent",
		`{"extra_body":{"google":{"cached_content":"cachedContents/1"}}}`:                                                            "extra_body.google.cached_content",
		`{"generateContentRequest":{"cachedContent":"cachedContents/1"}}`:                                                            "generateContentRequest.cachedContent",
		`{"previous_response_id":"resp_1","input":"hi"}`:                                                                             "previous_response_id",
		`{"previous_response_id":null,"conversation":null,"input":"hi"}`:                                                             "",
		`{"conversation":{"id":"conv_1"},"input":"hi"}`:                                                                              "conversation",
		`{"prompt":{"id":"p"}}`:                                                                                                      "prompt",
		`{"prompt":"hi"}`:                                                                                                            "",
		`{"container":"container_1"}`:                                                                                                "container",
		`{"container":{"id":"container_1"}}`:                                                                                         "container",
		`{"container":{"skills":[{"type":"custom","skill_id":"s"}]}}`:                                                                "container.skill_id",
		`{"container":{"skills":[{"type":"anthropic","skill_id":"pptx"}]}}`:                                                          "",
		`{"tools":[{"type":"file_search","vector_store_ids":["vs_1"]}]}`:                                                             "tools",
		`{"tools":[{"fileSearch":{"fileSearchStoreNames":["a"]}}]}`:                                                                  "tools",
		`{"tools":[{"retrieval":{"vertexAiSearch":{"datastore":"a"}}}]}`:                                                             "tools",
		`{"tools":[{"type":"code_interpreter","container":"cntr_1"}]}`:                                                               "tools[].container",
		`{"tools":[{"type":"code_interpreter","container":{"type":"auto"}}]}`:                                                        "",
		`{"tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-1"]}}]}`:                                  "tools[].container.file_ids",
		`{"tools":[{"type":"function","function":{"name":"f","parameters":{"properties":{"file_id":{"const":"x"}}}}}]}`:              "",
		`{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}`:                                           "input.file_id",
		`{"input":[{"role":"user","content":[{"type":"input_file","f\u0069le_id":"file-1"}]}]}`:                                      "input.file_id",
		`{"input":[{"type":"item_reference","id":"msg_1"}]}`:                                                                         "input",
		`{"input":[{"type":"code_interpreter_call","container_id":"cntr_1","code":"file_id"}]}`:                                      "",
		`{"input":[{"role":"assistant","content":[{"type":"output_text","annotations":[{"file_id":"file-1"}]}]}]}`:                   "",
		`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}]}`:                                     "messages.file_id",
		`{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_1"}}]}]}`:                 "messages.file_id",
		`{"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"file_1"}]}]}`:                                  "messages.file_id",
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"file_id":"x"}}]}]}`:                                "",
		`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"document","source":{"file_id":"x"}}]}]}]}`: "messages.file_id",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"gs://b/x.png"}}]}]}`:                         "messages.url",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.test/a"}},` + other + `]}]}`:       "",
		`{"messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"ms:\/\/file"}}]}]}`:                          "messages.url",
		`{"messages":[{"role":"user","content":[` + other + `]}]}`:                                                                   "",
		`{"contents":[{"parts":[{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/files/a"}}]}]}`:             "contents.fileUri",
		`{"contents":[{"parts":[{"file_data":{"file_uri":"gs://b/a"}}]}]}`:                                                           "contents.file_uri",
		`{"contents":[{"parts":[{"fileData":{"fileUri":"https://www.youtube.com/watch?v=a"}}]}]}`:                                    "",
		`{"contents":[{"parts":[{"functionCall":{"name":"f","args":{"file_id":"x"}}}]}]}`:                                            "",
	} {
		require.Equal(t, want, offered.Reference([]byte(body)), body)
		if want != "" && read(body).Kept != "" {
			require.True(t, read(body).HasMore(), body)
		}
	}
}

func BenchmarkMayRefer(b *testing.B) {
	body := []byte(`{"messages":[` + strings.Repeat(`{"role":"user","content":"He said \"no\", and left.\nThen: silence, at https://x.test/a_b."},`, 200) +
		`{"role":"user","content":"hi"}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		offered.MayRefer(body)
	}
}
