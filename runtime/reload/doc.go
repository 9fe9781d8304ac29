// Package reload keeps the live generation in step with the files it is built from.
//
// It decides when to load and what of a change goes live. What files mean is
// config's, what is built from them provision's; who holds a generation, and until
// when, is snapshot's.
//
//	events, poll ─► debounce ─┐
//	SIGHUP, API ──────────────┴─► scan ─► equal? done
//	                                │ candidate = live inputs + changes on disk
//	                                ▼
//	                        ┌─► load ─► build ─► prepare ─► swap ─► confirm
//	                        │      └──────┴─ errors: blame each on one change
//	                        └── withhold the blamed changes, again
//
// Prepare and confirm are commits in the history: a generation that was confirmed was
// live, and is the last good one. A lenient start that meets errors loads it from there,
// and settles the disk as changes to it. Plan does everything up to the build and keeps
// nothing; Apply is a reload that withholds nothing: all goes live, or none.
//
// # Invariants
//
// At most one reload runs; a call during it waits for one more that starts after
// it. All loads of a candidate see the same bytes: each file is read once. A live
// generation is not touched while its successor is built. Equal inputs are the same
// generation. A change below a tools directory that does not load is withheld alone;
// one of any other input withholds the whole candidate except removals below tools
// directories.
//
// With a history a number names one generation for ever: the next one is above all that
// were used, and a start that comes to what was live before, or was prepared, has its
// number again. A history that cannot be written keeps nothing from going live; what went
// live meanwhile is recorded later as one change, and if the process ends before that,
// its numbers are given again.
//
// # What is seen of the disk
//
// A poll, SIGHUP and the API look at every input; a file is read again unless its inode,
// size and times are what they were for two seconds of our own clock, so that times which
// run backwards or lie in the future hide nothing. An event leads to a look at the files
// it names. Lost events, and those about directories and links, lead to a look at
// everything, and so does every event while some directory cannot be watched. Whatever
// gives no event is found by the next poll: hard links written by another name, writes
// through memory (when the system marks the file), changes made by another machine, a
// parent of the project exchanged for another.
//
// A change is taken when events, and the changed files themselves, have been left alone
// for Quiet, and at the latest MaxWait after the first event. A file that is empty, holds
// the beginning of the live one only, or ends within a line where the live one did not, is
// waited for until it was left alone for MaxWait, up to twice that. Somebody who writes
// in place and stops for longer, where a block ends, cannot be told from somebody who is
// done; one who renames a finished file into place is never seen half-way. What a trigger
// insists on is taken as it is.
//
// What is no readable file or directory below a tools directory is a change that does
// not load: it is withheld, and what was live in its place stays.
//
// # Concurrency
//
// A [Reloader] is safe for concurrent use. It has a goroutine only while a reload
// runs or in Run; both have ended when the calls that started them have, but for a write
// to a history that hangs.
//
// # Errors
//
// What the files say wrong is no error of a reload: it stands in the [Outcome]. Only
// Start without lenient makes it one, fault.Invalid.
package reload
