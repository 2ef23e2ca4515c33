package dashboard

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// firstSteps keeps in etcd who has dismissed the first steps, for everybody and until the etcd is replaced.
type firstSteps struct{ etcd *clientv3.Client }

const dismissedKey = root + "first-steps"

// Dismissed reports whether somebody has dismissed them.
func (s firstSteps) Dismissed(ctx context.Context) (bool, error) {
	r, err := s.etcd.Get(ctx, dismissedKey, clientv3.WithCountOnly())
	if err != nil {
		return false, fmt.Errorf("read whether the first steps are dismissed: %w", err)
	}
	return r.Count > 0, nil
}

// Dismiss keeps that a person has dismissed them.
func (s firstSteps) Dismiss(ctx context.Context, person string) error {
	if _, err := s.etcd.Put(ctx, dismissedKey, person); err != nil {
		return fmt.Errorf("dismiss the first steps: %w", err)
	}
	return nil
}
