package usage

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protoreflect"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// Each kind has a place of its own in what is used and in a record, where it is called as its column.
func TestFieldsAreOfTheirOwnPlaces(t *testing.T) {
	var u Used
	for i, f := range Fields {
		require.Zero(t, *u.At(Kind(i)), f.Column)
		*u.At(Kind(i)) = int64(i + 1)
	}
	var r ledgerv1.Record
	u.Fill(&r)
	for i, f := range Fields {
		require.EqualValues(t, i+1, *u.At(Kind(i)), f.Column)
		if Kind(i) >= Kinds {
			require.Contains(t, u.Details(), &ledgerv1.Count{Name: f.Column, N: int64(i + 1)})
			continue
		}
		require.EqualValues(t, i+1, *Kind(i).In(&r), f.Column)
		named := r.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(f.Column))
		require.NotNil(t, named, "a record has no %s", f.Column)
		require.EqualValues(t, i+1, r.ProtoReflect().Get(named).Int(), f.Column)
	}
	require.Equal(t, "output_tokens", Columns()[OutputTokens])
}

func BenchmarkFill(b *testing.B) {
	var u Used
	var r ledgerv1.Record
	b.ReportAllocs()
	for b.Loop() {
		u.Fill(&r)
	}
}
