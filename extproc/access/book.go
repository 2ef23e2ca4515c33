package access

import (
	"time"

	"github.com/modelgate/modelgate/internal/memo"
)

// A Book caches the rules of a Directory. It is safe for concurrent use.
type Book struct {
	directory Directory
	users     bool // a limit depends on the user
	sets      *memo.Memo[setKey, *Rules]
	names     *Names
}

// setKey is what Rules depend on, except for the user. The project may be that of a token.
type setKey struct{ key, project, model, provider string }

// maxSets bounds the cache: clients choose the names of unlisted models.
const maxSets = 10_000

// NewBook returns the book of a directory, with counters that names bounds.
func NewBook(d Directory, names *Names) *Book {
	return &Book{directory: d, users: d.LimitsUsers(), sets: memo.New[setKey, *Rules](maxSets), names: names}
}

// Rules returns the rules for the requests of a client, who may have no key. [Rules.For] leaves those for one request.
func (b *Book) Rules(k *Client, user, model, provider string) *Rules {
	if k.Name == "" || b.users && user != "" {
		e := entriesOf(k, user, model, provider)
		return b.directory.rulesOf(k, &e, b.names, time.Time{})
	}
	at := setKey{k.Name, k.Project, model, provider}
	if set, ok := b.sets.Find(at); ok {
		return set
	}
	e := entriesOf(k, "", model, provider)
	set := b.directory.rulesOf(k, &e, b.names, time.Time{})
	if set.shared {
		return set // until there is room
	}
	return b.sets.Keep(at, set)
}
