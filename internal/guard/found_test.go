package guard

import (
	"context"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

// inRequest returns what the rules for requests find in a text.
func (s *Set) inRequest(text string) []span {
	all, err := s.spans(context.Background(), NewWork(), text, configv1.GuardSide_REQUESTS)
	if err != nil {
		panic(err)
	}
	return all
}
