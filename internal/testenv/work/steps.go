//go:build steps

package work

import (
	"bytes"
	"encoding/binary"
	"io"
	"runtime/coverage"
	"sync"
	_ "unsafe" // for go:linkname
)

// startCoverage makes the counters readable while a test runs. Without it they are readable only at the end of a test.
//
//go:linkname startCoverage runtime/coverage.initHook
func startCoverage(isTest bool)

var start = sync.OnceValue(func() error {
	startCoverage(false)
	return coverage.WriteMeta(io.Discard)
})

func resetSteps() {
	if err := start(); err != nil {
		panic(err)
	}
	if err := coverage.ClearCounters(); err != nil {
		panic(err)
	}
}

// steps returns the sum of all counters, which are written in the format of internal/coverage: a header, tables of
// strings and arguments, and then for each function how many counters it has, two ids, and the counters.
func steps() int64 {
	const header, segment = 32, 16
	var b bytes.Buffer
	if err := coverage.WriteCounters(&b); err != nil {
		panic(err)
	}
	data := b.Bytes()
	functions := binary.LittleEndian.Uint64(data[header:])
	tables := binary.LittleEndian.Uint32(data[header+8:]) + binary.LittleEndian.Uint32(data[header+12:])
	data = data[(header+segment+int(tables)+3)/4*4:]
	next := func() uint64 {
		v, n := binary.Uvarint(data)
		data = data[n:]
		return v
	}
	sum := uint64(0)
	for range functions {
		counters := next()
		next()
		next()
		for range counters {
			sum += next()
		}
	}
	return int64(sum)
}
