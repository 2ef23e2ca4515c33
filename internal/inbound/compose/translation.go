package compose

import (
	"slices"
	"sync"

	"github.com/modelgate/modelgate/api/openai"
	"github.com/modelgate/modelgate/internal/provider"
	"github.com/modelgate/modelgate/internal/provider/reasoning"
)

// A Translation has the chat completion of a request, which is made when a vendor needs it that does not speak the
// dialect.
type Translation struct {
	// Places are the places of the chat completion's messages in the client's request.
	Places []string
	// Dropped are members that no other vendor knows.
	Dropped []string

	once sync.Once
	err  error
	// Own says how much the model thinks in the members of the dialect's vendor. Codecs that translate read it. Others
	// get Plain, which has only OpenAI's members.
	Own, Plain *openai.ChatRequest
}

// Encode has a vendor encode the chat completion. The first call translates the request.
func (t *Translation) Encode(v *provider.Provider, to provider.Target, translate func() error) (provider.Request,
	provider.Answer, error) {
	t.once.Do(func() {
		err := translate() // sets the places
		t.err = Placed(err, t.Places)
	})
	if t.err != nil {
		return provider.Request{}, nil, t.err
	}
	chat := t.Plain
	if v.TakesThinking {
		chat = t.Own
	}
	sent, answer, err := Encode(v, chat, to)
	sent.Dropped = append(sent.Dropped, t.Dropped...)
	return sent, answer, Placed(err, t.Places)
}

// Drop notes a member that is left out.
func (t *Translation) Drop(param string) {
	if !slices.Contains(t.Dropped, param) {
		t.Dropped = append(t.Dropped, param)
	}
}

// Parse parses the chat completion that b has, up to its end. Its bytes from common on say how much the model thinks.
func (t *Translation) Parse(by openai.Carrier, b *Builder, common int) error {
	own, err := Chat(by, append(slices.Clone(b.Dst), '}'))
	if err != nil {
		return err
	}
	t.Own, t.Plain = own, own
	if len(b.Dst) == common {
		return nil
	}
	chat, err := own.Chat()
	if err != nil {
		return err
	}
	wish, err := reasoning.Of(own, chat)
	if err != nil {
		return err
	}
	b.Dst = b.Dst[:common]
	if wish.Param != "" {
		b.Text("reasoning_effort", wish.Level())
	}
	t.Plain, err = Chat(by, append(b.Dst, '}'))
	return err
}
