package messages

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider/turns"
)

func media(p *openai.Part, at string) (block, error) {
	switch {
	case p.Type == "image_url" && p.ImageURL != nil:
		return image(p.ImageURL.URL, at)
	case p.Type == "file" && p.File != nil:
		return file(p.File, at)
	}
	return block{}, openai.BadValue(at+".type", "Content of type '%s' is not supported by this model's provider.", p.Type)
}

func image(uri, at string) (block, error) {
	if isWeb(uri) {
		return block{kind: "image", source: &source{kind: "url", url: uri}}, nil
	}
	mediaType, data, ok := turns.DataURI(uri)
	if !ok {
		return block{}, openai.CodeInvalidImageURL.On(at+".image_url.url",
			"Invalid '%s.image_url.url': expected an http(s) URL or a base64 data URI.", at)
	}
	switch mediaType = sniff(mediaType, data); mediaType {
	case "image/jpg":
		mediaType = "image/jpeg"
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	case "application/pdf":
		return pdf(data, ""), nil
	default:
		return block{}, openai.CodeInvalidImageFormat.On(at+".image_url.url",
			"Images of the type '%s' are not supported. Send JPEG, PNG, GIF or WebP.", mediaType)
	}
	return block{kind: "image", source: &source{kind: "base64", mediaType: mediaType, data: data}}, nil
}

// file turns a file into a document: a PDF as it is, text as text, an image into an image.
func file(f *openai.File, at string) (block, error) {
	switch {
	case f.FileID != "":
		return block{}, openai.BadValue(at+".file.file_id",
			"Files by id are not supported by this model's provider. Send the content as 'file_data'.")
	case isWeb(f.FileData):
		return block{kind: "document", source: &source{kind: "url", url: f.FileData}, title: f.Filename}, nil
	}
	mediaType, data, ok := turns.DataURI(f.FileData)
	if !ok {
		data, _ = turns.Base64(f.FileData) // other content is reported below
	}
	mediaType = sniff(mediaType, data)
	switch {
	case mediaType == "application/pdf":
		return pdf(data, f.Filename), nil
	case strings.HasPrefix(mediaType, "image/"):
		return image("data:"+mediaType+";base64,"+data, at)
	}
	plain, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return block{}, openai.CodeInvalidBase64.On(at+".file.file_data",
			"Invalid '%s.file.file_data': expected a base64 string or data URI.", at)
	}
	if !utf8.Valid(plain) || bytes.IndexByte(plain, 0) >= 0 || len(bytes.TrimSpace(plain)) == 0 {
		return block{}, openai.BadValue(at+".file.file_data",
			"The file '%s' is neither a PDF nor text, and this model's provider takes no other.", f.Filename)
	}
	return block{kind: "document", source: &source{kind: "text", mediaType: "text/plain", data: string(plain)},
		title: f.Filename}, nil
}

func pdf(data, title string) block {
	return block{kind: "document", source: &source{kind: "base64", mediaType: "application/pdf", data: data},
		title: title}
}

func isWeb(uri string) bool {
	return strings.HasPrefix(uri, "https://") || strings.HasPrefix(uri, "http://")
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
