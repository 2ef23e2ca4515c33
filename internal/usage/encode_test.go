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
	fields := (&ledgerv1.Record{}).ProtoReflect().Descriptor().Fields()
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		r := &ledgerv1.Record{}
		for i := range fields.Len() {
			f := fields.Get(i)
			randomizeField(random, r.ProtoReflect(), f)
		}
		want, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
		require.NoError(t, err)
		var e encoder
		e.record(r)
		require.Equal(t, want, e.to)
	}
}

// randomize sets the fields of a message.
func randomize(random *rand.Rand, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		randomizeField(random, m, fields.Get(i))
	}
}

func randomizeField(random *rand.Rand, m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch isTime := f.Message() != nil && f.Message().FullName() == "google.protobuf.Timestamp"; {
	case f.IsList():
		for range random.IntN(3) {
			if list := m.Mutable(f).List(); f.Message() != nil {
				randomize(random, list.AppendMutable().Message())
			} else {
				list.Append(randomValue(random, f))
			}
		}
	case f.Message() != nil && !isTime:
		if random.IntN(2) == 0 {
			randomize(random, m.Mutable(f).Message())
		}
	default:
		if v := randomValue(random, f); v.IsValid() {
			m.Set(f, v)
		}
	}
}

// randomValue returns a value for a field, or none for a message that is left out.
func randomValue(random *rand.Rand, f protoreflect.FieldDescriptor) (v protoreflect.Value) {
	numbers := []int64{0, 1, -1, 127, 128, math.MaxInt64, math.MinInt64}
	texts := []string{"", "a", "ünï", string(make([]byte, 200))}
	n := numbers[random.IntN(len(numbers))]
	switch f.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(texts[random.IntN(len(texts))])
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(texts[random.IntN(len(texts))]))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n > 0)
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.MessageKind:
		if n == 0 {
			return v
		}
		return protoreflect.ValueOfMessage((&timestamppb.Timestamp{Seconds: n, Nanos: int32(n >> 3)}).ProtoReflect())
	}
	panic("the encoder knows no field of kind " + f.Kind().String())
}
