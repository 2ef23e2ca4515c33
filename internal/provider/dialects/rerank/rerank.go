// Package rerank ranks documents. Most vendors have Cohere's form (https://docs.cohere.com/reference/rerank), with
// other paths and members.
package rerank

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/chat"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/turns"
	"github.com/modelgate/modelgate/internal/reported"
)

// A Dialect is a vendor's form.
type Dialect struct {
	Vendor string
	// Path returns the path for a target. An error is an *openai.Error.
	Path func(t provider.Target) (string, error)
	// Body returns the vendor's request, which is marshalled.
	Body func(r *openai.RerankRequest, t provider.Target) any
	// Takes are further members of a request that Body reads, and TakesLength means that it reads max_tokens_per_doc.
	Takes       []string
	TakesLength bool
	// Most bounds the documents of a request. 0: as many as a request may have.
	Most int
	// Read reads an answer. Nil: Cohere's form.
	Read func(body []byte) (Answer, error)
}

// An Answer is a vendor's answer, in any order.
type Answer struct {
	ID      string
	Results []Result
	Units   provider.Count // that Cohere bills
	Tokens  provider.Count
}

// A Result is the score of a document.
type Result struct {
	Index int            `json:"index"`
	Score jsontext.Value `json:"relevance_score"`
}

// New returns the codec of a dialect.
func New(d Dialect) provider.RerankCodec { return &codec{d} }

type codec struct{ Dialect }

// Encode implements provider.RerankCodec.
func (c *codec) Encode(r *openai.RerankRequest, t provider.Target) (provider.Request, provider.Answer, error) {
	path, err := c.Path(t)
	if err != nil {
		return provider.Request{}, nil, err
	}
	if n := len(r.Documents); c.Most > 0 && n > c.Most {
		return provider.Request{}, nil, openai.CodeArrayAboveMaxLength.On("documents",
			"Invalid 'documents': array too long. The provider '%s' takes %d documents in one request, but got %d.", c.Vendor,
			c.Most, n)
	}
	o := turns.Omitted{Vendor: c.Vendor, Drops: t.Drops()}
	if r.MaxTokensPerDoc > 0 && !c.TakesLength {
		if err := o.Unsupported("max_tokens_per_doc"); err != nil {
			return provider.Request{}, nil, err
		}
	}
	o.Ignored(r.Body, append([]string{"model", "query", "documents", "top_n", "return_documents", "max_tokens_per_doc"},
		c.Takes...))
	body, err := json.Marshal(c.Body(r, t))
	if err != nil {
		return provider.Request{}, nil, fmt.Errorf("rerank: %w", err)
	}
	return provider.Request{Path: path, Header: http.Header{"Content-Type": {"application/json"}}, Body: body,
		Dropped: o.Names}, &answer{dialect: c.Dialect, request: r}, nil
}

// An answer reads the answer to one request.
type answer struct {
	provider.Unstreamed
	dialect Dialect
	request *openai.RerankRequest
}

// Decode implements provider.Answer.
func (a *answer) Decode(body []byte, asked chat.Asked, out chat.Sink) error {
	read := a.dialect.Read
	if read == nil {
		read = Cohere
	}
	said, err := read(body)
	if err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	ranked, err := a.ranked(said.Results)
	if err != nil {
		return fmt.Errorf("%w: %w", provider.ErrNotAnAnswer, err)
	}
	n := int64(said.Tokens)
	u := openai.Usage{PromptTokens: n, TotalTokens: n, Units: int64(said.Units)}
	chat.EmitRendered(a.request.AppendReranked(nil, said.ID, asked.Model, ranked, int64(said.Units), u), u, out)
	return nil
}

// ranked returns the results that the client has asked for, the most relevant first.
func (a *answer) ranked(results []Result) ([]openai.Ranked, error) {
	seen := make([]bool, len(a.request.Documents))
	scores := make(map[int]float64, len(results))
	ranked := make([]openai.Ranked, 0, len(results))
	for _, r := range results {
		score, err := strconv.ParseFloat(string(r.Score), 64)
		if r.Index < 0 || r.Index >= len(seen) || seen[r.Index] || err != nil {
			return nil, fmt.Errorf("a result is of no document, of one twice, or without a score")
		}
		seen[r.Index], scores[r.Index] = true, score
		ranked = append(ranked, openai.Ranked{Index: r.Index, Score: r.Score})
	}
	if len(ranked) < a.request.TopN {
		return nil, fmt.Errorf("%d results of %d documents", len(ranked), len(seen))
	}
	slices.SortStableFunc(ranked, func(x, y openai.Ranked) int { return cmp.Compare(scores[y.Index], scores[x.Index]) })
	return ranked[:a.request.TopN], nil
}

// Cohere reads an answer in Cohere's form, with the usage of vendors that bill tokens.
func Cohere(body []byte) (Answer, error) {
	var v struct {
		ID      string         `json:"id"`
		Results []Result       `json:"results"`
		Usage   reported.Usage `json:"usage"`
		Meta    reported.Usage `json:"meta"`
	}
	err := json.Unmarshal(body, &v, provider.Lenient)
	if err == nil && v.Results == nil {
		err = fmt.Errorf("it has no results")
	}
	units := provider.Count(v.Meta.OpenAI().Units)
	return Answer{v.ID, v.Results, units, provider.Count(v.Usage.OpenAI().TotalTokens)}, err
}

// At returns a Path that is always the same.
func At(path string) func(provider.Target) (string, error) {
	return func(provider.Target) (string, error) { return path, nil }
}

// A CohereBody is Cohere's request.
type CohereBody struct {
	Model           string         `json:"model,omitzero"`
	Query           string         `json:"query"`
	Documents       []string       `json:"documents"`
	TopN            int            `json:"top_n"`
	MaxTokensPerDoc int64          `json:"max_tokens_per_doc,omitzero"`
	Priority        jsontext.Value `json:"priority,omitzero"`
	APIVersion      int            `json:"api_version,omitzero"` // at Bedrock
}

// BodyOf returns the request in Cohere's form.
func BodyOf(r *openai.RerankRequest, t provider.Target) any {
	return CohereBody{Model: t.Model, Query: r.Query, Documents: r.Documents, TopN: r.TopN}
}
