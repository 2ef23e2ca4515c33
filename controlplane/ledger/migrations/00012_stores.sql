-- +goose Up
-- What is wrong with the stores that a process shares with others, in sentences. A row may have only this.
ALTER TABLE spools ADD COLUMN stores TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE spools DROP COLUMN stores;
