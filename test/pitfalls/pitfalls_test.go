// Package pitfalls has one test for each way in which gateways of this kind are known to go wrong, as their users have
// reported it: streams of tools (rows 1 to 16), the life of a stream (17 to 32), usage (33 to 45), requests (46 to
// 70), Envoy (71 to 89), limits, budgets and retries (90 to 104), files and batches (105 to 116), and operation and
// security (117 to 127). A row that fails is run alone by its number: go test ./test/pitfalls -run 'Row/56:'
//
// A row is about every vendor that it could happen with, not about the one of the report. What a
// model says is written once, as a [completion], and the [dialect]s turn it into what each vendor sends.
package pitfalls

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A row is one pitfall: its number, what must hold, and the test of it.
type row struct {
	number int
	title  string
	test   func(t *testing.T)
}

// rows returns all. What several of them share ends with root.
func rows(root *testing.T) []row {
	on, apart := overOne(root), overApart(root)
	return slices.Concat(toolRows(), streamRows(), usageRows(), requestRows(), envoyRows(on, apart), limitRows(on),
		jobRows(), operationRows(on, apart))
}

func TestRow(t *testing.T) {
	for _, r := range rows(t) {
		t.Run(fmt.Sprintf("%d: %s", r.number, r.title), r.test)
	}
}

func TestEveryRowIsThereOnce(t *testing.T) {
	var numbers, want []int
	for _, r := range rows(t) {
		numbers = append(numbers, r.number)
		require.NotEmpty(t, r.title)
	}
	for n := 1; n <= 127; n++ {
		want = append(want, n)
	}
	require.Equal(t, want, numbers)
}
