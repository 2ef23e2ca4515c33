package usage

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

// What is written is what Protobuf writes, for every field that a record has.
func TestARecordIsEncodedAsByProtobuf(t *testing.T) {
	numbers := []int64{0, 1, -1, 127, 128, math.MaxInt64, math.MinInt64}
	texts := []string{"", "a", "ünï", string(make([]byte, 200))}
	fields := (&ledgerv1.Record{}).ProtoReflect().Descriptor().Fields()
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		r := &ledgerv1.Record{}
		for i := range fields.Len() {
			f, n := fields.Get(i), numbers[random.IntN(len(numbers))]
			var v protoreflect.Value
			switch f.Kind() {
			case protoreflect.StringKind:
				v = protoreflect.ValueOfString(texts[random.IntN(len(texts))])
			case protoreflect.BoolKind:
				v = protoreflect.ValueOfBool(n > 0)
			case protoreflect.Int64Kind:
				v = protoreflect.ValueOfInt64(n)
			case protoreflect.Uint32Kind:
				v = protoreflect.ValueOfUint32(uint32(n))
			case protoreflect.MessageKind:
				if n == 0 {
					continue
				}
				v = protoreflect.ValueOfMessage((&timestamppb.Timestamp{Seconds: n, Nanos: int32(n >> 3)}).ProtoReflect())
			default:
				t.Fatalf("the encoder knows no field of kind %s", f.Kind())
			}
			r.ProtoReflect().Set(f, v)
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
		require.NoError(t, err)
		var e encoder
		e.record(r)
		require.Equal(t, want, e.to)
	}
}
