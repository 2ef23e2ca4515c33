package forms

import (
	"errors"
	"html/template"
	"regexp"
	"strings"

	"github.com/modelgate/modelgate/api/openai"
)

// Faults are what is wrong with the fields of a form, by the path of the field.
type Faults map[string]string

// A Fault is what is wrong with one field. ID is the id of the element that says so.
type Fault struct{ ID, Text string }

// invalid is a line of an error of validation: the object, the path of the field, and what to change.
var invalid = regexp.MustCompile(`^[A-Za-z]+ [^:]*: ([a-z_][\w.\[\]]*): (.*)$`)

// FaultsOf returns what an error of the API says of fields.
func FaultsOf(err error) Faults {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok {
		return nil
	}
	faults := Faults{}
	for line := range strings.Lines(e.Message) {
		if found := invalid.FindStringSubmatch(strings.TrimSpace(line)); found != nil && faults[found[1]] == "" {
			faults[found[1]] = found[2]
		}
	}
	if len(faults) == 0 && e.Param != "" {
		faults[e.Param] = e.Message
	}
	return faults
}

// Of returns what is wrong with a field, or with something in it.
func (f Faults) Of(field string) Fault {
	for path, text := range f {
		if rest, ok := strings.CutPrefix(path, field); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			if rest != "" {
				text = path + ": " + text
			}
			return Fault{idOf(field), text}
		}
	}
	return Fault{}
}

// Exactly returns what is wrong with a field itself, such as a group whose fields say for themselves what is wrong.
func (f Faults) Exactly(field string) Fault {
	text, ok := f[field]
	if !ok {
		return Fault{}
	}
	return Fault{idOf(field), text}
}

// Attributes returns the attributes of the input of a field that say that it is wrong, and where that is explained.
func (f Faults) Attributes(field string) template.HTMLAttr { return f.Of(field).attributes() }

// ExactAttributes is Attributes for what is wrong with a field itself.
func (f Faults) ExactAttributes(field string) template.HTMLAttr { return f.Exactly(field).attributes() }

func (f Fault) attributes() template.HTMLAttr {
	if f.ID == "" {
		return ""
	}
	return template.HTMLAttr(` aria-invalid="true" aria-describedby="` + f.ID + `"`) //nolint:gosec // see idOf
}

var notInIDs = regexp.MustCompile(`[^a-z0-9]+`)

// idOf returns the id of the element that says what is wrong with a field: letters, digits and dashes.
func idOf(field string) string {
	return "fault-" + strings.Trim(notInIDs.ReplaceAllString(field, "-"), "-")
}
