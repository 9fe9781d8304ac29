// Command load measures turns and streams as clients see them: it starts a model server, hermes and a
// bare go-openai loop as processes of their own, drives them, and prints one table.
//
//	go run ./load            all modes, some minutes
//	go run ./load -short     a quarter of a minute; fails if an answer is wrong
//
// The model answers at once, or slowly in chunks of 24 bytes that carry the time at which they
// were sent, so that the driver knows how late each arrives. The bare loop receives from the
// same model with go-openai and passes each chunk on: the least that any server in between
// does.
//
// Figures of memory and processor are those of the process under test, from /proc.
package main
