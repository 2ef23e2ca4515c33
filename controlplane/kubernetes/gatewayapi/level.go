package gatewayapi

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A level is a part of an object. It knows which of its fields were read.
type level struct {
	at   string // its path; "" or one that ends with a point
	tree map[string]any
	read map[string]bool
}

func newLevel(at string, tree any) *level {
	l := &level{at: at, read: map[string]bool{}}
	l.tree, _ = tree.(map[string]any)
	return l
}

func specOf(o *unstructured.Unstructured) *level { return newLevel("spec.", o.Object["spec"]) }

func (l *level) take(field string) any {
	l.read[field] = true
	return l.tree[field]
}

// text returns a field, or what it is if it is not there.
func (l *level) text(field, missing string) string {
	if s, ok := l.take(field).(string); ok && s != "" {
		return s
	}
	return missing
}

// texts returns a list.
func (l *level) texts(field string) (all []string) {
	list, _ := l.take(field).([]any)
	for _, element := range list {
		if s, ok := element.(string); ok {
			all = append(all, s)
		}
	}
	return all
}

func (l *level) number(field string) (n int64, ok bool) {
	switch v := l.take(field).(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	}
	return 0, false
}

func (l *level) within(field string) *level { return newLevel(l.at+field+".", l.take(field)) }

func (l *level) each(field string) (all []*level) {
	list, _ := l.take(field).([]any)
	for i, element := range list {
		all = append(all, newLevel(fmt.Sprintf("%s%s[%d].", l.at, field, i), element))
	}
	return all
}

// unread returns the path of a field that nobody has read, or "".
func (l *level) unread() string {
	for _, field := range slices.Sorted(maps.Keys(l.tree)) {
		if !l.read[field] && !empty(l.tree[field]) {
			return l.at + field
		}
	}
	return ""
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// Reasons of the Gateway API, by their meaning here.
const (
	reasonInvalid         = "Invalid"
	reasonUnsupported     = "UnsupportedValue"
	reasonRefNotPermitted = "RefNotPermitted"
	reasonNotFound        = "BackendNotFound"
	reasonNotAllowed      = "NotAllowedByListeners"
	reasonNoParent        = "NoMatchingParent"
	reasonNoHost          = "NoMatchingListenerHostname"
	reasonPending         = "Pending"
	reasonPort            = "PortUnavailable"
	reasonCertificate     = "InvalidCertificateRef"
)

// A problem says in a condition why something is not taken.
type problem struct {
	reason, message string
	ends            bool // nothing of it may stay in force; otherwise the last good version does
}

func trouble(reason, format string, args ...any) *problem {
	return &problem{reason: reason, message: fmt.Sprintf(format, args...),
		ends: reason == reasonRefNotPermitted || reason == reasonNotAllowed || reason == reasonNoParent ||
			reason == reasonNoHost}
}

// unsupported returns the problem of a field that has no effect here, or nil.
func (l *level) unsupported() *problem {
	if at := l.unread(); at != "" {
		return trouble(reasonUnsupported, "%s has no effect in this gateway", at)
	}
	return nil
}
