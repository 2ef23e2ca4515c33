-- +goose Up
-- What is wrong with the spools of ext_proc services, as each has told last. A spool with which nothing is wrong has no row.
CREATE TABLE spools (
  process TEXT NOT NULL PRIMARY KEY,
  -- When it was told, in microseconds.
  at BIGINT NOT NULL,
  trouble TEXT NOT NULL,
  dropped BIGINT NOT NULL
);

-- +goose Down
DROP TABLE spools;
