package configv1

import (
	"fmt"
	"strings"
)

// A FieldError is one error in one object. It never has a field's value if that could be a secret.
type FieldError struct {
	// Source is the file, line and column of the field, or of the text around it. It is empty if the object did not come
	// from a file.
	Source string
	// Object is the object's kind and name, or empty if they could not be read.
	Object string
	// Field is the path of the field, such as targets[0].provider, or empty for the whole object.
	Field string
	// Message says what to change.
	Message string
	// Unresolved means that the field names an object that there is not.
	Unresolved bool
}

// Error returns "file:line:column: Kind name: field: message", without the parts that are empty.
func (e FieldError) Error() string {
	var parts []string
	for _, p := range []string{e.Source, e.Object, e.Field, e.Message} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, ": ")
}

// Errors are all errors, in the order of the objects.
type Errors []FieldError

// Error returns one line for each error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns e as an error, or nil if it is empty.
func (e Errors) Err() error {
	if len(e) == 0 {
		return nil
	}
	return e
}

func (e *Errors) add(object, field, format string, args ...any) {
	*e = append(*e, FieldError{Object: object, Field: field, Message: fmt.Sprintf(format, args...)})
}
