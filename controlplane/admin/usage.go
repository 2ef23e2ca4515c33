package admin

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// exportTimeout bounds a request for CSV, which may read many pages.
const exportTimeout = 30 * time.Second

func (s *server) usage(w http.ResponseWriter, r *http.Request) error {
	return s.report(w, r, r.PathValue("resource"))
}

func (s *server) costs(w http.ResponseWriter, r *http.Request) error { return s.report(w, r, "costs") }

// report answers a query of usage or costs, as JSON or CSV.
func (s *server) report(w http.ResponseWriter, r *http.Request, resource string) error {
	query, csv, err := exportOf(r)
	if err != nil {
		return err
	}
	if csv {
		leave, err := s.export(r.Context())
		if err != nil {
			return err
		}
		defer leave()
	}
	caller, _ := authz.PrincipalOf(r.Context())
	within := ledger.Restriction{Organization: caller.Tenant.Organization, Project: caller.Tenant.Project}
	t := table{}
	for {
		text, err := s.config.Ledger.Usage(r.Context(), resource, query.Encode(), within)
		if err != nil {
			return ledger.Unavailable(err)
		}
		if !csv {
			return httpapi.WriteJSON(w, http.StatusOK, json.RawMessage(text))
		}
		var page struct {
			Data []struct {
				Start   json.RawMessage   `json:"start_time"`
				End     json.RawMessage   `json:"end_time"`
				Results []json.RawMessage `json:"results"`
			} `json:"data"`
			Next *string `json:"next_page"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return err
		}
		for _, bucket := range page.Data {
			for _, result := range bucket.Results {
				if err := t.add(object{"start_time", bucket.Start}, object{"end_time", bucket.End},
					object{"", result}); err != nil {
					return err
				}
			}
		}
		if page.Next == nil || *page.Next == "" || len(t.rows) >= maxRows {
			return t.write(w, resource)
		}
		query.Set("page", *page.Next)
	}
}

func (s *server) summary(w http.ResponseWriter, r *http.Request) error {
	asked, err := optionsOf(r)
	if err != nil {
		return err
	}
	sum, err := s.config.Ledger.Summary(r.Context(), asked)
	if err != nil {
		return ledger.Unavailable(err)
	}
	return httpapi.WriteJSON(w, http.StatusOK, sum)
}

// series answers with sums over time, in which keys and organizations have their names for people.
func (s *server) series(w http.ResponseWriter, r *http.Request) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badQuery(err)
	}
	for _, name := range []string{"start", "end"} {
		if query.Has(name) {
			if _, err := httpapi.UnixTime(name, query.Get(name)); err != nil {
				return err
			}
		}
	}
	out, err := s.config.Ledger.Series(r.Context(), query)
	if err != nil {
		return ledger.Unavailable(err)
	}
	switch out.By {
	case "key":
		if authz.Needs(r.Context(), authz.KeysRead) == nil {
			_, keys := s.config.Plane.Keys()
			for i, g := range out.Groups {
				out.Groups[i].DisplayName = displayName(keys[g.Name])
			}
		}
	case "organization":
		names := make([]string, len(out.Groups))
		for i, g := range out.Groups {
			names[i] = g.Name
		}
		entries, err := s.config.Store.Named(r.Context(), configv1.KindOf((*configv1.Organization)(nil)), names)
		if err != nil {
			return err
		}
		for _, e := range entries {
			out.Groups[slices.Index(names, e.Name)].DisplayName = displayName(e.Object)
		}
	}
	return httpapi.WriteJSON(w, http.StatusOK, out)
}

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
