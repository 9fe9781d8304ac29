-- What calls ask for and what is kept of their results.
ALTER TABLE runs ADD COLUMN turn TEXT; -- what resuming the run needs; NULL: nothing is known

ALTER TABLE results ADD COLUMN expires INTEGER NOT NULL DEFAULT 0; -- 0: never
ALTER TABLE results ADD COLUMN untrusted INTEGER NOT NULL DEFAULT 0 CHECK (untrusted IN (0, 1));
ALTER TABLE results ADD COLUMN media TEXT NOT NULL DEFAULT 'application/json';
CREATE INDEX results_by_owner ON results (owner, created DESC, id DESC);
CREATE INDEX results_expiring ON results (expires) WHERE expires > 0;

CREATE TABLE approvals (
    num        INTEGER PRIMARY KEY, -- in the order they were asked
    id         TEXT    NOT NULL UNIQUE,
    owner      TEXT    NOT NULL,
    session    TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    call       TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    arguments  TEXT    NOT NULL,
    policies   TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    status     TEXT    NOT NULL,
    scope      TEXT    NOT NULL,
    decided_by TEXT    NOT NULL,
    created    INTEGER NOT NULL,
    expires    INTEGER NOT NULL, -- 0: never
    decided    INTEGER NOT NULL, -- 0: not yet
    UNIQUE (call, key)
) STRICT;
CREATE INDEX approvals_by_owner ON approvals (owner, num);
CREATE INDEX approvals_by_run ON approvals (run);
CREATE INDEX approvals_pending ON approvals (owner) WHERE status = 'pending';

CREATE TABLE grants (
    owner    TEXT    NOT NULL,
    session  TEXT    NOT NULL, -- empty: every one
    agent    TEXT    NOT NULL,
    tool     TEXT    NOT NULL,
    policy   TEXT    NOT NULL,
    digest   TEXT    NOT NULL, -- of the declarations of policy and tool
    approval TEXT    NOT NULL,
    created  INTEGER NOT NULL,
    PRIMARY KEY (owner, agent, tool, policy, digest, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX grants_by_approval ON grants (approval);
