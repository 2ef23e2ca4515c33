package main

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

// A loginEntry is a gateway where the person is signed in.
type loginEntry struct {
	Token     string    `json:"token"`
	Account   string    `json:"account"`
	ExpiresAt time.Time `json:"expires_at"`
}

// logins are what is in the file of sign-ins: by the URL of the admin API.
type logins struct {
	path    string
	entries map[string]loginEntry
	err     error // of reading them
}

// readLogins reads the file of sign-ins, which may not be there.
func readLogins() logins {
	folder, err := os.UserConfigDir()
	if err != nil {
		return logins{} // without a home there are none
	}
	l := logins{path: filepath.Join(folder, "modelgate", "logins.json"), entries: map[string]loginEntry{}}
	text, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return l
	}
	if err == nil {
		err = json.Unmarshal(text, &l.entries)
	}
	if err != nil {
		l.err = fmt.Errorf("reading the sign-ins in %s: %w", l.path, err)
	}
	return l
}

func serverKey(server string) string { return strings.TrimRight(server, "/") }

// token returns the token for a gateway, or "".
func (l logins) token(server string) (string, error) {
	entry := l.entries[serverKey(server)]
	if entry.Token != "" && !time.Now().Before(entry.ExpiresAt) {
		return "", fmt.Errorf("your sign-in has ended. Sign in again with: modelgate login --server %s", server)
	}
	return entry.Token, l.err
}

// put stores a sign-in, or removes it where the entry is empty. Only the person can read the file.
func (l logins) put(server string, entry loginEntry) error {
	if l.err != nil {
		return l.err
	}
	if l.path == "" {
		return errors.New("there is no folder for the sign-in: set $HOME or $XDG_CONFIG_HOME")
	}
	l.entries[serverKey(server)] = entry
	if entry.Token == "" {
		delete(l.entries, serverKey(server))
	}
	text, err := json.MarshalIndent(l.entries, "", "  ")
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
