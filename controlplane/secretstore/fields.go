package secretstore

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/modelgate/modelgate/internal/secret"
)

// Fields are the fields of a secret.
type Fields struct {
	texts  map[string]secret.Value
	others map[string]bool // that are not texts
}

// FieldsOf returns the fields of a JSON object. Space around a text is removed.
func FieldsOf(members map[string]json.RawMessage) *Fields {
	f := &Fields{texts: map[string]secret.Value{}, others: map[string]bool{}}
	for name, raw := range members {
		var text *string
		if err := json.Unmarshal(raw, &text); err != nil || text == nil {
			f.others[name] = true
			continue
		}
		f.texts[name] = secret.New(strings.TrimSpace(*text))
	}
	return f
}

// Text returns a secret that is a text: its field has an empty name. If it is a JSON object, it has the object's
// fields, too.
func Text(text string) *Fields {
	var members map[string]json.RawMessage
	_ = json.Unmarshal([]byte(text), &members) // any other text has no fields
	f := FieldsOf(members)
	f.texts[""] = secret.New(strings.TrimSpace(text))
	return f
}

func (f *Fields) equal(other *Fields) bool {
	if f == nil || other == nil {
		return f == other
	}
	return maps.Equal(f.texts, other.texts) && maps.Equal(f.others, other.others)
}

// Get returns a field of the secret of a path.
func (f *Fields) Get(path, name string) (secret.Value, error) {
	v, ok := f.texts[name]
	switch {
	case f.others[name]:
		return secret.Value{}, fmt.Errorf("%s: the field %s is not a text", path, name)
	case !ok:
		return secret.Value{}, fmt.Errorf("%s: the secret has no field %s", path, name)
	case v.IsZero() && name == "":
		return secret.Value{}, fmt.Errorf("%s: the secret is empty", path)
	case v.IsZero():
		return secret.Value{}, fmt.Errorf("%s: the field %s is empty", path, name)
	}
	return v, nil
}
