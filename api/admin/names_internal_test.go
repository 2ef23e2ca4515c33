package admin

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesStandInPlaceOfIDs(t *testing.T) {
	nameOf := func(id string) string { return map[string]string{"key_1": "ci", "adm_2": "ops"}[id] }
	for text, want := range map[string]string{
		"key/key_1 limit requests per minute": "key/ci limit requests per minute",
		"by adm_2, for key_1.":                "by ops, for ci.",
		"Keys: key_1 (ci), key_1":             "Keys: key_1 (ci), ci", // beside its name, so that a command can have it
		"monkey_1":                            "monkey_1",
	} {
		require.Equal(t, want, named(namedIDs(), text, nameOf))
	}
}
