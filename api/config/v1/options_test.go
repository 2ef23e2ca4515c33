package configv1_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/modelgate/modelgate/api/config/options"
	configv1 "github.com/modelgate/modelgate/api/config/v1"
)

func TestTheTableOfFieldsIsFresh(t *testing.T) {
	got, err := os.ReadFile("../../../docs/threat-model.md")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "threat-model.md")
	const head = "| field | | why |\n|---|---|---|\n"
	stale := bytes.Replace(got, []byte(head), []byte(head+"| `Provider.gone` | no | it is no field |\n"), 1)
	require.NotEqual(t, len(got), len(stale))
	require.NoError(t, os.WriteFile(path, stale, 0o600))
	out, err := exec.Command("go", "run", "gendocs.go", path).CombinedOutput()
	require.NoError(t, err, "%s", out)
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "run go generate ./api/config/v1")
}

// TestEveryKindStatesWhatListsShow checks the options of kinds, of which a new one needs no other list.
func TestEveryKindStatesWhatListsShow(t *testing.T) {
	plurals, places := map[string]bool{}, map[uint32]bool{}
	for _, k := range configv1.Kinds() {
		o, fields := k.Options, k.New().ProtoReflect().Descriptor().Fields()
		require.Regexp(t, `^[a-z]+s$`, k.Plural)
		require.Regexp(t, `^[A-Z][^\n]+[^.]$`, o.GetSummary(), k.Name)
		require.Contains(t, []string{"config", "keys", "admins"}, k.Area(), k.Name)
		taken := plurals[k.Plural] || places[o.GetPlace()] || o.GetPlace() == 0
		require.False(t, taken, "%s: another kind has its place", k.Name)
		plurals[k.Plural], places[o.GetPlace()] = true, true
		require.True(t, options.Of(fields.ByName("name")).GetRequired(), k.Name)
		for _, c := range o.GetColumns() {
			require.NotNil(t, fields.ByName(protoreflect.Name(c.GetField())), "%s.%s", k.Name, c.GetField())
		}
	}
}
