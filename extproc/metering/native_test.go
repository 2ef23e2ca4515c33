package metering

import (
	"encoding/binary"
	"mime/multipart"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/modelgate/modelgate/internal/inbound"
	"github.com/modelgate/modelgate/internal/inbound/dialects"
)

// formDemand returns the demand of a form with a field and a file.
func formDemand(t *testing.T, operation, field string, file []byte) Demand {
	t.Helper()
	var op *inbound.Operation
	for _, o := range dialects.Default.Operations {
		if o.Name == operation {
			op = o
		}
	}
	var body strings.Builder
	w := multipart.NewWriter(&body)
	require.NoError(t, w.WriteField("model", "a/m"))
	require.NoError(t, w.WriteField("prompt", field))
	if file != nil {
		part, err := w.CreateFormFile("file", "f")
		require.NoError(t, err)
		_, err = part.Write(file)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	r, err := op.Parse(inbound.Head{Path: op.Path, ContentType: w.FormDataContentType()}, []byte(body.String()))
	require.NoError(t, err)
	return DemandOf(op, &r, []byte(body.String()), nil)
}

func TestAFormHasATextAndFiles(t *testing.T) {
	const png = "\x89PNG\x0d\x0a\x1a\x0a"
	wav := make([]byte, 44+10*32_000)
	copy(wav, "RIFF....WAVEfmt ")
	binary.LittleEndian.PutUint32(wav[28:], 32_000) // a second
	for name, c := range map[string]struct {
		operation, field, file string
		input                  int64
	}{
		"text":             {"images/edits", strings.Repeat("word ", 80), "", 100},
		"an image":         {"images/edits", "", png + strings.Repeat("x", 100_000), perImage},
		"sound of a rate":  {"audio/transcriptions", "", string(wav), 101},
		"sound of another": {"audio/translations", "", "ID3" + strings.Repeat("x", 40_000-3), 101},
		"no known kind":    {"audio/transcriptions", "", strings.Repeat("\x00\x01", 20_000), 101},
	} {
		d := formDemand(t, c.operation, c.field, []byte(c.file))
		require.EqualValues(t, c.input, d.Input, name)
	}
	binary.LittleEndian.PutUint32(wav[28:], 4_000_000_000)
	require.Greater(t, formDemand(t, "audio/transcriptions", "", wav).Input, int64(10), "a rate that no sound has")
}

func TestAnswersOfMediaHaveAUsualLength(t *testing.T) {
	d := formDemand(t, "images/edits", "a fox", nil)
	require.EqualValues(t, -1, d.Output)
	require.EqualValues(t, usualImage, d.Guess)
	op := &inbound.Operation{Name: "images/edits", ImageAnswer: true}
	for received, want := range map[int64]int64{0: 0, 4800: 100, 1 << 20: dearestImage} {
		said, _ := d.Unreported(op, received, false)
		require.Equal(t, want, said, received)
	}
	d = Demand{Guess: 60}
	said, sound := d.Unreported(&inbound.Operation{Name: "audio/speech"}, 0, false)
	require.EqualValues(t, 60, said)
	require.EqualValues(t, 60, sound)
}
