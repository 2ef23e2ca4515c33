package scim

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/scim2/filter-parser/v2"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// Bounds of a filter.
const (
	maxFilter = 1024 // bytes
	maxNested = 32   // parentheses and brackets
)

// A form says how values of an attribute are compared.
type form int

const (
	text  form = iota + 1 // case does not count
	exact                 // case counts
	truth                 // true or false
	many                  // a list of objects
)

// filterable are the attributes that filters can name, in lower case.
func filterable() map[string]form {
	return map[string]form{"id": exact, "externalid": exact, "username": text, "displayname": text, "active": truth,
		"groups": many, "members": many}
}

// elements are the attributes of members and groups.
func elements() map[string]form {
	return map[string]form{"value": exact, "display": text, "type": text}
}

// filterOf returns a function that reports whether a resource matches a filter (RFC 7644, section 3.4.2.2), or nil for
// an empty one.
func filterOf(written string) (func(map[string]any) bool, error) {
	if written == "" {
		return nil, nil
	}
	nested := strings.Count(written, "(") + strings.Count(written, "[")
	if len(written) > maxFilter || nested > maxNested {
		return nil, bad("invalidFilter", "The filter is longer than 1024 bytes, or has more than 32 parentheses.")
	}
	e, err := filter.ParseFilter([]byte(written))
	if err != nil {
		return nil, bad("invalidFilter", "The filter cannot be read.")
	}
	known := filterable()
	if _, err := matches(known, e, nil); err != nil { // the same for every resource
		return nil, err
	}
	return func(r map[string]any) bool {
		ok, _ := matches(known, e, r) // the error would have come above
		return ok
	}, nil
}

// matches reports whether an object matches. The error depends on the expression alone.
func matches(known map[string]form, e filter.Expression, object map[string]any) (bool, error) {
	switch e := e.(type) {
	case *filter.LogicalExpression:
		left, err := matches(known, e.Left, object)
		if err != nil {
			return false, err
		}
		right, err := matches(known, e.Right, object)
		return e.Operator == filter.AND && left && right || e.Operator == filter.OR && (left || right), err
	case *filter.NotExpression:
		ok, err := matches(known, e.Expression, object)
		return !ok, err
	case *filter.ValuePath:
		return anyMatches(known, e.AttributePath, e.ValueFilter, object)
	case *filter.AttributeExpression:
		return compared(known, e, object)
	}
	return false, bad("invalidFilter", "The filter has an expression that is not supported.")
}

// anyMatches reports whether any element of a list matches.
func anyMatches(known map[string]form, path filter.AttributePath, e filter.Expression, object map[string]any) (bool,
	error) {
	name := configv1.Fold(path.AttributeName)
	if known[name] != many {
		return false, errUnknown(path)
	}
	_, err := matches(elements(), e, nil)
	list, _ := object[name].([]any)
	return err == nil && slices.ContainsFunc(list, func(element any) bool {
		ok, _ := matches(elements(), e, element.(map[string]any)) // the error would have come above
		return ok
	}), err
}

// compared reports whether an attribute has a value.
func compared(known map[string]form, e *filter.AttributeExpression, object map[string]any) (bool, error) {
	name, part := configv1.Fold(e.AttributePath.AttributeName), e.AttributePath.SubAttributeName()
	uri := e.AttributePath.URI()
	how := known[name]
	ours := uri == "" || isSchema(uri, userSchema) || isSchema(uri, groupSchema)
	switch {
	case how == 0 || !ours || how != many && part != "":
		return false, errUnknown(e.AttributePath)
	case how == many && e.Operator == filter.PR && part == "":
		list, _ := object[name].([]any)
		return len(list) > 0, nil
	case how == many:
		if part == "" {
			part = "value"
		}
		of := &filter.AttributeExpression{AttributePath: filter.AttributePath{AttributeName: part}, Operator: e.Operator,
			CompareValue: e.CompareValue}
		return anyMatches(known, e.AttributePath, of, object)
	case how == truth:
		has, _ := object[name].(bool)
		want, ok := e.CompareValue.(bool)
		if e.Operator == filter.PR {
			return true, nil
		}
		if !ok || e.Operator != filter.EQ && e.Operator != filter.NE {
			return false, bad("invalidFilter", "The attribute "+name+" is true or false.")
		}
		return has == want == (e.Operator == filter.EQ), nil
	}
	has, _ := object[name].(string)
	return comparedText(how, e, has)
}

func comparedText(how form, e *filter.AttributeExpression, has string) (bool, error) {
	if e.Operator == filter.PR {
		return has != "", nil
	}
	written, ok := e.CompareValue.(string)
	var want string
	if !ok || json.Unmarshal([]byte(`"`+written+`"`), &want) != nil { // the library leaves escapes as they are
		return false, bad("invalidFilter", "The attribute "+e.AttributePath.String()+" is a text.")
	}
	if how == text {
		has, want = configv1.Fold(has), configv1.Fold(want)
	}
	switch e.Operator {
	case filter.EQ:
		return has == want, nil
	case filter.NE:
		return has != want, nil
	case filter.CO:
		return strings.Contains(has, want), nil
	case filter.SW:
		return strings.HasPrefix(has, want), nil
	case filter.EW:
		return strings.HasSuffix(has, want), nil
	}
	return false, bad("invalidFilter", "The operator "+string(e.Operator)+" is not supported. Use eq, ne, co, sw, ew or pr.")
}

func errUnknown(path filter.AttributePath) error {
	return bad("invalidFilter", "Filters cannot name the attribute "+path.String()+".")
}
