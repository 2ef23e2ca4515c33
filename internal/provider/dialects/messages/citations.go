package messages

import (
	"strconv"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// A citation is a source of a text block.
type citation struct {
	URL    string `json:"url"`
	Source string `json:"source"` // of a search result that the client gave
	Title  string `json:"title"`
}

// address returns where the source is, or nothing: of the client's own documents there is no address.
func (c *citation) address() string {
	if c.URL == "" && isWeb(c.Source) {
		return c.Source
	}
	return c.URL
}

// appendAnnotations appends OpenAI's annotations, with commas between them, of a text block that stands from start to
// end of the content, counted in characters.
func appendAnnotations(dst []byte, citations []citation, start, end int) []byte {
	if len(citations) == 0 {
		return dst
	}
	told := make(map[string]bool)
	for i := range citations {
		url := citations[i].address()
		if url == "" || told[url] {
			continue
		}
		told[url] = true
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"type":"url_citation","url_citation":{"start_index":`...)
		dst = strconv.AppendInt(dst, int64(start), 10)
		dst = append(dst, `,"end_index":`...)
		dst = strconv.AppendInt(dst, int64(end), 10)
		dst = append(dst, `,"title":`...)
		dst = openai.AppendString(dst, strings.TrimSpace(citations[i].Title))
		dst = append(dst, `,"url":`...)
		dst = openai.AppendString(dst, url)
		dst = append(dst, `}}`...)
	}
	return dst
}
