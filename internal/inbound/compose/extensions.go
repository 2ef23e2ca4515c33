package compose

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Answers have images and citations as chat completions do. Dialects read them here to write them in their own form.

// An Image is an image that a model has made: data in base64 with a media type, or an address.
type Image struct{ Type, Data, URL string }

// Images returns the images of a list such as the extension images of a chat completion. Others are left out.
func Images(list []byte) []Image {
	var images []Image
	for _, v := range gjson.ParseBytes(list).Array() {
		url := v.Get("image_url.url")
		if v.Get("image_url").Type == gjson.String {
			url = v.Get("image_url")
		}
		i := Image{URL: url.Str}
		if rest, isData := strings.CutPrefix(url.Str, "data:"); isData {
			head, data, ok := strings.Cut(rest, ",")
			kind, ok2 := strings.CutSuffix(head, ";base64")
			if !ok || !ok2 || data == "" {
				continue
			}
			kind, _, _ = strings.Cut(kind, ";")
			i = Image{Type: kind, Data: data}
		}
		if i != (Image{}) {
			images = append(images, i)
		}
	}
	return images
}

// A Citation is a page that an answer cites. Text is the page's text, if the vendor reports it.
type Citation struct{ URL, Title, Text string }

// Citations returns the pages of a list of annotations of a chat completion.
func Citations(annotations []byte) []Citation {
	var pages []Citation
	for _, a := range gjson.ParseBytes(annotations).Array() {
		if c := a.Get("url_citation"); c.Get("url").Str != "" {
			pages = append(pages, Citation{c.Get("url").Str, c.Get("title").Str, c.Get("content").Str})
		}
	}
	return pages
}
