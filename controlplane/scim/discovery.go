package scim

import (
	_ "embed" // the file below
	"encoding/json"
	"net/http"
	"slices"
)

//go:embed discovery.json
var discoveryText []byte

// discover answers with the description of the gateway (RFC 7643, sections 5 to 7): one document, or a list of
// documents with ids.
func discover(about string) handler {
	return func(c *call) (answer, error) {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(discoveryText, &all); err != nil {
			return answer{}, err
		}
		if about == "ServiceProviderConfig" {
			return answer{status: http.StatusOK, body: all[about]}, nil
		}
		var documents []resource
		if err := json.Unmarshal(all[about], &documents); err != nil {
			return answer{}, err
		}
		if c.URL.Query().Has("filter") { // RFC 7644, section 4
			return answer{}, &Error{Status: http.StatusForbidden, Detail: "This list cannot be filtered."}
		}
		id := c.PathValue("id")
		if id == "" {
			return answer{status: http.StatusOK, body: map[string]any{
				"schemas":      []string{"urn:ietf:params:scim:api:messages:2.0:ListResponse"},
				"totalResults": len(documents), "startIndex": 1, "itemsPerPage": len(documents), "Resources": documents}}, nil
		}
		i := slices.IndexFunc(documents, func(r resource) bool { return r["id"] == id })
		if i < 0 {
			return answer{}, notFound(id)
		}
		return answer{status: http.StatusOK, body: documents[i]}, nil
	}
}
