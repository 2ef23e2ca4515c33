package admin

import "context"

// Erase erases what is recorded of a user, or a part of it.
func (c RequestCalls) Erase(ctx context.Context, r ErasureRequest, flags ...Flag) (Erasure, error) {
	return post[Erasure](ctx, c.caller, flagged("erasures", flags), r)
}
