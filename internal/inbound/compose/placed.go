package compose

import (
	"errors"
	"regexp"
	"strconv"

	"github.com/modelgate/modelgate/api/openai"
)

// ofMessage finds the places of messages in errors about a chat completion.
var ofMessage = regexp.MustCompile(`messages\[(\d+)\]`)

// Placed returns an error with places of the client's request, if it is about a message of the chat completion.
// The places are the messages' places, by index.
func Placed(err error, places []string) error {
	e, ok := errors.AsType[*openai.Error](err)
	if !ok || len(places) == 0 {
		return err
	}
	place := func(s string) string {
		return ofMessage.ReplaceAllStringFunc(s, func(found string) string {
			i, err := strconv.Atoi(ofMessage.FindStringSubmatch(found)[1])
			if err != nil || i >= len(places) {
				return found
			}
			return places[i]
		})
	}
	of := *e
	of.Message, of.Param = place(e.Message), place(e.Param)
	return &of
}
