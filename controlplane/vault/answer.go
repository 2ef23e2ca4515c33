package vault

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/modelgate/modelgate/controlplane/secretstore"
	"github.com/modelgate/modelgate/internal/secret"
)

const (
	maxSaid  = 200     // bytes of an error of Vault that are repeated
	maxLease = 1 << 31 // seconds
)

// errNotVault is the error for an answer that is not Vault's.
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

// errDeleted is the error for a secret whose newest version is deleted.
var errDeleted = &statusError{status: http.StatusNotFound, said: "its newest version is deleted"}

// final reports whether an error is what Vault says of a secret, and not that it could not be asked.
func final(err error) bool {
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

// fieldsOf reads a secret of either version of the key/value engine. The data of version 2 is in it with metadata that
// has the number of a version.
func fieldsOf(data json.RawMessage) (*secretstore.Fields, error) {
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
	return secretstore.FieldsOf(members), nil
}
