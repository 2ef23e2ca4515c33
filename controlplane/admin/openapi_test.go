package admin_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

type description struct {
	Paths      map[string]map[string]any `json:"paths"`
	Components struct {
		Parameters struct {
			Kind struct {
				Schema struct {
					Enum []string `json:"enum"`
				} `json:"schema"`
			} `json:"kind"`
		} `json:"parameters"`
		Schemas struct {
			Object struct {
				Properties struct {
					Kind struct {
						Enum []string `json:"enum"`
					} `json:"kind"`
				} `json:"properties"`
			} `json:"Object"`
		} `json:"schemas"`
	} `json:"components"`
}

func TestDescriptionIsInStepWithTheServer(t *testing.T) {
	text, err := os.ReadFile("../../api/admin/openapi.yaml")
	require.NoError(t, err)
	var d description
	require.NoError(t, yaml.Unmarshal(text, &d))
	b := newBench(t)
	for path, operations := range d.Paths {
		concrete := strings.NewReplacer("{kind}", "providers", "{name}", "a/b").Replace(path)
		var described []string
		for method := range maps.Keys(operations) {
			if method != "parameters" {
				described = append(described, strings.ToUpper(method))
			}
		}
		slices.Sort(described)
		for _, method := range []string{"GET", "PUT", "POST", "DELETE", "PATCH"} {
			status := b.do(t, method, concrete, "").status
			if slices.Contains(described, method) {
				require.NotEqual(t, 405, status, "%s %s is described and not served", method, path)
				continue
			}
			// A path without variables can also be one of {kind}, which then says that there is no such kind.
			require.Contains(t, []int{404, 405, 200}, status, "%s %s is served and not described", method, path)
		}
	}
	var names, plurals []string
	for _, k := range configv1.Kinds() {
		names, plurals = append(names, k.Name), append(plurals, k.Plural)
	}
	require.Equal(t, plurals, d.Components.Parameters.Kind.Schema.Enum)
	require.Equal(t, names, d.Components.Schemas.Object.Properties.Kind.Enum)
}
