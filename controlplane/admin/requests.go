package admin

import (
	"net/http"
	"strings"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/authz"
	"github.com/modelgate/modelgate/controlplane/ledger"
	"github.com/modelgate/modelgate/internal/httpapi"
)

const (
	// maxNamed is how many keys the words of a search may name.
	maxNamed = 100
	// noKey is the id of no key.
	noKey = "-"
)

// requests answers with a part of the request log, or with all of it as CSV or as lines of JSON.
func (s *server) requests(w http.ResponseWriter, r *http.Request) error {
	form, err := streamOf(r)
	if err != nil {
		return err
	}
	asked, err := s.searchOf(r)
	if err != nil {
		return err
	}
	page, err := s.config.Ledger.Exchanges(r.Context(), asked)
	if err != nil {
		return ledger.Unavailable(err)
	}
	s.nameKeys(page.Items)
	if form == "" {
		return httpapi.WriteJSON(w, http.StatusOK, page)
	}
	return s.stream(w, r, form, asked, page)
}

// searchOf reads the query of a search. The names of keys become their ids.
func (s *server) searchOf(r *http.Request) (adminapi.ListOptions, error) {
	asked, err := optionsOf(r)
	if err != nil {
		return asked, err
	}
	if id := asked.Filters["request_id"]; id != "" {
		asked.Query = id
	}
	words := strings.Fields(strings.ToLower(asked.Filters["key_name"]))
	for _, read := range []string{"format", "request_id", "key_name"} {
		delete(asked.Filters, read)
	}
	if asked.Filters["keys"] != "" {
		return asked, openai.CodeUnknownParameter.On("keys", "Unknown parameter: 'keys'.")
	}
	if len(words) == 0 {
		return asked, nil
	}
	var ids []string
	caller, _ := authz.PrincipalOf(r.Context())
	for id := range s.changes.KeysNamed(words, caller) {
		if ids = append(ids, id); len(ids) > maxNamed {
			return asked, openai.CodeInvalidValue.On("key_name",
				"More than %d keys match 'key_name'. Give more of the name.", maxNamed)
		}
	}
	switch {
	case len(ids) == 0:
		asked.Filters["key"] = noKey
	case len(ids) == 1 && asked.Filters["key"] == "":
		asked.Filters["key"] = ids[0] // of which there is an index
	default:
		asked.Filters["keys"] = strings.Join(ids, ",")
	}
	return asked, nil
}

// nameKeys adds the names that the keys of exchanges have now.
func (s *server) nameKeys(all []adminapi.Exchange) {
	for i := range all {
		all[i].KeyName = s.keyName(all[i].Key)
	}
}

func (s *server) keyName(id string) string {
	_, keys := s.config.Plane.Keys()
	if key, ok := keys[id]; ok {
		return displayName(key)
	}
	return ""
}

// request answers with one exchange.
func (s *server) request(w http.ResponseWriter, r *http.Request) error {
	e, found, err := s.config.Ledger.Exchange(r.Context(), r.PathValue("id"))
	switch {
	case err != nil:
		return ledger.Unavailable(err)
	case !found || !authz.SeesTenant(r.Context(), e.Organization, e.Project):
		return openai.CodeNotFound.New("There is no exchange %q in the request log.", r.PathValue("id"))
	}
	e.KeyName = s.keyName(e.Key)
	if e.Cost, err = s.costOf(r.Context(), &e); err != nil {
		return err
	}
	return httpapi.WriteJSON(w, http.StatusOK, e)
}

// outcomes counts the request log.
func (s *server) outcomes(w http.ResponseWriter, r *http.Request) error {
	asked, err := s.searchOf(r)
	if err != nil {
		return err
	}
	counts, err := s.config.Ledger.Outcomes(r.Context(), asked)
	if err != nil {
		return ledger.Unavailable(err)
	}
	return httpapi.WriteJSON(w, http.StatusOK, counts)
}
