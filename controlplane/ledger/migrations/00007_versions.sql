-- +goose Up
-- The versions of configuration objects. Credentials in them are sealed.
CREATE TABLE versions (
  -- That of the audit entry of the same change, or derived from it.
  id TEXT NOT NULL PRIMARY KEY,
  -- The life of the etcd that counts the revisions.
  epoch TEXT NOT NULL,
  revision BIGINT NOT NULL,
  at BIGINT NOT NULL,
  actor TEXT NOT NULL,
  -- create, update, delete, rollback, or found: as it was before the first change that is kept.
  action TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  diff TEXT NOT NULL,
  -- Empty where the object was deleted.
  document TEXT NOT NULL,
  -- 1 where there was no such object before.
  created BIGINT NOT NULL
);
CREATE INDEX versions_object ON versions (epoch, kind, name, revision);
CREATE INDEX versions_revision ON versions (epoch, revision);
CREATE INDEX versions_at ON versions (at);

-- +goose Down
DROP TABLE versions;
