package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/modelgate/modelgate/internal/secret"
)

const (
	maxSaid  = 200     // bytes of an error of Vault that are repeated
	maxLease = 1 << 31 // seconds
)

// errNotVault is the error for what is no answer of Vault.
var errNotVault = errors.New("the answer is not JSON as Vault writes it")

// An answer is one of Vault's API, as far as it is used.
type answer struct {
	Data     json.RawMessage `json:"data"`
	LeaseID  string          `json:"lease_id"`
	Lease    int64           `json:"lease_duration"`
	Auth     *auth           `json:"auth"`
	Errors   []string        `json:"errors"`
	Warnings []string        `json:"warnings"`
}

// An auth is a token that Vault gave or renewed.
type auth struct {
	Token     string `json:"client_token"`
	Lease     int64  `json:"lease_duration"`
	Renewable bool   `json:"renewable"`
}

func seconds(n int64) time.Duration { return time.Duration(min(max(n, 0), maxLease)) * time.Second }

// A statusError is an answer with another status than 200.
type statusError struct {
	status int
	said   string
}

func (e *statusError) Error() string {
	meaning := ""
	switch e.status {
	case http.StatusForbidden:
		meaning = " (the token is not allowed to read it, or is not valid)"
	case http.StatusNotFound:
		meaning = " (there is no such secret)"
	}
	if e.said == "" {
		return fmt.Sprintf("Vault answers %d%s", e.status, meaning)
	}
	return fmt.Sprintf("Vault answers %d%s: %s", e.status, meaning, e.said)
}

// A signInError is one of the control plane's own token, and says nothing of a secret.
type signInError struct{ err error }

func (e *signInError) Error() string { return e.err.Error() }

func (e *signInError) Unwrap() error { return e.err }

// errDeleted is the error for a secret whose newest version is deleted.
var errDeleted = &statusError{status: http.StatusNotFound, said: "its newest version is deleted"}

// final reports whether an error is what Vault says of a secret, and not that it could not be asked.
func final(err error) bool {
	if _, ours := errors.AsType[*signInError](err); ours {
		return false
	}
	e, ok := errors.AsType[*statusError](err)
	if !ok {
		return false
	}
	switch e.status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
		return true
	}
	return false
}

// quoted returns what Vault says in an error, on one line and without what must not be repeated.
func quoted(texts []string, hidden []secret.Value) string {
	text := strings.Join(strings.Fields(strings.Join(texts, "; ")), " ")
	for _, h := range hidden {
		if !h.IsZero() {
			text = strings.ReplaceAll(text, h.Reveal(), secret.Redacted)
		}
	}
	return strings.ToValidUTF8(text[:min(len(text), maxSaid)], "")
}

// A lease says for how long something is good.
type lease struct {
	of       string // its id, where it is one of its own
	duration time.Duration
}

// What was found of a secret.
type found struct {
	fields *fields
	lease  lease
}

// fields are those of a secret.
type fields struct {
	texts  map[string]secret.Value
	others map[string]bool // that are not texts
}

func (f *fields) equal(other *fields) bool {
	if f == nil || other == nil {
		return f == other
	}
	return maps.Equal(f.texts, other.texts) && maps.Equal(f.others, other.others)
}

func (f *fields) get(path, name string) (secret.Value, error) {
	v, ok := f.texts[name]
	switch {
	case f.others[name]:
		return secret.Value{}, fmt.Errorf("%s: the field %s is not a text", path, name)
	case !ok:
		return secret.Value{}, fmt.Errorf("%s: the secret has no field %s", path, name)
	case v.IsZero():
		return secret.Value{}, fmt.Errorf("%s: the field %s is empty", path, name)
	}
	return v, nil
}

// fieldsOf reads a secret of either version of the key/value engine. The data of version 2 is in it with metadata that
// has the number of a version.
func fieldsOf(data json.RawMessage) (*fields, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &members); err != nil || members == nil {
		return nil, errNotVault
	}
	var metadata struct {
		Version *int64 `json:"version"`
	}
	if inner, ok := members["data"]; ok && json.Unmarshal(members["metadata"], &metadata) == nil &&
		metadata.Version != nil {
		members = nil
		if err := json.Unmarshal(inner, &members); err != nil {
			return nil, errNotVault
		}
		if members == nil {
			return nil, errDeleted
		}
	}
	found := &fields{texts: map[string]secret.Value{}, others: map[string]bool{}}
	for name, raw := range members {
		var text *string
		if err := json.Unmarshal(raw, &text); err != nil || text == nil {
			found.others[name] = true
			continue
		}
		found.texts[name] = secret.New(strings.TrimSpace(*text))
	}
	return found, nil
}
