package responses_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAConversationGrowsWithItsResponses(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	made := r.do("POST", "/v1/conversations", `{"metadata":{"topic":"a"},"items":[{"role":"user","content":"I am Ada"}]}`)
	require.Equal(t, "conversation", made.Get("object").Str, made.body)
	id := made.Get("id").Str
	first := r.create(`{"model":"m","conversation":"` + id + `","input":"Who am I?","stream":true}`)
	require.Contains(t, first.body, `"conversation":{"id":"`+id+`"}`)
	asked, _ := r.last()
	require.Equal(t, "I am Ada", asked.Get("input.0.content.0.text").Str)
	require.False(t, asked.Get("conversation").Exists())

	r.create(`{"model":"m","conversation":{"id":"` + id + `"},"input":"And now?","store":false}`)
	asked, _ = r.last()
	require.Equal(t, int64(5), asked.Get("input.#").Int(), asked.Raw)

	items := r.do("GET", "/v1/conversations/"+id+"/items?order=asc&limit=100", "")
	require.Equal(t, `["message","message","reasoning","message","message","reasoning","message"]`, items.Get("data.#.type").Raw)
	user := items.Get("data.1.id").Str
	require.Equal(t, "Who am I?", r.do("GET", "/v1/conversations/"+id+"/items/"+user, "").Get("content.0.text").Str)
	require.Equal(t, "conversation", r.do("DELETE", "/v1/conversations/"+id+"/items/"+user, "").Get("object").Str)
	require.Equal(t, 404, r.do("GET", "/v1/conversations/"+id+"/items/"+user, "").status)
	added := r.do("POST", "/v1/conversations/"+id+"/items", `{"items":[{"role":"assistant","content":"Yes"}]}`)
	require.Equal(t, "output_text", added.Get("data.0.content.0.type").Str, added.body)
	require.Equal(t, "b", r.do("POST", "/v1/conversations/"+id, `{"metadata":{"topic":"b"}}`).Get("metadata.topic").Str)
	require.Equal(t, "b", r.do("GET", "/v1/conversations/"+id, "").Get("metadata.topic").Str)

	reference := r.create(`{"model":"m","conversation":"` + id + `","input":[{"type":"item_reference","id":"` + items.Get("data.0.id").Str + `"}]}`)
	require.Equal(t, "completed", reference.Get("status").Str)
	asked, n := r.last()
	require.Equal(t, "I am Ada", asked.Get("input.7.content.0.text").Str)

	require.Equal(t, "conversation.deleted", r.do("DELETE", "/v1/conversations/"+id, "").Get("object").Str)
	require.Equal(t, 404, r.do("GET", "/v1/conversations/"+id, "").status)
	require.Equal(t, 404, r.do("POST", "/v1/responses", `{"model":"m","conversation":"`+id+`","input":"Hi"}`).status)
	_, after := r.last()
	require.Equal(t, n, after)
}

func TestConversationsRefuseBadInput(t *testing.T) {
	r := newWorld(t).replica()
	id := r.do("POST", "/v1/conversations", `{}`).Get("id").Str
	for body, param := range map[string]string{
		`{"items":[1]}`: "items[0]", `{"items":{}}`: "items", `{"metadata":{"a":1}}`: "metadata.a", `{"other":1}`: "other",
		`{"items":[{"type":"item_reference","id":"x"}]}`: "items[0]",
	} {
		got := r.do("POST", "/v1/conversations", body)
		require.Equal(t, param, got.Get("error.param").Str, "%s: %s", body, got.body)
	}
	require.Equal(t, "items", r.do("POST", "/v1/conversations/"+id+"/items", `{}`).Get("error.param").Str)
	require.Equal(t, "metadata", r.do("POST", "/v1/conversations/"+id, `{}`).Get("error.param").Str)
}

// TestChangesOfAConversationAtOnceAreAllThere: each reads what the others have added.
func TestChangesOfAConversationAtOnceAreAllThere(t *testing.T) {
	w := newWorld(t)
	r := w.replica()
	id := r.do("POST", "/v1/conversations", `{}`).Get("id").Str
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if i%2 == 0 {
				r.do("POST", "/v1/responses", `{"model":"m","conversation":"`+id+`","input":"`+strconv.Itoa(i)+`"}`)
			} else {
				r.do("POST", "/v1/conversations/"+id+"/items", `{"items":[{"role":"user","content":"`+strconv.Itoa(i)+`"}]}`)
			}
		})
	}
	all.Wait()
	items := r.do("GET", "/v1/conversations/"+id+"/items?limit=100", "")
	require.Equal(t, int64(4*3+4), items.Get("data.#").Int(), items.body)
	require.Len(t, w.blobs(), 4*2+1, "what was replaced is gone")
}
