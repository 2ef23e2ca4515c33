package admin

import "context"

// An ErasureRequest asks for the erasure of everything that the gateway has recorded about a user.
type ErasureRequest struct {
	// User as clients named it in requests.
	User string `json:"user"`
	// DryRun counts, and erases nothing. It is a parameter of the URL.
	DryRun bool `json:"-"`
}

// UserData counts the records of a user, or the erased ones.
type UserData struct {
	// Exchanges of the request log. They stay, without the user.
	Exchanges int64 `json:"exchanges"`
	// Sums of usage by user.
	Sums int64 `json:"sums"`
	// Bodies counts the exchanges whose bodies are kept.
	Bodies int64 `json:"bodies"`
	// More says that there is more to erase: ask again.
	More bool `json:"more"`
}

// An Erasure is the answer to an ErasureRequest.
type Erasure struct {
	// ID of the erasure in the audit log, which does not name the user. Empty after a dry run.
	ID string `json:"id,omitempty"`
	UserData
}

// Erase erases what is recorded of a user, or a part of it.
func (c RequestCalls) Erase(ctx context.Context, r ErasureRequest) (Erasure, error) {
	path := "erasures"
	if r.DryRun {
		path += "?dry_run=true"
	}
	return post[Erasure](ctx, c.caller, path, r)
}
