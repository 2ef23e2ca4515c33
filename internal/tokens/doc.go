// Package tokens counts the tokens of a text if the vendor has not reported them: a stream that was cut before its
// usage is charged by the text so far.
//
// A count is an estimate. Usage that a vendor reports is charged as reported.
//
// A vocabulary is loaded at the first count: 25 ms and 7 MB for o200k_base, 12 ms and 4 MB for cl100k_base, and as
// much again for the pages of the binary. Counting takes 0.25 ms for 1 KB, and 5 ms for the longest Sample.
package tokens
