-- +goose Up
-- Batches of records that are in exchanges, but not in sums yet: in aggregates, minutes, sums, spent, provider_attempts and
-- outcomes. Who adds one to the sums deletes it in the same transaction.
CREATE TABLE unfolded (
  id TEXT NOT NULL PRIMARY KEY,
  -- The records, as base64 of a modelgate.ledger.v1.RecordRequest, without what sums do not need.
  records TEXT NOT NULL
);

-- +goose Down
DROP TABLE unfolded;
