-- +goose Up
-- Which bodies are in the blob store. They themselves are not in the ledger.
CREATE TABLE bodies (
  -- The exchange.
  id TEXT PRIMARY KEY,
  -- Name of the blob.
  blob TEXT NOT NULL,
  -- Owner of the setting by which they are kept.
  subject TEXT NOT NULL,
  key TEXT NOT NULL,
  organization TEXT NOT NULL,
  project TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  -- When they are deleted, in seconds.
  expires BIGINT NOT NULL
);
CREATE INDEX bodies_expires ON bodies (expires);
CREATE INDEX bodies_subject ON bodies (subject, bytes);
CREATE INDEX bodies_key ON bodies (key);
CREATE INDEX bodies_organization ON bodies (organization, project);

-- +goose Down
DROP TABLE bodies;
