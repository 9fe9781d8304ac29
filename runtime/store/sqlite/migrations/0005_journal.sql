-- Who holds a run, and what it remembers of its steps.
ALTER TABLE runs ADD COLUMN holder TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN parent TEXT NOT NULL DEFAULT '';
CREATE INDEX runs_open ON runs (started, id) WHERE status IN ('running', 'queued');
CREATE INDEX runs_by_owner ON runs (owner, started DESC, id DESC);
CREATE INDEX runs_by_age ON runs (started DESC, id DESC);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';

CREATE TABLE steps (
    run    TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    key    TEXT NOT NULL,
    owner  TEXT NOT NULL,
    output TEXT NOT NULL,
    PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE replicas (
    id         TEXT    PRIMARY KEY NOT NULL,
    address    TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    inputs     TEXT    NOT NULL,
    beat       INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE controls (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    run     TEXT    NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    owner   TEXT    NOT NULL,
    kind    TEXT    NOT NULL,
    body    TEXT    NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX controls_by_run ON controls (run, id);
