-- +goose Up
-- What response caches did, of an hour (width 3600) and of a day (width 86400). Timed are the misses that finished, of
-- which miss_ms has the durations. Saved is in nano-dollars.
CREATE TABLE cache_sums (
  width BIGINT NOT NULL,
  start BIGINT NOT NULL,
  organization TEXT NOT NULL,
  project TEXT NOT NULL,
  model TEXT NOT NULL,
  cache TEXT NOT NULL,
  hits BIGINT NOT NULL,
  misses BIGINT NOT NULL,
  bypassed BIGINT NOT NULL,
  saved BIGINT NOT NULL,
  hit_ms BIGINT NOT NULL,
  miss_ms BIGINT NOT NULL,
  timed BIGINT NOT NULL,
  PRIMARY KEY (width, start, organization, project, model, cache)
);

-- +goose Down
DROP TABLE cache_sums;
