// Package result is what a model gets of a text that is too long for it: an excerpt with
// an outline, and, on demand, a part.
//
// It keeps nothing (artifact and store do) and decides nothing about limits (dispatch
// does).
//
//	$.rows[3]  ─► path ─► the value's place ─┬─► bytes, as text or base64, page by page
//	                                         ├─► the value, if it fits
//	                                         └─► grep: lines of a text, values of JSON
//
// # Invariants
//
// What [Read] answers, as JSON, has no more characters than it may have. Pages that follow
// each other by NextOffset have every byte once. However large the source and however
// deep its JSON, memory is bounded: it is read piece by piece, and nothing recurses over
// it.
//
// # Errors
//
// A pattern or path that is not one, or that leads nowhere, is fault.Invalid and says which
// part is wrong and what is there instead. Errors of the source are passed on.
package result

// What the content of a result may be.
const (
	JSON   = "application/json"
	Text   = "text/plain"
	Binary = "application/octet-stream"
)
