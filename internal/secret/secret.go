// Package secret has values that must not be printed. A [Value] prints as [redacted] in logs, errors and JSON. Only
// Reveal returns the secret, so every use of a secret can be found by that name.
package secret

// Redacted is what every rendering of a Value shows.
const Redacted = "[redacted]"

// A Value is a secret string. Its zero value is the empty secret.
type Value struct{ s string }

// New wraps s.
func New(s string) Value { return Value{s} }

// Reveal returns the secret itself.
func (v Value) Reveal() string { return v.s }

// IsZero reports whether there is no secret.
func (v Value) IsZero() bool { return v.s == "" }

// String returns [Redacted], also for %v and %s.
func (Value) String() string { return Redacted }

// GoString returns [Redacted], for %#v.
func (Value) GoString() string { return Redacted }

// MarshalText returns [Redacted], for JSON, YAML and loggers.
func (Value) MarshalText() ([]byte, error) { return []byte(Redacted), nil }
