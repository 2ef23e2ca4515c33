package converse

import (
	"cmp"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
)

// A citation is where something that the model said comes from.
type citation struct {
	Title    string `json:"title"`
	Source   string `json:"source"`
	Location struct {
		Web struct {
			URL string `json:"url"`
		} `json:"web"`
	} `json:"location"`
}

// annotation returns OpenAI's annotation of the characters from start to end, or nil if the source has no address:
// those of documents that the client sent.
func (c *citation) annotation(start, end int) jsontext.Value {
	url := cmp.Or(c.Location.Web.URL, c.Source)
	if url == "" {
		return nil
	}
	v := jsontext.Value(`{"type":"url_citation","url_citation":{"start_index":`)
	v = strconv.AppendInt(v, int64(start), 10)
	v = strconv.AppendInt(append(v, `,"end_index":`...), int64(end), 10)
	v = openai.AppendString(append(v, `,"url":`...), url)
	v = openai.AppendString(append(v, `,"title":`...), c.Title)
	return append(v, "}}"...)
}

// annotate appends the annotations of the characters from start to end.
func annotate(dst []jsontext.Value, citations []citation, start, end int) []jsontext.Value {
	for i := range citations {
		if v := citations[i].annotation(start, end); v != nil {
			dst = append(dst, v)
		}
	}
	return dst
}
