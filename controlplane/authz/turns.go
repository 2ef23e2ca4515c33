package authz

import (
	"context"
	"errors"
	"time"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/controlplane/accounts"
	"github.com/modelgate/modelgate/internal/turns"
)

// Queue returns with whom the principal takes turns: the others of an organization, of a directory, of those who sign
// in, or else the operators. Nobody waits behind more than one piece of work of each other queue.
func (p Principal) Queue() string {
	switch {
	case p.As == accounts.SignIn:
		return "sign-in"
	case p.Provider != "":
		return "scim/" + p.Provider
	}
	return p.Tenant.Organization
}

// TakePlace takes a place for what the caller has open for long, and returns what gives it back. What is said of it if
// there is none: nobody waits.
func TakePlace(ctx context.Context, of *turns.Places, what string) (leave func(), err error) {
	p, _ := PrincipalOf(ctx)
	leave, ok, _ := of.Take(p.Queue(), p.Queue())
	if !ok {
		return nil, tooMany(what)
	}
	return leave, nil
}

func tooMany(what string) error {
	return openai.CodeRateLimitExceeded.New("Too many %s at the same time. Try again when they are complete.",
		what).After(10 * time.Second)
}

// TakeTurn waits for the caller's turn, and returns what ends it. What is said of the work if too much of it waits.
func TakeTurn(ctx context.Context, of *turns.Turns, what string) (leave func(), err error) {
	p, _ := PrincipalOf(ctx)
	var turn turns.Turn
	err = turn.Take(ctx, of, p.Queue())
	if errors.Is(err, turns.ErrMany) || errors.Is(err, context.DeadlineExceeded) {
		err = tooMany(what)
	}
	return turn.Release, err
}
