// Package call has what the phases, the filters and the passages of one exchange share: the request as far as it is
// known, its record, and the ways to answer it. State that only one of them needs does not belong here.
package call
