package admin

import (
	_ "embed" // for the description
	"strings"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

//go:embed openapi.yaml
var description string

// Description returns the description of the API in OpenAPI 3.1, as YAML. The caller owns it.
func Description() []byte {
	var names, plurals, admins []string
	for _, k := range configv1.Kinds() {
		names, plurals = append(names, k.Name), append(plurals, k.Plural)
		if k.Area() == "admins" {
			admins = append(admins, k.Plural)
		}
	}
	return []byte(strings.NewReplacer("KIND_NAMES", strings.Join(names, ", "),
		"KIND_PLURALS", strings.Join(plurals, ", "), "KINDS_OF_ADMINS", strings.Join(admins, ", ")).Replace(description))
}
