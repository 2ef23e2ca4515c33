package request_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/request"
)

func TestTheUserIsTheSameInEveryDialect(t *testing.T) {
	for body, want := range map[string]string{
		`{"user":"a","metadata":{"user_id":"b"}}`:            "a",
		`{"metadata":{"user_id":"b"}}`:                       "b",
		`{"safety_identifier":"c","metadata":{"user_id":1}}`: "c",
		`{"us\u0065r":"a"}`:                                  "a",
		`{"user":7,"contents":[]}`:                           "",
		`{"messages":[{"user":"x"}]}`:                        "",
	} {
		require.Equal(t, want, request.UserOf(&inbound.Request{Sent: openai.MembersOf([]byte(body))}), body)
	}
	require.Empty(t, request.UserOf(&inbound.Request{}), "of a session")
}
