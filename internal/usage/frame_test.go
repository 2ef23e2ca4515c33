package usage

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	ledgerv1 "github.com/modelgate/modelgate/api/ledger/v1"
)

const salt = 0x5a17

func sealed(kind byte, r *ledgerv1.Record) []byte {
	b := appendFrame(nil, kind, r)
	seal(salt, b)
	return b
}

func FuzzReadFrame(f *testing.F) {
	two := append(sealed(kindBegin, &ledgerv1.Record{Id: "a"}), sealed(kindEnd, &ledgerv1.Record{Id: "a", User: "u"})...)
	f.Add(two, true)
	f.Add(two[3:], false)
	f.Add(append(bytes.Repeat([]byte{'e', 0}, 20), two...), true)
	f.Fuzz(func(t *testing.T, data []byte, all bool) {
		read := 0
		for rest := data; len(rest) > 0; {
			fr, n := readFrame(salt, rest, all)
			if n == 0 {
				require.False(t, all, "it goes on, if there is no more to come")
				require.Less(t, len(rest), maxFrame, "more can tell")
				break
			}
			if fr.payload != nil {
				read++
				require.Equal(t, n, frameHeader+len(fr.payload))
				_ = fr.id()
			}
			rest = rest[n:]
		}
		// What is in front does not hide what follows.
		behind := append(bytes.Clone(data), two...)
		found := 0
		for len(behind) > 0 {
			fr, n := readFrame(salt, behind, true)
			require.Positive(t, n)
			if fr.payload != nil {
				found++
			}
			behind = behind[n:]
		}
		require.GreaterOrEqual(t, found, 2)
		_ = read
	})
}

func TestAFrameInARecordIsNone(t *testing.T) {
	inner := appendFrame(nil, kindEnd, &ledgerv1.Record{Id: "forged"})
	seal(0, inner)
	outer := sealed(kindEnd, &ledgerv1.Record{Id: "a", User: string(inner)})
	outer[0]++ // the outer is damaged
	for len(outer) > 0 {
		f, n := readFrame(salt, outer, true)
		require.Nil(t, f.payload)
		outer = outer[n:]
	}
}

func TestTheIdOfAFrame(t *testing.T) {
	r := &ledgerv1.Record{Id: "an id", User: "someone", InputTokens: 3}
	f, n := readFrame(salt, sealed(kindEnd, r), true)
	require.Positive(t, n)
	require.Equal(t, "an id", f.id())
	got := &ledgerv1.Record{}
	require.NoError(t, proto.Unmarshal(f.payload, got))
	require.True(t, proto.Equal(r, got))
	require.Empty(t, frame{payload: []byte{0xff}}.id())
	require.Empty(t, frame{payload: []byte{0x0a, 0x05, 'a'}}.id())
}
