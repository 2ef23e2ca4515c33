package ledger

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/ledger/params"
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

// A pageQuery asks for one page. Its From and To are the page's.
type pageQuery struct {
	Query
	end time.Time // of the last page
}

// Fields that results can be grouped by, as OpenAI has them, and organization_id, which has a single value at
// OpenAI.
func groupFields(resource string) []string {
	switch resource {
	case "completions":
		return []string{"project_id", "user_id", "api_key_id", "model", "batch", "organization_id"}
	case "embeddings", "moderations", "images", "audio_speeches", "audio_transcriptions":
		return []string{"project_id", "user_id", "api_key_id", "model", "organization_id"}
	case "costs":
		return []string{"project_id", "line_item", "api_key_id", "organization_id"}
	}
	return nil
}

// parsePage reads a query as a client wrote it.
func parsePage(resource, rawQuery string, now time.Time) (*pageQuery, error) {
	if groupFields(resource) == nil {
		return nil, &openai.Error{Status: http.StatusNotFound, Type: openai.TypeInvalidRequest,
			Message: "There is no usage of '" + resource + "'."}
	}
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return nil, openai.BadRequest("", "The query of the URL cannot be read.")
	}
	r := params.Of(values)
	p := &pageQuery{Query: Query{Resource: resource}}
	start, end := r.Unix("start_time", -1), r.Unix("end_time", now.Unix()+1)
	width, usual, most, err := widthOf(resource, r.One("bucket_width"))
	if err != nil {
		return nil, err
	}
	limit := r.Number("limit", int64(usual), 1, int64(most))
	p.Projects, p.Keys = r.List("project_ids"), r.List("api_key_ids")
	if resource != "costs" {
		p.Users, p.Models = r.List("user_ids"), r.List("models")
	}
	if resource == "completions" {
		p.Batch = r.Boolean("batch")
	}
	p.GroupBy = r.Fields("group_by", groupFields(resource))
	from := r.One("page")
	r.Unknown()
	if r.Err == nil && start < 0 {
		r.Fail(openai.CodeMissingRequiredParameter.On("start_time",
			"Missing required parameter: 'start_time'."))
	}
	if r.Err == nil && end <= start {
		r.Fail(openai.CodeInvalidValue.On("end_time",
			"Invalid value for 'end_time': it must be after 'start_time'."))
	}
	if r.Err != nil {
		return nil, r.Err
	}
	p.Width = width
	p.From, p.end = time.Unix(start, 0).UTC().Truncate(width), time.Unix(end-1, 0).UTC().Truncate(width).Add(width)
	if from != "" {
		var ok bool
		if p.From, p.end, ok = decodePage(from, width); !ok {
			return nil, openai.CodeInvalidValue.On("page",
				"Invalid value for 'page': it must be the 'next_page' of an earlier answer.")
		}
	}
	p.To = p.From.Add(time.Duration(limit) * width)
	if p.To.After(p.end) {
		p.To = p.end
	}
	return p, nil
}

// encodePage says where a page begins, and where the last ends: the end of a query without one is not to move while it
// is paged through.
func encodePage(from, end time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(from.Unix()))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(b, uint64(end.Unix())))
}

func decodePage(text string, width time.Duration) (from, end time.Time, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 16 {
		return from, end, false
	}
	a, z := binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
	if a > params.MaxTime || z > params.MaxTime+86400 || a >= z {
		return from, end, false
	}
	from, end = time.Unix(int64(a), 0).UTC(), time.Unix(int64(z), 0).UTC()
	return from, end, from.Equal(from.Truncate(width)) && end.Equal(end.Truncate(width))
}
