-- Names are compared and ordered by their bytes, whatever the collation of the database.
CREATE TABLE sessions (
    num        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         text    COLLATE "C" NOT NULL UNIQUE,
    owner      text    COLLATE "C" NOT NULL,
    agent      text    COLLATE "C" NOT NULL,
    title      text    NOT NULL,
    hidden     boolean NOT NULL,
    parent     text    NOT NULL,
    parent_seq bigint  NOT NULL,
    created    bigint  NOT NULL, -- microseconds since 1970, like every time here
    updated    bigint  NOT NULL,
    expires    bigint  NOT NULL, -- 0: never
    messages   bigint  NOT NULL DEFAULT 0 -- the last number given out
);
CREATE INDEX sessions_by_owner ON sessions (owner, created DESC, num DESC) WHERE NOT hidden;
CREATE INDEX sessions_by_age ON sessions (created DESC, num DESC) WHERE NOT hidden;
CREATE INDEX sessions_hidden ON sessions (owner) WHERE hidden;
CREATE INDEX sessions_expiring ON sessions (expires) WHERE expires > 0;

CREATE TABLE messages (
    num        bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session    bigint  NOT NULL REFERENCES sessions (num) ON DELETE CASCADE,
    seq        bigint  NOT NULL CHECK (seq > 0),
    owner      text    COLLATE "C" NOT NULL,
    run        text    COLLATE "C" NOT NULL,
    step       text    COLLATE "C" NOT NULL,
    generation bigint  NOT NULL,
    role       text    NOT NULL,
    content    text    NOT NULL, -- the text, parts joined; NUL, which text cannot have, replaced
    exact      bytea,            -- the text as it was, if it has NUL
    body       text    NOT NULL, -- the message as JSON, without its content
    words      tsvector NOT NULL, -- of the content
    indexed    boolean NOT NULL, -- whether the session is searched
    created    bigint  NOT NULL,
    UNIQUE (session, seq),
    UNIQUE (session, run, step)
);
CREATE INDEX messages_by_word ON messages USING gin (words) WHERE indexed;
CREATE INDEX messages_by_owner ON messages (owner, num DESC) WHERE indexed;

-- The ids of calls are the model's: a hash index takes them whatever their length.
CREATE TABLE calls (
    id      text   COLLATE "C" NOT NULL,
    owner   text   COLLATE "C" NOT NULL,
    message bigint NOT NULL REFERENCES messages (num) ON DELETE CASCADE
);
CREATE INDEX calls_by_id ON calls USING hash (id);
CREATE INDEX calls_by_message ON calls (message);

CREATE TABLE runs (
    id              text    COLLATE "C" PRIMARY KEY,
    session         text    COLLATE "C" NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
    owner           text    COLLATE "C" NOT NULL,
    agent           text    COLLATE "C" NOT NULL,
    status          text    NOT NULL,
    generation      bigint  NOT NULL,
    started         bigint  NOT NULL,
    ended           bigint  NOT NULL, -- 0: not yet
    iterations      bigint  NOT NULL,
    usage           text,
    error           text,
    idempotency_key text    COLLATE "C",
    turn            text,             -- what resuming the run needs; NULL: nothing is known
    last_event      bigint  NOT NULL DEFAULT 0 -- survives the removal of deltas
);
CREATE UNIQUE INDEX runs_one_running ON runs (session) WHERE status = 'running';
CREATE UNIQUE INDEX runs_by_key ON runs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX runs_by_session ON runs (session);

CREATE TABLE events (
    run   text    COLLATE "C" NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
    seq   bigint  NOT NULL CHECK (seq > 0),
    owner text    COLLATE "C" NOT NULL,
    delta boolean NOT NULL,
    body  text    NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE results (
    id        text    COLLATE "C" PRIMARY KEY,
    owner     text    COLLATE "C" NOT NULL,
    session   text    COLLATE "C" NOT NULL,
    run       text    COLLATE "C" NOT NULL,
    call      text    NOT NULL,
    tool      text    NOT NULL,
    digest    text    COLLATE "C" NOT NULL,
    size      bigint  NOT NULL,
    created   bigint  NOT NULL,
    expires   bigint  NOT NULL, -- 0: never
    untrusted boolean NOT NULL,
    media     text    NOT NULL
);
CREATE INDEX results_by_session ON results (session);
CREATE INDEX results_by_owner ON results (owner, created DESC, id DESC);
CREATE INDEX results_expiring ON results (expires) WHERE expires > 0;

-- What tools keep between calls. used is the sum of the sizes of the keys and values of
-- its space, so that a quota is checked without reading them.
CREATE TABLE kv_spaces (
    num       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    owner     text   COLLATE "C" NOT NULL,
    namespace text   COLLATE "C" NOT NULL,
    used      bigint NOT NULL CHECK (used >= 0),
    UNIQUE (owner, namespace)
);
CREATE TABLE kv (
    space   bigint NOT NULL REFERENCES kv_spaces (num) ON DELETE CASCADE,
    key     bytea  NOT NULL, -- UTF-8, in the order of its bytes
    owner   text   COLLATE "C" NOT NULL,
    value   bytea  NOT NULL,
    updated bigint NOT NULL,
    PRIMARY KEY (space, key)
);

CREATE TABLE approvals (
    num        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order they were asked
    id         text   COLLATE "C" NOT NULL UNIQUE,
    question   text   COLLATE "C" NOT NULL UNIQUE, -- digest of call and key, of which the call is the model's and of any length
    owner      text   COLLATE "C" NOT NULL,
    session    text   COLLATE "C" NOT NULL,
    run        text   COLLATE "C" NOT NULL,
    call       text   NOT NULL,
    key        text   NOT NULL,
    agent      text   COLLATE "C" NOT NULL,
    tool       text   COLLATE "C" NOT NULL,
    arguments  text   NOT NULL,
    policies   text   NOT NULL,
    generation bigint NOT NULL,
    status     text   NOT NULL,
    scope      text   NOT NULL,
    decided_by text   NOT NULL,
    created    bigint NOT NULL,
    expires    bigint NOT NULL, -- 0: never
    decided    bigint NOT NULL  -- 0: not yet
);
CREATE INDEX approvals_by_owner ON approvals (owner, num);
CREATE INDEX approvals_by_run ON approvals (run);
CREATE INDEX approvals_pending ON approvals (owner) WHERE status = 'pending';

CREATE TABLE grants (
    owner    text   COLLATE "C" NOT NULL,
    session  text   COLLATE "C" NOT NULL, -- empty: every one
    agent    text   COLLATE "C" NOT NULL,
    tool     text   COLLATE "C" NOT NULL,
    policy   text   COLLATE "C" NOT NULL,
    digest   text   COLLATE "C" NOT NULL, -- of the declarations of policy and tool
    approval text   COLLATE "C" NOT NULL,
    created  bigint NOT NULL,
    PRIMARY KEY (owner, agent, tool, policy, digest, session)
);
CREATE INDEX grants_by_approval ON grants (approval);

-- What was live. A generation is prepared (live = 0) before it goes live and confirmed
-- after. highest is the largest number ever used; that of a generation which was
-- prepared and abandoned, or dropped, is not given to another. Whoever changes the
-- history locks this row first.
CREATE TABLE history (
    one     integer PRIMARY KEY CHECK (one = 1),
    owner   text    COLLATE "C" NOT NULL,
    highest bigint  NOT NULL,
    secret  bytea -- the key of digests of sensitive values; NULL: not made yet
);
INSERT INTO history (one, owner, highest) VALUES (1, 'operator', 0);

CREATE TABLE generations (
    number   bigint PRIMARY KEY CHECK (number > 0),
    parent   bigint NOT NULL, -- 0: none
    owner    text   COLLATE "C" NOT NULL, -- who asked
    cause    text   NOT NULL,
    prepared bigint NOT NULL,
    live     bigint NOT NULL, -- 0: not known to have been
    bytes    bigint NOT NULL, -- what it added to the history
    inputs   text   NOT NULL,
    diff     text,
    meta     text   COLLATE "C" NOT NULL  -- digest of a body; empty: none
);
CREATE UNIQUE INDEX generations_prepared ON generations (live) WHERE live = 0;
CREATE INDEX generations_by_size ON generations (number, bytes);
CREATE INDEX generations_by_meta ON generations (meta);

-- An input or an object is in the generations from from_gen up to, and without, to_gen;
-- NULL: in every later one so far. Adding a generation so writes what changed only, and
-- undoing it is deleting what begins with it and opening what ends with it.
CREATE TABLE generation_inputs (
    path     bytea   NOT NULL, -- names of files need not be UTF-8
    from_gen bigint  NOT NULL,
    to_gen   bigint  CHECK (to_gen > from_gen),
    owner    text    COLLATE "C" NOT NULL,
    digest   text    COLLATE "C" NOT NULL,
    size     bigint  NOT NULL,
    module   boolean NOT NULL, -- the content is in a file of its own
    absent   boolean NOT NULL, -- there was no such file
    PRIMARY KEY (path, from_gen)
);
CREATE UNIQUE INDEX generation_inputs_open ON generation_inputs (path) WHERE to_gen IS NULL;
CREATE INDEX generation_inputs_from ON generation_inputs (from_gen);
CREATE INDEX generation_inputs_to ON generation_inputs (to_gen) WHERE to_gen IS NOT NULL;
CREATE INDEX generation_inputs_digest ON generation_inputs (digest);

CREATE TABLE generation_objects (
    id       text    COLLATE "C" NOT NULL,
    from_gen bigint  NOT NULL,
    to_gen   bigint  CHECK (to_gen > from_gen),
    owner    text    COLLATE "C" NOT NULL,
    digest   text    COLLATE "C" NOT NULL,
    packed   boolean NOT NULL, -- the body is deflated
    body     bytea   NOT NULL,
    PRIMARY KEY (id, from_gen)
);
CREATE UNIQUE INDEX generation_objects_open ON generation_objects (id) WHERE to_gen IS NULL;
CREATE INDEX generation_objects_from ON generation_objects (from_gen);
CREATE INDEX generation_objects_to ON generation_objects (to_gen) WHERE to_gen IS NOT NULL;

-- Texts of inputs, and metas, once each.
CREATE TABLE generation_bodies (
    digest text    COLLATE "C" PRIMARY KEY, -- hex sha256 of the text
    owner  text    COLLATE "C" NOT NULL, -- who was first
    packed boolean NOT NULL,
    body   bytea   NOT NULL
);
