-- Who holds a run, and what it remembers of its steps.
ALTER TABLE runs ADD COLUMN holder text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN attempts bigint NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN parent text COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX runs_open ON runs (started, id) WHERE status IN ('running', 'queued');
CREATE INDEX runs_by_owner ON runs (owner, started DESC, id DESC);
CREATE INDEX runs_by_age ON runs (started DESC, id DESC);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent <> '';

CREATE TABLE steps (
    run    text COLLATE "C" NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    key    text COLLATE "C" NOT NULL,
    owner  text COLLATE "C" NOT NULL,
    output text NOT NULL,
    PRIMARY KEY (run, key)
);

-- Beats are by the clock of this server, so that those of the replicas do not matter.
CREATE TABLE replicas (
    id         text   COLLATE "C" PRIMARY KEY,
    address    text   NOT NULL,
    generation bigint NOT NULL,
    inputs     text   NOT NULL,
    beat       bigint NOT NULL
);

CREATE TABLE controls (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run     text   COLLATE "C" NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    owner   text   COLLATE "C" NOT NULL,
    kind    text   NOT NULL,
    body    text   NOT NULL,
    created bigint NOT NULL
);
CREATE INDEX controls_by_run ON controls (run, id);
