CREATE TABLE sessions (
    num        INTEGER PRIMARY KEY,
    id         TEXT    NOT NULL UNIQUE,
    owner      TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    title      TEXT    NOT NULL,
    hidden     INTEGER NOT NULL CHECK (hidden IN (0, 1)),
    parent     TEXT    NOT NULL,
    parent_seq INTEGER NOT NULL,
    created    INTEGER NOT NULL, -- microseconds since 1970, like every time here
    updated    INTEGER NOT NULL,
    expires    INTEGER NOT NULL, -- 0: never
    messages   INTEGER NOT NULL DEFAULT 0 -- the last number given out
) STRICT;
CREATE INDEX sessions_by_owner ON sessions (owner, created DESC, num DESC) WHERE hidden = 0;
CREATE INDEX sessions_by_age ON sessions (created DESC, num DESC) WHERE hidden = 0;
CREATE INDEX sessions_hidden ON sessions (owner) WHERE hidden = 1;
CREATE INDEX sessions_expiring ON sessions (expires) WHERE expires > 0;

CREATE TABLE messages (
    num        INTEGER PRIMARY KEY,
    session    INTEGER NOT NULL REFERENCES sessions (num) ON DELETE CASCADE,
    seq        INTEGER NOT NULL CHECK (seq > 0),
    owner      TEXT    NOT NULL,
    run        TEXT    NOT NULL,
    step       TEXT    NOT NULL,
    generation INTEGER NOT NULL,
    role       TEXT    NOT NULL,
    content    TEXT    NOT NULL, -- the text, parts joined
    body       TEXT    NOT NULL, -- the message as JSON, without its content
    indexed    INTEGER NOT NULL CHECK (indexed IN (0, 1)), -- whether message_words has it
    created    INTEGER NOT NULL,
    UNIQUE (session, seq),
    UNIQUE (session, run, step)
) STRICT;

CREATE VIRTUAL TABLE message_words USING fts5 (
    content, content = 'messages', content_rowid = 'num',
    tokenize = 'unicode61 remove_diacritics 2'
);
CREATE TRIGGER messages_insert AFTER INSERT ON messages WHEN new.indexed = 1 BEGIN
    INSERT INTO message_words (rowid, content) VALUES (new.num, new.content);
END;
CREATE TRIGGER messages_delete AFTER DELETE ON messages WHEN old.indexed = 1 BEGIN
    INSERT INTO message_words (message_words, rowid, content) VALUES ('delete', old.num, old.content);
END;

CREATE TABLE calls (
    id      TEXT    NOT NULL,
    owner   TEXT    NOT NULL,
    message INTEGER NOT NULL REFERENCES messages (num) ON DELETE CASCADE,
    PRIMARY KEY (id, message)
) STRICT, WITHOUT ROWID;
CREATE INDEX calls_by_message ON calls (message);

CREATE TABLE runs (
    id              TEXT    PRIMARY KEY NOT NULL,
    session         TEXT    NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    owner           TEXT    NOT NULL,
    agent           TEXT    NOT NULL,
    status          TEXT    NOT NULL,
    generation      INTEGER NOT NULL,
    started         INTEGER NOT NULL,
    ended           INTEGER NOT NULL, -- 0: not yet
    iterations      INTEGER NOT NULL,
    usage           TEXT,
    error           TEXT,
    idempotency_key TEXT,
    last_event      INTEGER NOT NULL DEFAULT 0 -- survives the removal of deltas
) STRICT;
CREATE UNIQUE INDEX runs_one_running ON runs (session) WHERE status = 'running';
CREATE UNIQUE INDEX runs_by_key ON runs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_by_session ON runs (session);

CREATE TABLE events (
    run   TEXT    NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq   INTEGER NOT NULL CHECK (seq > 0),
    owner TEXT    NOT NULL,
    delta INTEGER NOT NULL CHECK (delta IN (0, 1)),
    body  TEXT    NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE results (
    id      TEXT    PRIMARY KEY NOT NULL,
    owner   TEXT    NOT NULL,
    session TEXT    NOT NULL,
    run     TEXT    NOT NULL,
    call    TEXT    NOT NULL,
    tool    TEXT    NOT NULL,
    digest  TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    created INTEGER NOT NULL
) STRICT;
CREATE INDEX results_by_session ON results (session);
