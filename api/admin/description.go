package admin

import _ "embed" // for the description

//go:embed openapi.yaml
var description []byte

// Description returns the description of the API in OpenAPI 3.1, as YAML. The caller owns it.
func Description() []byte { return append([]byte(nil), description...) }
