package gemini

import (
	"bytes"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
)

// groundingMetadata says which parts of the text rest on which sources.
type groundingMetadata struct {
	Queries []string `json:"webSearchQueries"`
	Chunks  []struct {
		Web              source `json:"web"`
		Maps             source `json:"maps"`
		RetrievedContext source `json:"retrievedContext"`
	} `json:"groundingChunks"`
	Supports []struct {
		Segment segment `json:"segment"`
		Chunks  []int64 `json:"groundingChunkIndices"`
	} `json:"groundingSupports"`
}

// citationMetadata names the sources that the text repeats. AI Studio and Vertex name the list differently.
type citationMetadata struct {
	Sources   []citation `json:"citationSources"`
	Citations []citation `json:"citations"`
}

type citation struct {
	source
	segment
}

type source struct {
	URI   string `json:"uri"`
	Title string `json:"title"`
}

// A segment is a part of the text, in bytes. Text is its content, if the vendor repeats it.
type segment struct {
	Start int64  `json:"startIndex"`
	End   int64  `json:"endIndex"`
	Text  string `json:"text"`
}

// cite gives the client the sources of a candidate as OpenAI's annotations. Metadata that cannot be read are left out:
// they are no part of the answer.
func (c *collector) cite(index int, from *candidate) {
	if from.GroundingMetadata == nil && from.CitationMetadata == nil {
		return
	}
	ch := &c.choices[index]
	ch.ground(from.GroundingMetadata)
	var m citationMetadata
	if json.Unmarshal(from.CitationMetadata, &m, provider.Lenient) == nil {
		for _, list := range [][]citation{m.Sources, m.Citations} {
			for i := range list {
				ch.annotate(list[i].segment, list[i].source)
			}
		}
	}
}

func (ch *choice) ground(metadata jsontext.Value) {
	var m groundingMetadata
	if json.Unmarshal(metadata, &m, provider.Lenient) != nil {
		return
	}
	slices.Sort(m.Queries) // the vendor bills each once, and none that is empty
	queries := slices.DeleteFunc(slices.Compact(m.Queries), func(q string) bool { return q == "" })
	ch.searches = max(ch.searches, int64(len(queries)))
	sources := make([]source, len(m.Chunks))
	for i, chunk := range m.Chunks {
		for _, s := range []source{chunk.Web, chunk.Maps, chunk.RetrievedContext} {
			if s.URI != "" {
				sources[i] = s
			}
		}
		if len(m.Supports) == 0 {
			ch.annotate(segment{End: int64(len(ch.text))}, sources[i])
		}
	}
	for _, support := range m.Supports {
		for _, n := range support.Chunks {
			if n >= 0 && n < int64(len(sources)) {
				ch.annotate(support.Segment, sources[n])
			}
		}
	}
}

// maxSearched bounds what is gone through for the annotations of a choice, in bytes: a vendor may name one source, and
// refer to it, as often as it likes. Later annotations are left out.
const maxSearched = 64 << 20

// annotate adds the annotation for a source that has an address. Pieces of a stream may repeat what those before them
// said.
func (ch *choice) annotate(s segment, from source) {
	ch.searched += 2*len(ch.text) + len(ch.annotations) + len(from.URI) + len(from.Title) + len(s.Text)
	if from.URI == "" || ch.searched > maxSearched {
		return
	}
	start, end := s.characters(ch.text)
	dst := append([]byte(nil), `{"type":"url_citation","url_citation":{"start_index":`...)
	dst = strconv.AppendInt(dst, start, 10)
	dst = strconv.AppendInt(append(dst, `,"end_index":`...), end, 10)
	dst = openai.AppendString(append(dst, `,"title":`...), from.Title)
	dst = append(openai.AppendString(append(dst, `,"url":`...), from.URI), "}}"...)
	if !bytes.Contains(ch.annotations, dst) {
		ch.annotations = append(appendElement(ch.annotations), dst...)
	}
}

// characters returns where the segment begins and ends in characters, as OpenAI counts. The vendor counts bytes of one
// of the text's parts, so that a segment whose text is not there is looked for.
func (s segment) characters(text []byte) (start, end int64) {
	n := int64(len(text))
	s.Start = min(max(s.Start, 0), n)
	s.End = min(max(s.End, s.Start), n)
	if s.Text != "" && string(text[s.Start:s.End]) != s.Text {
		if i := bytes.Index(text, []byte(s.Text)); i >= 0 {
			s.Start = int64(i)
			s.End = s.Start + int64(len(s.Text))
		}
	}
	start = int64(utf8.RuneCount(text[:s.Start]))
	return start, start + int64(utf8.RuneCount(text[s.Start:s.End]))
}
