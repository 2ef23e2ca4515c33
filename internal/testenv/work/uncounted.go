//go:build !steps

package work

func resetSteps() {}

func steps() int64 { return 0 }
