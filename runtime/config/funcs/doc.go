// Package funcs holds the functions of the configuration language.
//
// Pure functions depend on their arguments alone; host functions read files and the
// environment through a [Host], which decides what may be read and records it. There
// are no functions of the clock or of chance: a load is a function of its inputs.
//
// # Invariants
//
// No function takes a mark off a value except nonsensitive: a result that was computed
// from a sensitive value is sensitive.
//
// # Errors
//
// What host functions refuse is an [*Error], whose summary and detail are shown as
// they stand. Other errors are sentences for the operator and carry no values.
package funcs
