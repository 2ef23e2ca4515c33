package admin

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/internal/httpapi"
)

// Sizes of pages.
const (
	normalPage = 100
	maxPage    = 1000
)

func (s *server) list(w http.ResponseWriter, r *http.Request) error {
	kind, err := kindOf(r)
	if err != nil {
		return err
	}
	if err := authz.NeedsKind(r.Context(), kind, authz.ReadScope(kind)); err != nil {
		return err
	}
	asked, err := optionsOf(r)
	if err != nil {
		return err
	}
	page := adminapi.ItemPage{Items: []adminapi.Item{}}
	entries, next, err := s.changes.List(r.Context(), kind, asked)
	page.Next = next
	if err != nil {
		return err
	}
	for _, e := range entries {
		page.Items = append(page.Items, s.item(r.Context(), e))
	}
	return httpapi.WriteJSON(w, http.StatusOK, page)
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
