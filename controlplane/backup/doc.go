// Package backup saves what a gateway keeps to one file and restores it into an empty etcd and an empty ledger:
// configuration, keys, accounts and jobs as they were at one revision of etcd, and what was used and what it cost as
// it was at one moment after that. The bytes of files are in the blob store and the root secret is in its own file;
// neither is in a backup.
//
// What is under a lease is left out, for a lease means that somebody is alive. Claims of jobs are made anew by whoever
// takes the work up, and people sign in again.
package backup
