package messages

import (
	"cmp"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound/compose"
	"github.com/modelgate/modelgate/internal/inbound/kinds"
)

// Expected tags of blocks, for errors.
var (
	userTags      = []string{"text", "image", "document", "search_result", "tool_result"}
	assistantTags = []string{"text", "thinking", "redacted_thinking", "tool_use"}
	resultTags    = []string{"text", "image", "document", "search_result", "tool_reference"}
	systemTags    = []string{"text"}
	sourceTags    = []string{"text", "image"}
)

// sourceBlocks are the blocks of a document's content.
var sourceBlocks = kinds.Table{"text": kinds.Blocks["text"], "image": kinds.Blocks["image"]}

// open begins a message of the chat completion, which comes from a place of the client's request.
func (b *builder) open(role, place string) {
	b.Begin("{")
	b.Text("role", role)
	b.Places = append(b.Places, place)
}

func (b *builder) system() error {
	return b.texts("system", b.System)
}

// texts appends a message of the system, which has only text.
func (b *builder) texts(place string, blocks content) error {
	if blocks = prompt(blocks); len(blocks) == 0 {
		return nil
	}
	b.open("system", place)
	if len(blocks) == 1 && blocks[0].Type == "text" && !compose.IsAsked(blocks[0].CacheControl) {
		b.String("content", blocks[0].Text)
		b.End("}")
		return nil
	}
	b.Member("content", "[")
	for i := range blocks {
		if err := b.part(fmt.Sprintf("%s.%d", place, i), &blocks[i], kinds.SystemBlocks, systemTags); err != nil {
			return err
		}
	}
	b.End("]}")
	return nil
}

// turn appends the messages of one turn.
func (b *builder) turn(i int, m *message) error {
	place := fmt.Sprintf("messages.%d", i)
	if m.Role == "system" && (m.Content == nil || m.ClearAt == "next_user_message" && b.userAfter(i)) {
		return nil // it says nothing to the model
	}
	if m.Content == nil {
		return required(place + ".content")
	}
	switch m.Role {
	case "user":
		return b.user(place, m.Content)
	case "assistant":
		return b.assistant(place, m.Content)
	case "system":
		return b.texts(place, m.Content)
	}
	return openai.CodeInvalidValue.On(place+".role",
		"%s.role: Input should be 'user' or 'assistant'.", place)
}

// user appends the results of tools, each a message of its own, and then everything else as one message. OpenAI takes
// only text as a result, so that the images of results go into that message.
func (b *builder) user(place string, blocks content) error {
	if len(blocks) == 0 {
		return nil
	}
	var shown []shownResult
	others := 0
	for i := range blocks {
		if blocks[i].Type != "tool_result" {
			others++
			continue
		}
		media, err := b.result(fmt.Sprintf("%s.content.%d", place, i), &blocks[i])
		if err != nil {
			return err
		}
		if len(media) > 0 {
			shown = append(shown, shownResult{blocks[i].ToolUseID, media})
		}
	}
	if others+len(shown) == 0 {
		return nil
	}
	b.open("user", place)
	if len(blocks) == 1 && blocks[0].Type == "text" && !compose.IsAsked(blocks[0].CacheControl) {
		b.String("content", blocks[0].Text)
		b.End("}")
		return nil
	}
	b.Member("content", "[")
	for _, s := range shown {
		b.textPart(&block{Text: "From the result of the tool call " + b.sent.Carrier.Bare(s.id) + ":"})
		for i := range s.media {
			if err := b.part(place, &s.media[i], kinds.ResultBlocks, resultTags); err != nil {
				return err
			}
		}
	}
	for i := range blocks {
		if blocks[i].Type == "tool_result" {
			continue
		}
		if err := b.part(fmt.Sprintf("%s.content.%d", place, i), &blocks[i], kinds.Blocks, userTags); err != nil {
			return err
		}
	}
	b.orEmpty()
	b.End("]}")
	return nil
}

// A shownResult has the parts of a call's result besides text.
type shownResult struct {
	id    string
	media content
}

// result appends the result of a call. It returns the blocks that are not text.
func (b *builder) result(place string, k *block) (media content, err error) {
	if k.ToolUseID == "" {
		return nil, required(place + ".tool_use_id")
	}
	blocks, err := inner(place+".content", k.Content)
	if err != nil {
		return nil, err
	}
	b.open("tool", place)
	b.Text("tool_call_id", k.ToolUseID)
	if len(blocks) == 1 && blocks[0].Type == "text" && !k.IsError && !compose.IsAsked(blocks[0].CacheControl) {
		b.String("content", blocks[0].Text) // which more vendors take than parts
		b.cache(k.CacheControl)
		b.End("}")
		return nil, nil
	}
	b.Member("content", "[")
	if k.IsError {
		b.textPart(&block{Text: "Error:"})
	}
	for i := range blocks {
		switch blocks[i].Type {
		case "image", "document":
			media = append(media, blocks[i])
		default:
			err := b.part(fmt.Sprintf("%s.content.%d", place, i), &blocks[i], kinds.ResultBlocks, resultTags)
			if err != nil {
				return nil, err
			}
		}
	}
	b.orEmpty()
	b.End("]")
	b.cache(k.CacheControl)
	b.End("}")
	return media, nil
}

// inner reads the content within a block.
func inner(place string, v jsontext.Value) (content, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	var c content
	if err := json.Unmarshal(v, &c); err != nil {
		return nil, openai.CodeInvalidType.On(place, "%s: Expected a string or a list of blocks.", place)
	}
	return c, nil
}

// part appends a block of the user as a part.
func (b *builder) part(place string, k *block, table kinds.Table, expected []string) error {
	switch k.Type {
	case "text":
		b.textPart(k)
		return nil
	case "tool_addition", "tool_removal", "tool_reference", "browser_state":
		b.textPart(&block{Text: b.told(k), CacheControl: k.CacheControl})
		return nil
	}
	if table[k.Type].Decision == "" {
		return unknownTag(place, k.Type, expected...)
	}
	switch k.Type {
	case "image":
		return b.image(place, k)
	case "document":
		return b.document(place, k)
	case "search_result":
		return b.searchResult(place, k)
	}
	return b.other(place, k, table, expected)
}

func (b *builder) image(place string, k *block) error {
	url := k.Source.URL
	switch {
	case k.Source.Type == "base64":
		url = "data:" + k.Source.MediaType + ";base64," + k.Source.Data
	case k.Source.Type != "url":
		return b.noSource(place, k)
	}
	b.Begin(`{"type":"image_url","image_url":{`)
	b.String("url", url)
	b.End("}")
	b.cache(k.CacheControl)
	b.End("}")
	return nil
}

// noSource is the error for a source that no other vendor can read.
func (b *builder) noSource(place string, k *block) error {
	if k.Source.Type == "file" {
		return openai.CodeUnsupportedValue.On(place+".source",
			"%s.source: The provider of this model does not read files by id. Send the content.", place)
	}
	return unknownTag(place+".source", k.Source.Type, "base64", "url")
}

// document appends a document: a PDF as a file, and text as text.
func (b *builder) document(place string, k *block) error {
	file := k.Source.URL
	switch k.Source.Type {
	case "text":
		b.textPart(&block{Text: titled(k, k.Source.Data), CacheControl: k.CacheControl})
		return nil
	case "content":
		blocks, err := inner(place+".source.content", k.Source.Content)
		if err != nil {
			return err
		}
		b.textPart(&block{Text: titled(k, "")})
		for i := range blocks {
			err := b.part(fmt.Sprintf("%s.source.content.%d", place, i), &blocks[i], sourceBlocks, sourceTags)
			if err != nil {
				return err
			}
		}
		return nil
	case "base64":
		file = "data:" + cmp.Or(k.Source.MediaType, "application/pdf") + ";base64," + k.Source.Data
	case "url":
	default:
		return b.noSource(place, k)
	}
	if k.Context != "" {
		b.textPart(&block{Text: k.Context})
	}
	b.Begin(`{"type":"file","file":{`)
	b.String("filename", cmp.Or(k.Title, "document.pdf"))
	b.String("file_data", file)
	b.End("}")
	b.cache(k.CacheControl)
	b.End("}")
	return nil
}

// titled returns a document as text.
func titled(k *block, text string) string {
	for _, before := range []string{k.Context, k.Title} {
		if before != "" {
			text = before + "\n\n" + text
		}
	}
	return text
}

func (b *builder) searchResult(place string, k *block) error {
	blocks, err := inner(place+".content", k.Content)
	if err != nil {
		return err
	}
	b.textPart(&block{Text: titled(&block{Title: k.Title}, k.Source.URL), CacheControl: k.CacheControl})
	for i := range blocks {
		if err := b.part(fmt.Sprintf("%s.content.%d", place, i), &blocks[i], kinds.SystemBlocks, systemTags); err != nil {
			return err
		}
	}
	return nil
}
