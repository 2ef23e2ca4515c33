//go:build steps

// With this file, the compiler takes a function without a body.
