package call

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	configv1 "github.com/modelgate/modelgate/api/config/v1"
	"github.com/modelgate/modelgate/extproc/metering"
	"github.com/modelgate/modelgate/extproc/routing"
	"github.com/modelgate/modelgate/internal/telemetry"
)

func TestModelsAreLabelledByNamesOfTheConfiguration(t *testing.T) {
	provider := func(name string, models ...string) *routing.Provider {
		return &routing.Provider{Config: &configv1.Provider{Name: name, Models: models}}
	}
	tuned := func(name, upstream, base string) *configv1.Model {
		return &configv1.Model{Name: name, Targets: []*configv1.Target{{Provider: "a", Model: upstream}},
			FineTuned: &configv1.FineTuned{BaseModel: base}}
	}
	c := &Config{
		Table: routing.Table{Providers: map[string]*routing.Provider{"a": provider("a"),
			"narrow": provider("narrow", "only")}, Models: map[string]*configv1.Model{
			"smart": {Name: "smart"}, "ft:mine": tuned("ft:mine", "ft:up", "a/listed"),
			"ft:twice":  tuned("ft:twice", "ft:up2", "ft:mine"),
			"ft:of-any": tuned("ft:of-any", "ft:up3", "a/whatever"),
		}, Listings: map[string]*configv1.Listing{"a": {Models: []*configv1.ListedModel{{Id: "listed"}}}}},
	}
	c.Index()
	for name, want := range map[string]string{
		"smart":            "smart",
		"a/listed":         "a/listed",
		"narrow/only":      "narrow/only",
		"a/anything":       telemetry.Other,
		"a/listed/":        telemetry.Other,
		"":                 telemetry.Other,
		"ft:mine":          "a/listed", // what is tuned has words of a client's in its name
		"a/ft:up":          "a/listed",
		"ft:twice":         telemetry.Other,
		"ft:of-any":        telemetry.Other,
		"nobody/something": telemetry.Other,
	} {
		require.Equal(t, want, c.Label(name), name)
	}
}

// A chunkCount is an Observer of chunks.
type chunkCount struct {
	chunks int
	waited time.Duration
}

func (*chunkCount) Degraded()              {}
func (*chunkCount) Shed(string)            {}
func (*chunkCount) Refused(string, string) {}

func (c *chunkCount) Chunks(_ *metering.Record, n int, gap time.Duration) {
	c.chunks += n
	c.waited += gap
}

func TestChunksAreCountedHoweverTheyAreCut(t *testing.T) {
	const first, next = "data: {\"type\":\"a\"}\r\n\r\n",
		": a comment\n\nevent: b\ndata: {\"type\":\"b\",\"text\":\"\\n\\n\"}\n\n"
	body := first + next + next + "data: [DONE]\n\n"
	for _, size := range []int{1, 2, 7, len(body)} {
		now, got := time.Unix(1, 0), &chunkCount{}
		c := &Call{Env: &Env{Now: func() time.Time { return now }, Observer: got}}
		w := &metering.EventWatch{}
		for rest := body; rest != ""; {
			n := min(size, len(rest))
			now = now.Add(time.Millisecond)
			w.Feed([]byte(rest[:n]))
			c.Chunks(w.Chunks())
			rest = rest[n:]
		}
		require.Equal(t, 2, got.chunks, "after the first; comments and the end mark are none: %d", size)
		require.False(t, c.Record.FirstChunk.IsZero())
		require.Equal(t, c.lastChunk.Sub(c.Record.FirstChunk), got.waited, "the times between add up")
	}
}
