-- +goose Up
-- The place of an entry in the chain of the audit log, the hash of the entry before, and its own. 0 and empty: it is
-- outside the chain, as those that were written while etcd was full are.
ALTER TABLE audit ADD COLUMN sequence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE audit ADD COLUMN previous TEXT NOT NULL DEFAULT '';
ALTER TABLE audit ADD COLUMN hash TEXT NOT NULL DEFAULT '';
CREATE INDEX audit_sequence ON audit (sequence) WHERE sequence > 0;

-- +goose Down
DROP INDEX audit_sequence;
ALTER TABLE audit DROP COLUMN hash;
ALTER TABLE audit DROP COLUMN previous;
ALTER TABLE audit DROP COLUMN sequence;
