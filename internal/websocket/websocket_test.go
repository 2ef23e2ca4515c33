package websocket

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// frame builds a frame of a server, with the shortest form of its length.
func frame(first byte, payload string) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, payload...)
}

// read reads bytes in pieces that end at the cuts, and returns one line for each message and control frame.
func read(t testing.TB, all []byte, cuts ...int) (read []string, err error) {
	t.Helper()
	var r Reader
	open := map[bool]*strings.Builder{} // by whether it is a control frame
	last := 0
	for _, to := range append(cuts, len(all)) {
		piece := all[last:to]
		last = to
		for {
			part, rest, ok, err := r.Next(piece)
			if err != nil {
				return read, err
			}
			if !ok {
				break
			}
			control := part.Opcode.IsControl()
			if part.Begins {
				require.Nil(t, open[control], "a message begins in a message")
				open[control] = &strings.Builder{}
			}
			open[control].Write(part.Payload)
			if part.Ends {
				read = append(read, fmt.Sprintf("%d %s", part.Opcode, open[control]))
				delete(open, control)
			}
			piece = rest
		}
	}
	return read, nil
}

// sent are frames of all kinds: fragments, control frames between them, and lengths of each form.
func sent() (all []byte, want []string) {
	long, huge := strings.Repeat("l", 300), strings.Repeat("h", 70_000)
	all = bytes.Join([][]byte{
		frame(0x81, "whole"), frame(0x81, ""),
		frame(0x01, "a"), frame(0x89, "ping"), frame(0x00, ""), frame(0x8a, ""), frame(0x80, "b"),
		frame(0x82, long), frame(0x81, huge), frame(0x02, long), frame(0x80, ""),
		AppendClose(nil, StatusPolicyViolation, "insufficient_quota"),
	}, nil)
	return all, []string{"1 whole", "1 ", "9 ping", "10 ", "1 ab", "2 " + long, "1 " + huge, "2 " + long,
		"8 \x03\xf0insufficient_quota"}
}

func TestFramesAreReadWhereverTheyAreCut(t *testing.T) {
	all, want := sent()
	got, err := read(t, all)
	require.NoError(t, err)
	require.Equal(t, want, got)
	each := make([]int, len(all))
	for i := range each {
		each[i] = i
	}
	got, err = read(t, all, each...)
	require.NoError(t, err)
	require.Equal(t, want, got, "one byte at a time")
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var cuts []int
		for at := 0; at < len(all); at += 1 + random.IntN(200)*random.IntN(200) {
			cuts = append(cuts, at)
		}
		got, err = read(t, all, cuts...)
		require.NoError(t, err)
		require.Equal(t, want, got, "%v", cuts)
	}
}

func TestAnotherFrameFollowsOnlyBetweenFrames(t *testing.T) {
	var r Reader
	require.True(t, r.AtBoundary())
	all := joined(frame(0x01, "ab"), frame(0x80, ""))
	for i := range all {
		for piece := all[i : i+1]; ; {
			_, rest, ok, err := r.Next(piece)
			require.NoError(t, err)
			if !ok {
				break
			}
			piece = rest
		}
		require.Equal(t, i == 3 || i == 5, r.AtBoundary(), "after byte %d", i)
	}
}

func joined(frames ...[]byte) []byte { return bytes.Join(frames, nil) }

func TestBytesThatAreNoFramesOfAServerAreAnError(t *testing.T) {
	for name, b := range map[string][]byte{
		"compressed":                       {0xc1, 1, 'x'},
		"masked":                           {0x81, 0x81, 1, 2, 3, 4, 'x'},
		"an opcode that is not defined":    {0x83, 0},
		"a control frame in fragments":     {0x09, 0},
		"a long control frame":             {0x89, 126, 0, 126},
		"a message in a message":           joined(frame(0x01, "a"), frame(0x81, "b")),
		"a continuation of nothing":        frame(0x80, "a"),
		"a continuation of a whole":        joined(frame(0x81, "a"), frame(0x80, "b")),
		"a length of more than 63 bits":    {0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0},
		"an answer that is not upgraded":   []byte("HTTP/1.1 200 OK\r\n\r\n"),
		"a compressed frame of a fragment": joined(frame(0x01, "a"), []byte{0xc0, 0}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := read(t, b)
			require.ErrorIs(t, err, ErrProtocol)
		})
	}
}

func TestACloseFrameHasAStatusAndAReason(t *testing.T) {
	require.EqualValues(t, StatusPolicyViolation, CloseStatus(AppendClose(nil, StatusPolicyViolation, "x")[2:]))
	require.EqualValues(t, StatusNone, CloseStatus(nil))
	require.Len(t, AppendClose(nil, StatusNormal, strings.Repeat("x", 500)), 2+maxControl)
}

// FuzzReader compares what is read at once with what is read byte by byte, and checks that parts are the bytes fed.
func FuzzReader(f *testing.F) {
	all, _ := sent()
	f.Add(all[:400])
	f.Add([]byte{0x01, 1, 'a', 0x80, 0x00})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		each := make([]int, len(b))
		for i := range each {
			each[i] = i
		}
		whole, wholeErr := read(t, b)
		parts, partsErr := read(t, b, each...)
		require.Equal(t, whole, parts)
		require.Equal(t, wholeErr, partsErr)
	})
}

// BenchmarkReader reads a second of audio: deltas of 8 KB.
func BenchmarkReader(b *testing.B) {
	piece := bytes.Repeat(frame(0x81, strings.Repeat("x", 8<<10)), 8)
	b.SetBytes(int64(len(piece)))
	b.ReportAllocs()
	var r Reader
	for b.Loop() {
		for rest := piece; ; {
			_, next, ok, err := r.Next(rest)
			if err != nil {
				b.Fatal(err)
			}
			if !ok {
				break
			}
			rest = next
		}
	}
}
