-- +goose Up
-- When what is wrong with a spool, and with the stores, began, in microseconds.
ALTER TABLE spools ADD COLUMN since BIGINT NOT NULL DEFAULT 0;
ALTER TABLE spools ADD COLUMN stores_since BIGINT NOT NULL DEFAULT 0;
UPDATE spools SET since = at, stores_since = at;

-- +goose Down
ALTER TABLE spools DROP COLUMN stores_since;
ALTER TABLE spools DROP COLUMN since;
