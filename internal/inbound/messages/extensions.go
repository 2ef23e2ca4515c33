package messages

import (
	"github.com/tidwall/gjson"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/inbound/compose"
)

// Blocks that other vendors' answers have beside text, thinking and calls: images, and citations of pages. Anthropic
// would refuse them in the next request, so that package dialects/messages takes them out there.

// maxCited bounds the text of a page in a citation, in characters, as Anthropic does.
const maxCited = 150

// appendCitation appends a page that a text cites. There is no encrypted index, which only Anthropic makes.
func appendCitation(dst []byte, c compose.Citation) []byte {
	text := []rune(c.Text)
	dst = append(dst, `{"type":"web_search_result_location","cited_text":`...)
	dst = openai.AppendString(dst, string(text[:min(len(text), maxCited)]))
	dst = openai.AppendString(append(dst, `,"encrypted_index":"","title":`...), c.Title)
	return append(openai.AppendString(append(dst, `,"url":`...), c.URL), '}')
}

func appendCitations(dst []byte, cited []compose.Citation) []byte {
	if len(cited) == 0 {
		return append(dst, "null"...)
	}
	dst = append(dst, '[')
	for i, c := range cited {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendCitation(dst, c)
	}
	return append(dst, ']')
}

// appendImage appends a block with an image that the model has made, in the form of images of the user.
func appendImage(dst []byte, i compose.Image) []byte {
	dst = append(dst, `{"type":"image","source":{`...)
	if i.URL != "" {
		return append(openai.AppendString(append(dst, `"type":"url","url":`...), i.URL), "}}"...)
	}
	dst = openai.AppendString(append(dst, `"type":"base64","media_type":`...), i.Type)
	return append(openai.AppendString(append(dst, `,"data":`...), i.Data), "}}"...)
}

// member writes images and citations. Citations belong to the open text. If it has ended already, they get a block of
// text that is empty.
func (w *stream) member(e *chat.Event) {
	switch e.Name {
	case "images":
		for _, image := range compose.Images(e.JSON) {
			w.whole(appendImage(nil, image))
		}
	case "annotations":
		cited := compose.Citations(e.JSON)
		if len(cited) == 0 {
			return
		}
		w.openPiece(textBlock)
		for _, c := range cited {
			w.event("content_block_delta")
			w.Buf = append(w.Buf, `,"delta":{"type":"citations_delta","citation":`...)
			w.Buf = append(appendCitation(w.Buf, c), "}}\n\n"...)
		}
	}
}

// sign writes what a vendor needs to have back of the thinking: the signature of the open block, or a block that only
// the vendor can read.
func (w *stream) sign(thought []byte) {
	t := gjson.ParseBytes(thought)
	if t.Get("type").Str == "redacted_thinking" {
		w.whole(openai.AppendString([]byte(`{"type":"redacted_thinking","data":`), t.Get("data").Str), '}')
		return
	}
	if w.open != thinkingBlock {
		if w.unsigned {
			return // it is about a block that has ended
		}
		w.openPiece(thinkingBlock) // of thinking that nobody may read
	}
	w.event("content_block_delta")
	w.Buf = append(w.Buf, `,"delta":{"type":"signature_delta","signature":`...)
	w.Buf = append(openai.AppendString(w.Buf, t.Get("signature").Str), "}}\n\n"...)
	w.signed = true
	w.close()
}

// whole writes a block that has no pieces.
func (w *stream) whole(block []byte, rest ...byte) {
	w.begin("")
	w.flushCalls()
	w.close()
	w.event("content_block_start")
	w.Buf = append(append(append(append(w.Buf, `,"content_block":`...), block...), rest...), "}\n\n"...)
	w.event("content_block_stop")
	w.Buf = append(w.Buf, "}\n\n"...)
	w.index++
}
