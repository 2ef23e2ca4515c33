package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/usage"
)

// Usage answers a query of OpenAI's /v1/organization/usage/<resource> or /v1/organization/costs, with the JSON of a
// page. RawQuery is the URL's query. If it is wrong, the error is an *openai.Error.
//
// A start or end within a bucket counts the whole bucket. The line item of a cost is the model. Characters of speeches
// and seconds of transcriptions are not counted, and 0.
func (l usageReader) Usage(ctx context.Context, resource, rawQuery string, may Restriction) ([]byte, error) {
	p, err := parsePage(resource, rawQuery, l.db.Now())
	if err != nil {
		return nil, err
	}
	p.Restriction = may
	rows, err := l.Rows(ctx, p.Query)
	if err != nil {
		return nil, err
	}
	return json.Marshal(p.render(rows))
}

type page struct {
	Object   string   `json:"object"`
	Data     []bucket `json:"data"`
	HasMore  bool     `json:"has_more"`
	NextPage *string  `json:"next_page"`
}

type bucket struct {
	Object    string `json:"object"`
	StartTime int64  `json:"start_time"`
	EndTime   int64  `json:"end_time"`
	Results   []any  `json:"results"`
}

// usageResult is one of any resource but costs.
type usageResult struct {
	Object           string
	used             []namedCount
	NumModelRequests int64
	grouped
}

// A namedCount is the use of one kind.
type namedCount struct {
	name string
	n    int64
}

// MarshalJSON implements json.Marshaler. What was used comes behind the object.
func (u usageResult) MarshalJSON() ([]byte, error) {
	text := append(strconv.AppendQuote([]byte(`{"object":`), u.Object), ',')
	for _, a := range u.used {
		text = append(strconv.AppendInt(append(strconv.AppendQuote(text, a.name), ':'), a.n, 10), ',')
	}
	text = append(strconv.AppendInt(append(text, `"num_model_requests":`...), u.NumModelRequests, 10), ',')
	rest, err := json.Marshal(u.grouped)
	return append(text, rest[1:]...), err
}

// grouped are the fields that results may be grouped by; null if they are not.
type grouped struct {
	ProjectID *string `json:"project_id"`
	UserID    *string `json:"user_id"`
	APIKeyID  *string `json:"api_key_id"`
	Model     *string `json:"model"`
	Batch     *bool   `json:"batch"`
	Owner     *string `json:"organization_id,omitempty"`
}

type costsResult struct {
	Object    string  `json:"object"`
	Amount    amount  `json:"amount"`
	LineItem  *string `json:"line_item"`
	ProjectID *string `json:"project_id"`
	APIKeyID  *string `json:"api_key_id"`
	Quantity  *int64  `json:"quantity"`
	Owner     *string `json:"organization_id,omitempty"`
}

type amount struct {
	Value    json.Number `json:"value"`
	Currency string      `json:"currency"`
}

// render lays the rows into the buckets of the page, also those that have none.
func (p *pageQuery) render(rows []Row) page {
	out := page{Object: "page", Data: []bucket{}}
	for start := p.From; start.Before(p.To); start = start.Add(p.Width) {
		b := bucket{"bucket", start.Unix(), start.Add(p.Width).Unix(), []any{}}
		for len(rows) > 0 && rows[0].Start.Equal(start) {
			b.Results = append(b.Results, p.result(rows[0]))
			rows = rows[1:]
		}
		out.Data = append(out.Data, b)
	}
	if p.To.Before(p.end) {
		next := encodePage(p.To, p.end)
		out.HasMore, out.NextPage = true, &next
	}
	return out
}

func (p *pageQuery) result(r Row) any {
	value := map[string]*string{}
	for i, field := range p.GroupBy {
		value[field] = &r.Group[i]
	}
	if p.Resource == "costs" {
		return costsResult{"organization.costs.result", amount{json.Number(r.Cost.String()), "usd"}, value["line_item"],
			value["project_id"], value["api_key_id"], nil, value["organization_id"]}
	}
	u := usageResult{Object: "organization.usage." + p.Resource + ".result", NumModelRequests: r.Requests,
		grouped: grouped{value["project_id"], value["user_id"], value["api_key_id"], value["model"], nil,
			value["organization_id"]}}
	if batch := value["batch"]; batch != nil {
		is := *batch == "1"
		u.Batch = &is
	}
	for i, f := range usage.Fields {
		if name := f.Result[p.Resource]; name != "" {
			u.used = append(u.used, namedCount{name, r.Used[i]})
		}
	}
	switch p.Resource {
	case "audio_speeches":
		u.used = append(u.used, namedCount{"characters", 0})
	case "audio_transcriptions":
		u.used = append(u.used, namedCount{"seconds", 0})
	}
	return u
}

func errTooMany() error {
	return openai.CodeTooManyResults.On("limit",
		"The answer would have more than %d results. Ask for fewer buckets, or group by fewer fields.", MaxRows)
}

// asClientError returns the error that crosses to the client.
func asClientError(err error) *openai.Error {
	if e, ok := errors.AsType[*openai.Error](err); ok {
		return e
	}
	return &openai.Error{Status: http.StatusInternalServerError, Type: openai.TypeServer,
		Message: "The server had an error while reading the ledger."}
}

// widthOf returns the width of the buckets of a name, with the usual and the largest number of them in a page.
func widthOf(resource, name string) (width time.Duration, usual, most int, err error) {
	switch {
	case resource == "costs" && (name == "" || name == "1d"):
		return 24 * time.Hour, 7, 180, nil
	case resource == "costs":
		return 0, 0, 0, openai.CodeInvalidValue.On("bucket_width",
			"Invalid value: '%s'. Supported values are: '1d'.", name)
	case name == "" || name == "1d":
		return 24 * time.Hour, 7, 31, nil
	case name == "1h":
		return time.Hour, 24, 168, nil
	case name == "1m":
		return time.Minute, 60, 1440, nil
	}
	return 0, 0, 0, openai.CodeInvalidValue.On("bucket_width",
		"Invalid value: '%s'. Supported values are: '1m', '1h', and '1d'.", name)
}
