package store

import (
	"net/url"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// A file that unfinished work reads must not be deleted. Such work marks the files that it uses, in its first and
// last transaction.

func usesOf(file string) string  { return Root + "uses/" + url.QueryEscape(file) + "/" }
func use(file, by string) string { return usesOf(file) + url.QueryEscape(by) }

// Use marks a file as used by an object.
func (t *Txn) Use(file, by string) { t.Do(clientv3.OpPut(use(file, by), "")) }

// Free takes the mark away.
func (t *Txn) Free(file, by string) { t.Do(clientv3.OpDelete(use(file, by))) }

// Unused requires that nothing uses a file.
func (t *Txn) Unused(file string) {
	t.Require(clientv3.Compare(clientv3.CreateRevision(usesOf(file)).WithPrefix(), "=", 0))
}
