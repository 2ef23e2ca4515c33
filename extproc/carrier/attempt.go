package carrier

import (
	"errors"
	"fmt"

	"github.com/modelgate/modelgate/extproc/routing"
)

// An attempt handles an attempt after the first, or any to open a session. Its headers arrive once, and the reply has
// the body for its provider. In every other case it returns an error, because the request of another provider must not
// be sent.
type attempt struct {
	carriers *Carriers
	link     Link
	done     bool
}

// Close implements [Handler].
func (a *attempt) Close() error {
	a.carriers.open.Add(-1)
	if !a.done {
		return errors.New("no message")
	}
	return nil
}

// Take implements [Handler].
func (a *attempt) Take(in *Message) error {
	if a.done {
		return errors.New("unexpected message after an attempt's headers")
	}
	a.done = true
	found, ok := a.carriers.plans.Load(in.Request)
	if !ok {
		return fmt.Errorf("no plan %q", in.Request)
	}
	p, n := found.(*routing.Plan), in.Facts.Attempts
	if n < 1 || n > len(p.Targets) || p.Targets[n-1].Cluster != in.Facts.Cluster {
		return fmt.Errorf("attempt %d at %q is not planned", n, in.Facts.Cluster)
	}
	phase := in.Phase
	return a.link.Go(func() error {
		encoded, err := p.Encode(n)
		if err != nil {
			return err
		}
		return a.link.Send(&Response{Phase: phase, Attempt: &encoded})
	})
}
