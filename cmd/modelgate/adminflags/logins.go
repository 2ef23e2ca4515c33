package adminflags

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A LoginEntry is a gateway where the person is signed in.
type LoginEntry struct {
	Token     string    `json:"token"`
	Account   string    `json:"account"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Logins are what is in the file of sign-ins: by the URL of the admin API.
type Logins struct {
	path    string
	Entries map[string]LoginEntry
	Err     error // of reading them
}

// ReadLogins reads the file of sign-ins, which may not be there.
func ReadLogins() Logins {
	folder, err := os.UserConfigDir()
	if err != nil {
		return Logins{} // without a home there are none
	}
	l := Logins{path: filepath.Join(folder, "modelgate", "logins.json"), Entries: map[string]LoginEntry{}}
	text, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l
	}
	if err == nil {
		err = json.Unmarshal(text, &l.Entries)
	}
	if err != nil {
		l.Err = fmt.Errorf("reading the sign-ins in %s: %w", l.path, err)
	}
	return l
}

// ServerKey is the name under which the sign-in to a server is kept.
func ServerKey(server string) string { return strings.TrimRight(server, "/") }

// token returns the token for a gateway, or "".
func (l Logins) token(server string) (string, error) {
	entry := l.Entries[ServerKey(server)]
	if entry.Token != "" && !time.Now().Before(entry.ExpiresAt) {
		return "", fmt.Errorf("your sign-in has ended. Sign in again with: modelgate login --server %s", server)
	}
	return entry.Token, l.Err
}

// Put stores a sign-in, or removes it if the entry is empty. Only the person can read the file.
func (l Logins) Put(server string, entry LoginEntry) error {
	if l.Err != nil {
		return l.Err
	}
	if l.path == "" {
		return errors.New("there is no folder for the sign-in: set $HOME or $XDG_CONFIG_HOME")
	}
	l.Entries[ServerKey(server)] = entry
	if entry.Token == "" {
		delete(l.Entries, ServerKey(server))
	}
	text, err := json.MarshalIndent(l.Entries, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return fmt.Errorf("storing the sign-in: %w", err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(l.path), "logins-*")
	if err != nil {
		return fmt.Errorf("storing the sign-in: %w", err)
	}
	_, err = temporary.Write(text) // whose mode is 0600
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), l.path)
	}
	if err != nil {
		return fmt.Errorf("storing the sign-in: %w", errors.Join(err, os.Remove(temporary.Name())))
	}
	return nil
}
