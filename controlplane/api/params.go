package api

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/config"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Sizes of pages.
const (
	normalPage = 100
	maxPage    = 1000
)

// boolOf reads a query parameter that is true or false, or absent: false.
func boolOf(r *http.Request, name string) (bool, error) {
	switch values := r.URL.Query()[name]; {
	case len(values) > 1:
		return false, givenTwice(name)
	case len(values) == 0, values[0] == "false":
		return false, nil
	case values[0] == "true":
		return true, nil
	}
	return false, openai.CodeInvalidValue.On(name, "The parameter %s must be true or false.", name)
}

// optionsOf reads the query of a list.
func optionsOf(r *http.Request) (adminapi.ListOptions, error) {
	o := adminapi.ListOptions{Limit: normalPage, Filters: map[string]string{}}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return o, badQuery(err)
	}
	for name, values := range query {
		if len(values) > 1 {
			return o, givenTwice(name)
		}
		switch value := values[0]; name {
		case "after":
			o.After = value
		case "q":
			o.Query = value
		case "limit":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > maxPage {
				return o, openai.CodeInvalidValue.On("limit",
					"The parameter limit must be a number between 1 and %d.", maxPage)
			}
			o.Limit = n
		case "disabled":
			if value != "true" && value != "false" {
				return o, openai.CodeInvalidValue.On(name, "The parameter disabled must be true or false.")
			}
			o.Filters[name] = value
		case "start", "end":
			if _, err := httpapi.UnixTime(name, value); err != nil {
				return o, err
			}
			o.Filters[name] = value
		default:
			o.Filters[name] = value
		}
	}
	if strings.ContainsFunc(o.After+o.Query, func(c rune) bool { return c < ' ' }) {
		return o, openai.CodeInvalidValue.New(
			"The parameters after and q must not contain control characters.")
	}
	return o, nil
}

// decodeBody reads a body with the members of v and no others. An absent body is an empty object.
func decodeBody(w http.ResponseWriter, r *http.Request, v any) error {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil || len(body) == 0 {
		return err
	}
	if err := json.Unmarshal(body, v, json.RejectUnknownMembers(true)); err != nil {
		return openai.CodeInvalidJSON.New(
			"The body of your request is not a valid JSON object for this operation: %v.", err)
	}
	return nil
}

func kindOf(r *http.Request) (configv1.Kind, error) {
	for _, k := range configv1.Kinds() {
		if k.Plural == r.PathValue("kind") {
			return k, nil
		}
	}
	return configv1.Kind{}, openai.CodeUnknownKind.New("This kind of object does not exist. The kinds are the paths of %s, in the plural and in lower case.",
		configv1.KindNames())
}

// objectOf returns the object that a path is about, for a caller who has the scope for it.
func objectOf(r *http.Request, scope func(configv1.Kind) authz.Scope) (config.Ref, error) {
	kind, err := kindOf(r)
	if err != nil {
		return config.Ref{}, err
	}
	if err := authz.NeedsKind(r.Context(), kind, scope(kind)); err != nil {
		return config.Ref{}, err
	}
	if r.PathValue("name") == "" {
		return config.Ref{}, openai.CodeUnknownURL.New("The path must end with the name of the object.")
	}
	return config.Ref{Kind: kind, Name: r.PathValue("name")}, nil
}

// waitOf reads how long a request is to wait until the data plane has taken its change. It is false if it does not
// say.
func waitOf(r *http.Request) (wait time.Duration, said bool, err error) {
	values := r.URL.Query()["wait"]
	if len(values) == 0 {
		return 0, false, nil
	}
	n, err := strconv.Atoi(values[0])
	if err != nil || len(values) > 1 || n < 0 || n > int(adminapi.MaxWait/time.Second) {
		return 0, true, openai.CodeInvalidValue.On("wait",
			"The parameter wait must be a number of seconds between 0 and %d. It may be given only once.", int(adminapi.MaxWait/time.Second))
	}
	return time.Duration(n) * time.Second, true, nil
}

// keyWait is how long a change of keys is waited for, if the request does not say: whoever has made a key uses it
// next.
const keyWait = 10 * time.Second

func (s *server) body(w http.ResponseWriter, r *http.Request, kind configv1.Kind) (configv1.Object, error) {
	body, err := httpapi.ReadBody(w, r, maxBody)
	if err != nil {
		return nil, err
	}
	return kind.ParseJSON(body)
}

// maxBody bounds the body of a request, in bytes.
const maxBody = 1 << 20

// exportOf returns the query of a request without what it says of the format, and whether that is CSV.
func exportOf(r *http.Request) (query url.Values, csv bool, err error) {
	if query, err = url.ParseQuery(r.URL.RawQuery); err != nil {
		return nil, false, badQuery(err)
	}
	switch format := query["format"]; {
	case len(format) > 1:
		return nil, false, givenTwice("format")
	case len(format) == 1 && format[0] != "csv" && format[0] != "json":
		return nil, false, openai.CodeInvalidValue.On("format", "The parameter format must be json or csv.")
	}
	media, _, _ := strings.Cut(r.Header.Get("Accept"), ";")
	media, _, _ = strings.Cut(media, ",")
	csv = query.Get("format") == "csv" || strings.TrimSpace(media) == "text/csv"
	query.Del("format")
	return query, csv, nil
}
