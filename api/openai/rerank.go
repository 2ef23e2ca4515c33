package openai

import (
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A RerankRequest is a request to rank documents, in Cohere's form, that was checked once:
// https://docs.cohere.com/reference/rerank. OpenAI has no such operation. It is immutable and safe for concurrent use.
type RerankRequest struct {
	Object

	Model           string
	Query           string
	Documents       []string
	TopN            int // number of results; len(Documents) if the client wants all
	ReturnDocuments bool
	MaxTokensPerDoc int64 // 0 if the client does not set it
}

// maxDocuments is how many documents a request may have, as at Cohere.
const maxDocuments = 10_000

// ParseRerankRequest checks and parses body. It keeps body. An error is an *Error with status 400 that names the wrong
// member.
func ParseRerankRequest(body []byte) (*RerankRequest, error) {
	r := &RerankRequest{Object: Object{Members: Members{Body: body}}}
	if err := r.read(r.checkMember); err != nil {
		return nil, err
	}
	if err := r.checkModel(r.Model); err != nil {
		return nil, err
	}
	for _, name := range [...]string{"query", "documents"} {
		if r.present(name) == nil {
			return nil, missing(name)
		}
	}
	if r.TopN == 0 || r.TopN > len(r.Documents) {
		r.TopN = len(r.Documents)
	}
	return r, nil
}

// rerankChecks are the members with a known type or range, except for the documents.
var rerankChecks = map[string]check{
	"model":              kind("a string", '"'),
	"query":              kind("a string", '"'),
	"top_n":              integer(1, maxInteger),
	"max_tokens_per_doc": integer(1, maxInteger),
	"return_documents":   boolean,
}

func (r *RerankRequest) checkMember(c *cursor, name string) (err error) {
	start := c.at
	switch k := c.peek(); {
	case k == 'n':
		c.value()
		return nil
	case name == "documents":
		r.Documents, err = readDocuments(name, c)
		return err
	case rerankChecks[name] == nil:
		c.value()
		return nil
	}
	if err := rerankChecks[name](name, c); err != nil {
		return err
	}
	switch v := jsontext.Value(c.data[start:c.at]); name {
	case "model":
		r.Model = Unquote(v)
	case "query":
		if r.Query = Unquote(v); r.Query == "" {
			return CodeEmptyString.On(name,
				"Invalid 'query': empty string. Expected a string with minimum length 1, but got an empty string instead.")
		}
	case "top_n":
		r.TopN, err = strconv.Atoi(string(v))
	case "max_tokens_per_doc":
		r.MaxTokensPerDoc, err = strconv.ParseInt(string(v), 10, 64)
	case "return_documents":
		r.ReturnDocuments = v.Kind() == 't'
	}
	return err
}

// readDocuments reads texts, or objects with a text.
func readDocuments(param string, c *cursor) ([]string, error) {
	if k := c.peek(); k != '[' {
		return nil, WrongType(param, "an array of strings, or of objects with a 'text'", k)
	}
	var documents []string
	for c.enter(); c.more(); {
		if len(documents) == maxDocuments {
			return nil, tooLong(param, maxDocuments)
		}
		at := param + "[" + strconv.Itoa(len(documents)) + "]"
		switch k := c.peek(); k {
		case '"':
			documents = append(documents, string(c.str()))
		case '{':
			var document struct {
				Text *string `json:"text"`
			}
			if json.Unmarshal(c.value(), &document) != nil || document.Text == nil {
				return nil, missing(at + ".text")
			}
			documents = append(documents, *document.Text)
		default:
			return nil, WrongType(at, "a string, or an object with a 'text'", k)
		}
	}
	if len(documents) == 0 {
		return nil, emptyArray(param)
	}
	return documents, nil
}

// A Ranked is a document of the request and how relevant it is.
type Ranked struct {
	Index int
	Score jsontext.Value // a number
}

// AppendReranked appends the answer to a request to dst: the most relevant document first, in Cohere's form. Units are
// what Cohere bills; 0: the vendor does not report it.
func (r *RerankRequest) AppendReranked(dst []byte, id, model string, results []Ranked, units int64, u Usage) []byte {
	dst = append(dst, '{')
	if id != "" {
		dst = append(AppendString(append(dst, `"id":`...), id), ',')
	}
	dst = append(AppendString(append(dst, `"model":`...), model), `,"results":[`...)
	for i, result := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendInt(dst, `{"index":`, int64(result.Index))
		dst = append(append(dst, `,"relevance_score":`...), result.Score...)
		if r.ReturnDocuments {
			dst = append(AppendString(append(dst, `,"document":{"text":`...), r.Documents[result.Index]), '}')
		}
		dst = append(dst, '}')
	}
	dst = append(dst, `],"meta":{"api_version":{"version":"2"}`...)
	if units > 0 {
		dst = append(appendInt(dst, `,"billed_units":{"search_units":`, units), '}')
	}
	dst = append(dst, '}')
	if u.PromptTokens > 0 {
		dst = appendInt(dst, `,"usage":{"prompt_tokens":`, u.PromptTokens)
		dst = append(appendInt(dst, `,"total_tokens":`, max(u.TotalTokens, u.PromptTokens)), '}')
	}
	return append(dst, '}')
}
