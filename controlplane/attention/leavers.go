package attention

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

const (
	// ToldOfLeavers is how long the keys of an owner who has left are reported. Keys that go on without an owner
	// are reported as long as they do.
	ToldOfLeavers = 30 * 24 * time.Hour
	// named is how many objects a message names. The others are counted.
	named = 5
)

// A Leaver is somebody who has left, or has lost rights, and what they have made.
type Leaver struct {
	Account string
	Why     string    // part of a sentence
	Since   time.Time // of the keys; zero: not known
	// Ended are keys that were disabled, Kept those that go on, and Handed those that others have now.
	Ended, Kept, Handed []*configv1.Key
	// Tokens are the admin tokens that have fewer rights for it, or none.
	Tokens []*configv1.AdminToken
}

func leavers(f Facts) []adminapi.Attention {
	var ofKeys, ofTokens []adminapi.Attention
	for _, l := range f.Leavers {
		said := l.ofKeys(f.Now)
		if len(said) > 0 {
			since := ""
			if !l.Since.IsZero() {
				since = l.Since.UTC().Format(", since 2006-01-02 15:04 UTC")
			}
			ofKeys = append(ofKeys, adminapi.Attention{Kind: adminapi.AttentionKeysOfLeaver,
				Severity: adminapi.SeverityWarning, Path: "/keys",
				Message: fmt.Sprintf("%s has left: %s%s. %s", l.Account, l.Why, since, strings.Join(said, " "))})
		}
		if len(l.Tokens) > 0 {
			names := make([]string, len(l.Tokens))
			for i, t := range l.Tokens {
				names[i] = labelled(t.GetName(), t.GetDisplayName())
			}
			ofTokens = append(ofTokens, adminapi.Attention{Kind: adminapi.AttentionTokensOfLeaver,
				Severity: adminapi.SeverityWarning, Path: "/tokens", Message: fmt.Sprintf(
					"%s has left: %s. Admin tokens that are refused, or have fewer scopes: %s. Make new ones, and delete these.",
					l.Account, l.Why, list(names))})
		}
	}
	return append(Bounded(ofKeys, "people have left keys", "/keys"),
		Bounded(ofTokens, "people have left tokens", "/tokens")...)
}

// ofKeys says what became of keys, and what can be done.
func (l Leaver) ofKeys(now time.Time) (said []string) {
	told := l.Since.IsZero() || now.Sub(l.Since) < ToldOfLeavers
	if len(l.Ended) > 0 && told {
		said = append(said, fmt.Sprintf("Keys that are disabled: %s. Who enables a key takes it over: modelgate key enable ID.",
			listed(l.Ended)))
	}
	if len(l.Kept) > 0 {
		said = append(said, fmt.Sprintf("Keys that still work: %s. Disable or revoke them; who enables one again takes it over.",
			listed(l.Kept)))
	}
	if len(l.Handed) > 0 && told {
		said = append(said, fmt.Sprintf("Keys that %s has now: %s.", l.Handed[0].GetOwner(), listed(l.Handed)))
	}
	return said
}

func listed(keys []*configv1.Key) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = labelled(k.GetName(), k.GetDisplayName())
	}
	return list(names)
}

func labelled(name, label string) string {
	if cmp.Or(label, name) == name {
		return name
	}
	return name + " (" + label + ")"
}

func list(names []string) string {
	if len(names) <= named {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
}
