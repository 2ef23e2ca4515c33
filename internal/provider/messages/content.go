package messages

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// texts turns the text and refusal parts of a message into text blocks. Other parts have no place where it is used.
func texts(m *openai.Message, param string) ([]block, error) {
	var blocks []block
	for i, p := range m.Content {
		switch p.Type {
		case "text", "refusal":
			blocks = appendText(blocks, p.Text+p.Refusal, p.CacheControl)
		default:
			return nil, badValue(fmt.Sprintf("%s.content[%d].type", param, i), "Content of type '%s' is not supported in a message of the role '%s'.", p.Type, m.Role)
		}
	}
	return cacheLast(blocks, m.CacheControl), nil
}

// parts turns the parts of a user's message or a tool's result into blocks.
func parts(m *openai.Message, param string) ([]block, error) {
	var blocks []block
	for i := range m.Content {
		p := &m.Content[i]
		at := fmt.Sprintf("%s.content[%d]", param, i)
		if p.Type == "text" {
			blocks = appendText(blocks, p.Text, p.CacheControl)
			continue
		}
		b, err := media(p, at)
		if err != nil {
			return nil, err
		}
		b.CacheControl = p.CacheControl
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func media(p *openai.Part, at string) (block, error) {
	switch {
	case p.Type == "image_url" && p.ImageURL != nil:
		return image(p.ImageURL.URL, at)
	case p.Type == "file" && p.File != nil:
		return file(p.File, at)
	}
	return block{}, badValue(at+".type", "Content of type '%s' is not supported by this model's provider.", p.Type)
}

// appendText appends a text block, unless the text is blank: the vendor refuses blank blocks.
func appendText(blocks []block, text string, cache jsontext.Value) []block {
	if strings.TrimSpace(text) == "" {
		return blocks
	}
	return append(blocks, block{Type: "text", Text: text, CacheControl: cache})
}

// cacheLast moves a message's own cache_control to its last block, which has the same meaning.
func cacheLast(blocks []block, cache jsontext.Value) []block {
	if asked(cache) && len(blocks) > 0 {
		blocks[len(blocks)-1].CacheControl = cache
	}
	return blocks
}

func image(uri, at string) (block, error) {
	if isWeb(uri) {
		return block{Type: "image", Source: &source{Type: "url", URL: uri}}, nil
	}
	mediaType, data, ok := dataURI(uri)
	if !ok {
		return block{}, openai.BadRequest(at+".image_url.url", "invalid_image_url", "Invalid '%s.image_url.url': expected an http(s) URL or a base64 data URI.", at)
	}
	switch mediaType = sniff(mediaType, data); mediaType {
	case "image/jpg":
		mediaType = "image/jpeg"
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	case "application/pdf":
		return pdf(data, ""), nil
	default:
		return block{}, openai.BadRequest(at+".image_url.url", "invalid_image_format", "Images of the type '%s' are not supported. Send JPEG, PNG, GIF or WebP.", mediaType)
	}
	return block{Type: "image", Source: &source{Type: "base64", MediaType: mediaType, Data: data}}, nil
}

// file turns a file into a document: a PDF as it is, text as text, an image into an image.
func file(f *openai.File, at string) (block, error) {
	switch {
	case f.FileID != "":
		return block{}, badValue(at+".file.file_id", "Files by id are not supported by this model's provider. Send the content as 'file_data'.")
	case isWeb(f.FileData):
		return block{Type: "document", Source: &source{Type: "url", URL: f.FileData}, Title: f.Filename}, nil
	}
	mediaType, data, ok := dataURI(f.FileData)
	if !ok {
		mediaType, data = "", f.FileData
	}
	mediaType = sniff(mediaType, data)
	switch {
	case mediaType == "application/pdf":
		return pdf(data, f.Filename), nil
	case strings.HasPrefix(mediaType, "image/"):
		return image("data:"+mediaType+";base64,"+data, at)
	}
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return block{}, openai.BadRequest(at+".file.file_data", "invalid_base64", "Invalid '%s.file.file_data': expected a base64 string or data URI.", at)
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 || len(bytes.TrimSpace(text)) == 0 {
		return block{}, badValue(at+".file.file_data", "The file '%s' is neither a PDF nor text, and this model's provider takes no other.", f.Filename)
	}
	return block{Type: "document", Source: &source{Type: "text", MediaType: "text/plain", Data: string(text)}, Title: f.Filename}, nil
}

func pdf(data, title string) block {
	return block{Type: "document", Source: &source{Type: "base64", MediaType: "application/pdf", Data: data}, Title: title}
}

func isWeb(uri string) bool {
	return strings.HasPrefix(uri, "https://") || strings.HasPrefix(uri, "http://")
}

// dataURI returns the media type and the base64 data of a data URI (RFC 2397).
func dataURI(uri string) (mediaType, data string, ok bool) {
	rest, ok := strings.CutPrefix(uri, "data:")
	if !ok {
		return "", "", false
	}
	head, data, ok := strings.Cut(rest, ",")
	if !ok {
		return "", "", false
	}
	mediaType, params, _ := strings.Cut(head, ";")
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	if params == "base64" || strings.HasSuffix(params, ";base64") {
		return mediaType, data, data != ""
	}
	plain, err := url.PathUnescape(data)
	if err != nil {
		return "", "", false
	}
	return mediaType, base64.StdEncoding.EncodeToString([]byte(plain)), plain != ""
}

// sniff returns the media type that the first bytes say, which the vendor checks, or else the declared one.
func sniff(declared, data string) string {
	head := make([]byte, 24)
	n, _ := base64.StdEncoding.Decode(head, []byte(data[:min(32, len(data)/4*4)])) // what cannot be decoded is not known
	switch found := http.DetectContentType(head[:n]); found {
	case "image/jpeg", "image/png", "image/gif", "image/webp", "application/pdf":
		return found
	}
	return declared
}
