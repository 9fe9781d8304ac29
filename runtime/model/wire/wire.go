// Package wire is what adapters of models over HTTP have in common: where requests go and
// what is sent with them (Endpoint), how long an answer may take (Watch), the events of
// its stream (Events), the errors of providers in their own words (Report), and what of a
// conversation every wire takes.
//
// It knows the format of no provider: requests and answers are the adapters' own.
//
// # Invariants
//
// Nothing of the configuration is in an error: not the URL, not a key, not an address.
// What a provider says is shown bounded, on one line, with every secret of the model's
// own configuration taken out.
//
// Everything a provider sends is bounded: header, event, stream, error.
//
// # Concurrency
//
// An Endpoint is immutable and safe for concurrent use; a Watch and Events belong to one
// call.
//
// # Errors
//
// As model.Provider says. [Endpoint.Failure] makes them of whatever ended a call.
package wire
