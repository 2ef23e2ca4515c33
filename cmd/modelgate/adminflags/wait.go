package adminflags

import (
	"errors"
	"fmt"
	"time"

	adminapi "github.com/modelgate/modelgate/api/admin"
	"github.com/modelgate/modelgate/cmd/modelgate/admincli"
)

// ErrNotInForce ends a command whose change is stored and has no effect, or not everywhere yet.
var ErrNotInForce = errors.New("the change is stored, but not yet active everywhere")

// WaitFlags say how long a change is waited for.
type WaitFlags struct {
	Timeout time.Duration `default:"10s" help:"How long to wait until the data plane uses the change (${default}; at most 60s). Exits with 3 if some of the data plane does not use it by then."`
	NoWait  bool          `help:"Do not wait: return when the change is stored."`

	TakeOver bool `help:"Also change objects that something else declares, such as Kubernetes. From then on they are not changed from there."`
}

// A pending is what of a change is not in force.
type pending struct {
	who     string
	timeout time.Duration
}

// Client returns a client whose changes are waited for, and what tells afterwards whether they are in force. Without
// flags, they are not waited for.
func (w *WaitFlags) Client(f AdminFlags) (*adminapi.Client, *pending, error) {
	if w == nil {
		client, err := f.Client()
		return client, &pending{}, err
	}
	if w.Timeout < time.Second || w.Timeout > adminapi.MaxWait {
		return nil, nil, admincli.Misused("--timeout must be between 1s and 60s; --no-wait does not wait")
	}
	conn, err := f.Connect()
	if err != nil {
		return nil, nil, err
	}
	p := &pending{timeout: w.Timeout}
	if w.NoWait {
		p.timeout = 0
	}
	conn.HTTP.Timeout += p.timeout
	client := adminapi.NewClient(conn.Server, conn.Token, conn.HTTP).Acting(f.Tenant)
	if w.TakeOver {
		client = client.TakingOver()
	}
	return client.Waiting(p.timeout, func(who string) { p.who = who }), p, nil
}

// Err says who has not taken the changes, if anybody has not.
func (p *pending) Err() error {
	if p.who == "" {
		return nil
	}
	return fmt.Errorf("%w after %v: waiting for %s (modelgate status shows more)", ErrNotInForce, p.timeout, p.who)
}
