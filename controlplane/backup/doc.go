// Package backup saves the state of a gateway to one file and restores it into an empty etcd and an empty ledger. A
// backup has the configuration, keys, accounts and jobs at one revision of etcd, and the usage and cost at one later
// moment. It has neither the bytes of files, which are in the blob store, nor the root secret, which is in its own
// file.
//
// Values under a lease are not saved, because a lease belongs to a living process. Workers claim jobs again, and
// people sign in again.
package backup
