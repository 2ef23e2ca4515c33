-- +goose Up
-- What only the page of one request shows, as JSON; empty where there is none.
ALTER TABLE exchanges ADD COLUMN details TEXT NOT NULL DEFAULT '';

-- Few exchanges are in it: those of every other outcome, and what was refused. Searches of them, and counts, need not
-- read the table.
CREATE INDEX exchanges_unserved ON exchanges (at, id, outcome, status, refused_by)
  WHERE (outcome <> 'finished' OR status >= 400);
DROP INDEX exchanges_outcome;
DROP INDEX exchanges_refused;

-- How many exchanges of all tenants began in a minute (width 60) and in an hour (width 3600), in seconds, by class.
CREATE TABLE outcomes (
  width SMALLINT NOT NULL,
  start BIGINT NOT NULL,
  served BIGINT NOT NULL,
  errors BIGINT NOT NULL,
  rejected BIGINT NOT NULL,
  cancelled BIGINT NOT NULL,
  PRIMARY KEY (width, start)
);

-- +goose Down
DROP TABLE outcomes;
CREATE INDEX exchanges_refused ON exchanges (at) WHERE refused_by <> '';
CREATE INDEX exchanges_outcome ON exchanges (outcome, at, id);
DROP INDEX exchanges_unserved;
ALTER TABLE exchanges DROP COLUMN details;
